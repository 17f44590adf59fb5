//! The index and the look at one after the other find the same rule: the one that the Gateway API's words let go first.

use std::cmp::Ordering;

use proptest::prelude::*;

use super::*;

/// How the Gateway API says it: all rules that match, and of these the one that goes first.
fn by_looking_at_all<'r>(rules: &'r Rules, text: &str) -> Option<&'r Rule> {
    let head = parsed(text);
    let request = Request::new(&head, text.as_bytes());
    let matching = rules.iter().filter(|rule| {
        is_host(&rule.host, request.host_name())
            && is_path(&rule.matches.path, request.path())
            && rule.matches.holds_but_for_path(request)
    });
    matching.min_by(|one, two| who_goes_first(one, two))
}

fn is_host(host: &Host, name: &[u8]) -> bool {
    let name = name.to_ascii_lowercase();
    match host {
        Host::Any => true,
        Host::Exact(wanted) => name == wanted.as_bytes(),
        Host::Wildcard(suffix) => name.len() > suffix.len() && name.ends_with(suffix.as_bytes()),
    }
}

fn is_path(wanted: &PathMatch, path: &[u8]) -> bool {
    match wanted {
        PathMatch::Any => true,
        PathMatch::Exact(wanted) => path == wanted.as_bytes(),
        PathMatch::Prefix(prefix) => path
            .strip_prefix(prefix.as_bytes())
            .is_some_and(|rest| matches!(rest, [] | [b'/', ..])),
        PathMatch::Regex(pattern) => pattern.matches(path),
    }
}

fn who_goes_first(one: &Rule, two: &Rule) -> Ordering {
    let host = |rule: &Rule| match &rule.host {
        Host::Exact(name) => (2, name.len()),
        Host::Wildcard(suffix) => (1, suffix.len()),
        Host::Any => (0, 0),
    };
    let path = |rule: &Rule| match &rule.matches.path {
        PathMatch::Exact(path) => (2, path.len()),
        PathMatch::Regex(pattern) => (1, pattern.as_str().len()),
        PathMatch::Prefix(prefix) => (0, prefix.len()),
        PathMatch::Any => (0, 0),
    };
    let conditions = |rule: &Rule| {
        let matches = &rule.matches;
        let counts = (matches.headers.len(), matches.query.len());
        (matches.method.is_some(), counts)
    };
    // The greater first.
    (host(two), path(two), conditions(two))
        .cmp(&(host(one), path(one), conditions(one)))
        .then_with(|| one.origin.cmp(&two.origin))
}

/// One of few, so that rules and requests meet.
fn any_host() -> impl Strategy<Value = Host> {
    prop_oneof![
        Just(Host::Any),
        "(a|b|aa)(\\.(a|b|aa)){0,3}".prop_map(|name| host(&name)),
        "\\*(\\.(a|b|aa)){1,3}".prop_map(|name| host(&name)),
    ]
}

fn any_path() -> impl Strategy<Value = PathMatch> {
    let text = "(/(a|b|ab)?){1,4}";
    prop_oneof![
        text.prop_map(|path| PathMatch::Exact(path.into())),
        text.prop_map(|path| PathMatch::prefix(&path)),
        text.prop_map(|path| PathMatch::prefix(&path)),
        "/(a|b|\\[ab\\])(/a\\*|/\\.\\*)?".prop_map(|text| PathMatch::Regex(regex(&text))),
    ]
}

prop_compose! {
    fn any_match()(
        path in any_path(),
        method in proptest::option::weighted(0.2, prop_oneof![Just("GET"), Just("PUT")]),
        headers in proptest::collection::vec("x-[ab]", 0..2),
        query in proptest::collection::vec("[ab]", 0..2),
    ) -> Match {
        Match {
            path,
            method: method.map(Into::into),
            headers: headers.iter().map(|name| field(name, "1")).collect(),
            query: query.iter().map(|name| field(name, "1")).collect(),
        }
    }
}

prop_compose! {
    fn any_request()(
        method in prop_oneof![Just("GET"), Just("PUT")],
        path in "(/(a|b|ab|A)?){1,5}",
        query in "(\\?a=1|\\?b=1|\\?a=1&b=1|\\?)?",
        host in "(a|b|aa|A|c)(\\.(a|b|aa|B|c)){0,4}(\\.|:80)?",
        fields in "(x-a: 1\r\n)?(X-B: 1\r\n)?",
    ) -> String {
        format!("{method} {path}{query} HTTP/1.1\r\nHost: {host}\r\n{fields}\r\n")
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]
    #[test]
    fn what_is_found_is_what_goes_first_of_all_rules_that_match(
        list in prop_oneof![
            proptest::collection::vec((any_host(), any_match()), 0..7),
            proptest::collection::vec((any_host(), any_match()), 7..30),
        ],
        requests in proptest::collection::vec(any_request(), 20),
    ) {
        let rules = rules(list);
        for text in requests {
            let head = parsed(&text);
            let request = Request::new(&head, text.as_bytes());
            let expected = by_looking_at_all(&rules, &text).map(|rule| &rule.origin);
            let found = rules.find(request).map(|rule| &rule.origin);
            prop_assert_eq!(found, expected, "{}", text);
            let indexed = rules.index.find(&rules.rules, request);
            prop_assert_eq!(indexed.map(|rule| &rule.origin), expected, "{}, by the index", text);
        }
    }
}

#[test]
fn names_and_paths_of_any_length_are_looked_up() {
    let long = format!("{}com", "a.".repeat(300));
    let deep = "/a".repeat(5_000);
    let rules = rules(vec![
        (host("*.com"), path(PathMatch::prefix("/a/a"))),
        (host("*.a.com"), path(PathMatch::Exact("/b".into()))),
        (Host::Any, Match::default()),
    ]);
    for (name, target, expected) in [
        (long.as_str(), deep.as_str(), 0),
        (&long, "/b", 1),
        (&long, "/", 2),
        ("com", "/a/a", 2),
        ("A.Com.", "/a/a", 0),
        ("a.com", "/b", 2),
    ] {
        let text = get(name, target);
        let head = parsed(&text);
        let request = Request::new(&head, text.as_bytes());
        let indexed = rules.index.find(&rules.rules, request);
        for rule in [rules.find(request), indexed] {
            let place = rule.map(|rule| rule.origin.rule);
            assert_eq!(place, Some(expected), "{name} {target}");
        }
    }
}
