//! The deny list's file: a prefix or an address a line, of either family; what follows a `#` is for people.

use std::net::IpAddr;

use super::{Position, Problem, Severity, Source};
use crate::snapshot::{DenyList, Prefix};

/// Prefixes of a family there may be: what the kernel's tables are made for.
const MOST: usize = weir_common::MAX_DENIED as usize;
/// More mistakes than this say that the file is something else.
const MOST_PROBLEMS: usize = 100;

/// Reads a deny list, or finds everything that is wrong with it.
///
/// # Errors
/// One problem for each line that is neither a prefix nor an address, up to a hundred; or that there are more prefixes of a
/// family than the kernel has room for.
pub fn read_deny_list(source: &Source) -> Result<DenyList, Vec<Problem>> {
    let mut prefixes = Vec::new();
    let mut problems = Vec::new();
    for (number, line) in (1..).zip(source.text.lines()) {
        let entry = line.split('#').next().unwrap_or_default();
        let text = entry.trim();
        if text.is_empty() {
            continue;
        }
        match prefix(text) {
            Ok(prefix) => prefixes.push(prefix),
            Err(message) => {
                let before = entry.len() - entry.trim_start().len();
                let column = 1 + line[..before].chars().count() as u64;
                let at = Position {
                    line: number,
                    column,
                };
                problems.push(problem(source, at, message));
            }
        }
    }
    problems.truncate(MOST_PROBLEMS);
    let list: DenyList = prefixes.into_iter().collect();
    let of_v4 = list.iter().filter(|one| one.first().is_ipv4()).count();
    for (family, count) in [("IPv4", of_v4), ("IPv6", list.len() - of_v4)] {
        if count > MOST {
            let message = format!("{count} prefixes of {family}; at most {MOST} can be denied");
            problems.push(problem(source, Position { line: 1, column: 1 }, message));
        }
    }
    match problems.is_empty() {
        true => Ok(list),
        false => Err(problems),
    }
}

fn problem(source: &Source, position: Position, message: String) -> Problem {
    Problem {
        severity: Severity::Error,
        file: source.name.clone(),
        position,
        key: String::new(),
        message,
    }
}

fn prefix(text: &str) -> Result<Prefix, String> {
    let (address, length) = match text.split_once('/') {
        Some((address, length)) => (address, Some(length)),
        None => (text, None),
    };
    let address: IpAddr = address.parse().map_err(|_| {
        format!("`{text}` is neither an address nor a prefix; write one like 192.0.2.0/24 or 2001:db8::/32")
    })?;
    if address.to_canonical() != address {
        let v4 = address.to_canonical();
        return Err(format!(
            "`{text}` stands for an address of IPv4, and packets carry that as such; write {v4}"
        ));
    }
    let bits = if address.is_ipv4() { 32 } else { 128 };
    let Some(length) = length else {
        return Ok(Prefix::around(address, bits).expect("all bits of its family"));
    };
    let is_number = length.bytes().all(|byte| byte.is_ascii_digit());
    let prefix = length.parse().ok().filter(|_| is_number);
    let prefix = prefix.and_then(|length| Prefix::around(address, length));
    let prefix = prefix.ok_or_else(|| {
        format!("`{text}`: the length of this prefix is a number from 0 to {bits}")
    })?;
    match prefix.first() == address {
        true => Ok(prefix),
        false => Err(format!(
            "`{text}` has bits behind its length; write {prefix}, or {address} for the one address"
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<Vec<String>, Vec<String>> {
        let source = Source {
            name: "deny".to_owned(),
            text: text.to_owned(),
        };
        let list = read_deny_list(&source)
            .map_err(|problems| problems.iter().map(ToString::to_string).collect::<Vec<_>>())?;
        Ok(list.iter().map(|prefix| prefix.to_string()).collect())
    }

    #[test]
    fn prefixes_and_addresses_of_both_families_are_read_and_comments_are_not() {
        let text = "# from the abuse desk\n192.0.2.0/24\n  198.51.100.7 # a scanner\n\n2001:db8:bad::/48\r\n::1\n192.0.2.0/24\n0.0.0.0/0";
        let expected = [
            "0.0.0.0/0",
            "192.0.2.0/24",
            "198.51.100.7/32",
            "::1/128",
            "2001:db8:bad::/48",
        ];
        assert_eq!(read(text), Ok(expected.map(str::to_owned).to_vec()));
        assert_eq!(read(""), Ok(Vec::new()));
    }

    #[test]
    fn every_wrong_line_is_named_with_its_place_and_remedy() {
        let text = "10.0.0.0/33\n10.0.0.0/8\n  10.1.2.3/8\nexample.org\n::ffff:10.0.0.1\n2001:db8::/+4\n10.0.0.0/";
        let problems = read(text).expect_err("six lines are wrong");
        let expected = [
            "deny:1:1: error: `10.0.0.0/33`: the length of this prefix is a number from 0 to 32",
            "deny:3:3: error: `10.1.2.3/8` has bits behind its length; write 10.0.0.0/8, or 10.1.2.3 for the one address",
            "deny:4:1: error: `example.org` is neither an address nor a prefix; write one like 192.0.2.0/24 or 2001:db8::/32",
            "deny:5:1: error: `::ffff:10.0.0.1` stands for an address of IPv4, and packets carry that as such; write 10.0.0.1",
            "deny:6:1: error: `2001:db8::/+4`: the length of this prefix is a number from 0 to 128",
            "deny:7:1: error: `10.0.0.0/`: the length of this prefix is a number from 0 to 32",
        ];
        assert_eq!(problems, expected);
    }

    #[test]
    fn more_prefixes_than_the_kernel_has_room_for_are_refused() {
        let addresses = (0..=MOST as u32).map(std::net::Ipv4Addr::from_bits);
        let text: Vec<String> = addresses.map(|address| address.to_string()).collect();
        let problems = read(&text.join("\n")).expect_err("one too many");
        assert_eq!(
            problems,
            ["deny:1:1: error: 131073 prefixes of IPv4; at most 131072 can be denied"]
        );
    }
}
