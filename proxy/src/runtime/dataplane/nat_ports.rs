//! Ports of ours that connections of L4 services get in the kernel. The host does not know of them: it may give one to a
//! socket of its own towards the same endpoint, whose answers would then go to a client. So they are ones it does not give.

use std::ops::RangeInclusive;

type Ports = RangeInclusive<u16>;

/// Outside of what Linux gives unless told otherwise.
const PREFERRED: Ports = 10_240..=32_767;
/// Those below are for services the host is known by.
const LOWEST: u16 = 1024;
/// Fewer are used up by a busy endpoint.
const FEWEST: usize = 1024;
const GIVEN: &str = "/proc/sys/net/ipv4/ip_local_port_range";

/// First port and count, as the programs want them: those preferred where the host leaves no room.
pub fn chosen() -> [u32; 2] {
    let ports = beside_the_hosts().unwrap_or(PREFERRED);
    [u32::from(*ports.start()), ports.len() as u32]
}

/// That sockets of the host may get the same ports, in words.
pub fn warning() -> Option<String> {
    beside_the_hosts().is_none().then(|| {
        let (first, last) = (PREFERRED.start(), PREFERRED.end());
        format!(
            "connections of L4 services get ports {first} to {last}, which the host gives to its own sockets, too: \
             `sysctl -w net.ipv4.ip_local_port_range=\"32768 60999\"` and a new start keep them apart"
        )
    })
}

fn beside_the_hosts() -> Option<Ports> {
    let given = std::fs::read_to_string(GIVEN).ok();
    match given.as_deref().and_then(parsed) {
        Some(given) => beside(&given),
        None => Some(PREFERRED),
    }
}

fn parsed(text: &str) -> Option<Ports> {
    let mut ports = text.split_ascii_whitespace().map(str::parse);
    let (first, last) = (ports.next()?.ok()?, ports.next()?.ok()?);
    Some(first..=last)
}

/// None if there are too few.
fn beside(given: &Ports) -> Option<Ports> {
    if given.start() > PREFERRED.end() || given.end() < PREFERRED.start() {
        return Some(PREFERRED);
    }
    let below = LOWEST..=given.start().saturating_sub(1);
    let above = given.end().saturating_add(1)..=u16::MAX;
    let longer = if below.len() > above.len() {
        below
    } else {
        above
    };
    (longer.len() >= FEWEST).then_some(longer)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ports_are_none_the_host_gives_to_its_sockets() {
        let beside = |text: &str| beside(&parsed(text).expect("a range"));
        assert_eq!(beside("32768\t60999\n"), Some(PREFERRED));
        assert_eq!(beside("1024 10239"), Some(PREFERRED));
        assert_eq!(beside("15000 64000"), Some(1024..=14_999));
        assert_eq!(beside("1024 40000"), Some(40_001..=65_535));
    }

    #[test]
    fn where_the_host_gives_nearly_all_there_is_no_room() {
        let beside = |text: &str| beside(&parsed(text).expect("a range"));
        for given in ["1024 65535", "2000 65000", "0 65535"] {
            assert_eq!(beside(given), None, "{given}");
        }
    }

    #[test]
    fn what_is_no_range_is_none() {
        for text in ["", "32768", "a b", "1 70000"] {
            assert_eq!(parsed(text), None, "{text}");
        }
    }
}
