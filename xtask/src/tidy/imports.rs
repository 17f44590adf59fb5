//! Which module of the proxy may import which. The table has leaves first, and no row names a row below it, so imports
//! run one way. A new module, or a new import, is a decision: it is made here.

use super::code::blank;
use super::{File, Problem};

const SOURCE: &str = "proxy/src/";

/// Each module with those it may import.
const MODULES: [(&str, &[&str]); 21] = [
    ("moment", &[]),
    ("http", &[]),
    ("balance", &["moment"]),
    ("timer", &["moment"]),
    ("proxy_protocol", &[]),
    ("access_log", &["moment"]),
    ("route", &["http"]),
    ("cel", &[]),
    ("affinity", &["http", "balance", "cel"]),
    ("condition", &["http", "affinity", "cel"]),
    ("check", &[]),
    (
        "snapshot",
        &[
            "proxy_protocol",
            "balance",
            "route",
            "affinity",
            "condition",
            "check",
        ],
    ),
    (
        "config",
        &[
            "proxy_protocol",
            "http",
            "balance",
            "route",
            "affinity",
            "condition",
            "check",
            "snapshot",
        ],
    ),
    (
        "metrics",
        &["moment", "balance", "affinity", "condition", "snapshot"],
    ),
    ("seam", &["moment", "balance", "snapshot"]),
    (
        "conn",
        &["moment", "http", "balance", "timer", "snapshot", "seam"],
    ),
    (
        "exchange",
        &[
            "moment",
            "http",
            "balance",
            "timer",
            "access_log",
            "route",
            "affinity",
            "condition",
            "snapshot",
            "metrics",
            "seam",
            "conn",
        ],
    ),
    (
        "relay",
        &[
            "proxy_protocol",
            "moment",
            "balance",
            "timer",
            "access_log",
            "route",
            "affinity",
            "snapshot",
            "metrics",
            "seam",
            "conn",
        ],
    ),
    (
        "front",
        &["moment", "access_log", "seam", "exchange", "relay"],
    ),
    (
        "runtime",
        &[
            "moment",
            "http",
            "balance",
            "timer",
            "access_log",
            "route",
            "affinity",
            "check",
            "snapshot",
            "config",
            "metrics",
            "seam",
            "conn",
            "exchange",
            "relay",
            "front",
        ],
    ),
    (
        "cli",
        &[
            "moment",
            "balance",
            "route",
            "affinity",
            "condition",
            "check",
            "snapshot",
            "config",
            "metrics",
            "exchange",
            "relay",
            "runtime",
        ],
    ),
];

pub fn problems(file: &File) -> Vec<Problem> {
    let Some(path) = file.path.strip_prefix(SOURCE) else {
        return Vec::new();
    };
    if matches!(path, "lib.rs" | "main.rs") || !path.ends_with(".rs") {
        return Vec::new();
    }
    let parts: Vec<&str> = path.trim_end_matches(".rs").split('/').collect();
    let module = parts[0];
    let Some((_, allowed)) = MODULES.iter().find(|(name, _)| *name == module) else {
        return vec![file.problem(1, format!("{module} is not in {}", file!()))];
    };
    let depth = parts.len() - usize::from(parts.last() == Some(&"mod"));
    let code = blank(&file.text);
    imports(&code, depth)
        .filter(|(_, import)| *import != module && !allowed.contains(import))
        .map(|(at, import)| {
            let line = 1 + code[..at].matches('\n').count();
            let may = match allowed {
                [] => "no other module".to_owned(),
                _ => format!("only {}", allowed.join(", ")),
            };
            file.problem(line, format!("{module} may import {may}, not {import}"))
        })
        .collect()
}

/// Modules of the crate that the code names, each with where it does so. `depth` is how many modules up the crate is.
fn imports(code: &str, depth: usize) -> impl Iterator<Item = (usize, &str)> {
    let from_crate = code
        .match_indices("crate::")
        .filter(|(at, _)| !code[..*at].ends_with(|c: char| c.is_alphanumeric() || c == '_'))
        .flat_map(|(at, word)| names(code, at + word.len()));
    // Enough `super`s lead to the same place. In an inline module they lead less far, to names that are no modules.
    let supers = "super::".repeat(depth);
    let above: Vec<(usize, &str)> = code
        .match_indices(&supers)
        .flat_map(|(at, word)| names(code, at + word.len()))
        .filter(|(_, name)| MODULES.iter().any(|(module, _)| module == name))
        .collect();
    from_crate.chain(above)
}

/// The first names of the path, or group of paths, that starts at `at`.
fn names(code: &str, at: usize) -> Vec<(usize, &str)> {
    if !code[at..].starts_with('{') {
        return vec![(at, name(&code[at..]))];
    }
    let mut names = Vec::new();
    let mut depth = 0;
    let mut is_start = false;
    for (offset, c) in code[at..].char_indices() {
        match c {
            '{' => depth += 1,
            '}' => depth -= 1,
            _ if depth == 1 && is_start && !c.is_whitespace() => {
                names.push((at + offset, name(&code[at + offset..])));
            }
            _ => {}
        }
        if depth == 0 {
            break;
        }
        is_start = depth == 1 && (matches!(c, '{' | ',') || is_start && c.is_whitespace());
    }
    names
}

fn name(code: &str) -> &str {
    let end = code.find(|c: char| !c.is_alphanumeric() && c != '_');
    &code[..end.unwrap_or(code.len())]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(path: &str, text: &str) -> Vec<String> {
        let file = File {
            path: format!("proxy/src/{path}"),
            text: text.to_owned(),
        };
        problems(&file).iter().map(Problem::to_string).collect()
    }

    #[test]
    fn imports_run_one_way() {
        for (row, (module, allowed)) in MODULES.iter().enumerate() {
            for import in *allowed {
                let above = MODULES[..row].iter().any(|(name, _)| name == import);
                assert!(above, "{module} imports {import}, which is not above it");
            }
        }
    }

    #[test]
    fn allowed_imports_pass() {
        for (path, text) in [
            (
                "balance/p2c.rs",
                "use crate::moment::Moment;\nuse super::score;",
            ),
            (
                "balance/p2c.rs",
                "use crate::balance::score::{Score, http};",
            ),
            (
                "balance/mod.rs",
                "//! See [`exchange`](crate::exchange).\nmod tests { use super::*; }",
            ),
            (
                "conn/pool.rs",
                "use crate::{moment::Moment, seam::{self, ConnId}};",
            ),
            ("main.rs", "use weir::runtime;"),
            ("lib.rs", "pub mod anything;"),
        ] {
            assert_eq!(of(path, text), [""; 0], "{text}");
        }
    }

    #[test]
    fn imports_from_below_are_named() {
        for (path, text) in [
            ("moment.rs", "\nuse crate::seam::ConnId;"),
            ("moment.rs", "\nuse super::seam::ConnId;"),
            ("moment.rs", "\nlet x = crate::seam::X;"),
            ("moment.rs", "use crate::{\n    seam::ConnId};"),
            ("moment.rs", "use crate::{moment::{a, b},\n    seam};"),
        ] {
            let expected = "proxy/src/moment.rs:2: moment may import no other module, not seam";
            assert_eq!(of(path, text), [expected], "{text}");
        }
        let expected = "proxy/src/balance/p2c.rs:1: balance may import only moment, not http";
        for text in [
            "use crate::http::Method;",
            "use super::super::http::Method;",
        ] {
            assert_eq!(of("balance/p2c.rs", text), [expected], "{text}");
        }
        let expected = "proxy/src/balance/mod.rs:1: balance may import only moment, not http";
        assert_eq!(of("balance/mod.rs", "use super::http::Method;"), [expected]);
    }

    #[test]
    fn a_module_without_a_row_is_named() {
        assert_eq!(of("odds_and_ends.rs", "").len(), 1);
    }
}
