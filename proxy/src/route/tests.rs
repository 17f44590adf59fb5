//! Parsed heads against rules in every order of precedence.

use super::*;
use crate::http::h1::{HeadLimits, RequestHead};

/// Which of the rules, by place, a request goes to.
fn found(rules: &Rules, text: &str) -> Option<usize> {
    let mut head = RequestHead::default();
    head.parse(text.as_bytes(), &HeadLimits::default())
        .expect("a valid head");
    let rule = rules.find(Request::new(&head, text.as_bytes()))?;
    rule.handling.split.draw(|_| 0).map(|share| share.backend)
}

fn get(host: &str, target: &str) -> String {
    format!("GET {target} HTTP/1.1\r\nHost: {host}\r\n\r\n")
}

/// Each rule leads to its place in the list.
fn rules(list: Vec<(Host, Match)>) -> Rules {
    let rule = |(place, (host, matches))| Rule {
        host,
        matches,
        origin: Origin {
            rule: place,
            ..Origin::default()
        },
        handling: Arc::new(Split::one(place).into()),
    };
    Rules::new(list.into_iter().enumerate().map(rule).collect())
}

fn host(text: &str) -> Host {
    Host::parse(text).expect("a host name")
}

fn path(path: PathMatch) -> Match {
    Match {
        path,
        ..Match::default()
    }
}

fn regex(text: &str) -> Pattern {
    Pattern::regex(text).expect("a regular expression")
}

fn field(name: &str, value: &str) -> FieldMatch {
    FieldMatch {
        name: name.into(),
        value: Pattern::exact(value),
    }
}

#[test]
fn the_more_specific_host_wins_whatever_else_matches() {
    let exact_path = || path(PathMatch::Exact("/a".into()));
    let rules = rules(vec![
        (Host::Any, exact_path()),
        (host("*.example.com"), exact_path()),
        (host("*.shop.example.com"), Match::default()),
        (host("www.shop.example.com"), Match::default()),
    ]);
    for (name, expected) in [
        ("www.shop.example.com", Some(3)),
        ("WWW.Shop.Example.com:8080", Some(3)),
        ("www.shop.example.com.", Some(3)),
        ("a.b.shop.example.com", Some(2)),
        ("shop.example.com", Some(1)),
        ("example.com", Some(0)),
        ("badexample.com", Some(0)),
        ("[::1]:80", Some(0)),
    ] {
        assert_eq!(found(&rules, &get(name, "/a")), expected, "{name}");
    }
    assert_eq!(found(&rules, &get("shop.example.com", "/b")), None);
    assert_eq!(found(&rules, "GET /a HTTP/1.0\r\n\r\n"), Some(0));
}

#[test]
fn exact_paths_go_before_expressions_and_those_before_prefixes() {
    let rules = rules(vec![
        (Host::Any, Match::default()),
        (Host::Any, path(PathMatch::prefix("/a"))),
        (Host::Any, path(PathMatch::prefix("/a/long/"))),
        (Host::Any, path(PathMatch::Regex(regex("/a/[0-9]+")))),
        (Host::Any, path(PathMatch::Exact("/a/7".into()))),
    ]);
    for (target, expected) in [
        ("/a/7", 4),
        ("/a/7?x=/a/8", 4),
        ("/a/8", 3),
        ("/a/8/", 1),
        ("/a", 1),
        ("/a/", 1),
        ("/a?b", 1),
        ("/ab", 0),
        ("/A", 0),
        ("/a/long", 2),
        ("/a/long/way", 2),
        ("/a/longer", 1),
        ("http://elsewhere/a/8", 3),
        ("http://elsewhere", 0),
    ] {
        assert_eq!(found(&rules, &get("x", target)), Some(expected), "{target}");
    }
}

#[test]
fn a_method_then_headers_then_query_parameters_decide_between_equal_paths() {
    let method = Match {
        method: Some("PUT".into()),
        ..Match::default()
    };
    let two_headers = Match {
        headers: vec![field("x-one", "1"), field("x-two", "2")],
        ..Match::default()
    };
    let one_header = Match {
        headers: vec![field("X-One", "1")],
        query: vec![field("q", "1"), field("r", "2")],
        ..Match::default()
    };
    let query = Match {
        query: vec![field("q", "1")],
        ..Match::default()
    };
    let matches = [query, one_header, two_headers, method];
    let rules = rules(matches.map(|one| (Host::Any, one)).into());
    for (line, fields, expected) in [
        ("PUT /?q=1&r=2", "X-One: 1\r\nX-Two: 2\r\n", Some(3)),
        ("GET /?q=1&r=2", "X-One: 1\r\nx-TWO: 2\r\n", Some(2)),
        ("GET /?q=1&r=2", "X-One: 1\r\nX-Two: 3\r\n", Some(1)),
        ("GET /?q=1&r=2", "X-One: 0\r\nX-One: 1\r\n", Some(1)),
        ("GET /?q=1", "X-One: 1\r\n", Some(0)),
        ("GET /?q=2&q=1", "", None),
        ("put /?q=2", "", None),
        ("GET /", "", None),
    ] {
        let head = format!("{line} HTTP/1.1\r\nHost: x\r\n{fields}\r\n");
        assert_eq!(found(&rules, &head), expected, "{head}");
    }
}

#[test]
fn the_older_route_then_its_name_then_the_earlier_rule_decide_between_equals() {
    let origin = |created: Created, name: &str, rule| Origin {
        created,
        namespace: "default".into(),
        name: name.into(),
        rule,
    };
    let at = |year: u32| Created::At(format!("{year}-01-01T00:00:00Z").into());
    let in_order = [
        origin(at(2020), "z", 1),
        origin(at(2021), "a", 0),
        origin(Created::Unknown, "a", 1),
        origin(Created::Unknown, "b", 0),
        origin(Created::Unknown, "b", 1),
    ];
    let rule = |(place, origin)| Rule {
        host: Host::Any,
        matches: Match::default(),
        origin,
        handling: Arc::new(Split::one(place).into()),
    };
    let mut list: Vec<Rule> = in_order.into_iter().enumerate().map(rule).collect();
    list.reverse();
    let places = Rules::new(list);
    let places: Vec<_> = places
        .iter()
        .map(|rule| rule.handling.split.draw(|_| 0))
        .map(|share| share.map(|share| share.backend))
        .collect();
    assert_eq!(places, [0, 1, 2, 3, 4].map(Some));
}

#[test]
fn query_values_are_compared_decoded() {
    let rules = rules(vec![(
        Host::Any,
        Match {
            query: vec![field("na me", "a&b")],
            ..Match::default()
        },
    )]);
    for (target, expected) in [
        ("/?na+me=a%26b", Some(0)),
        ("/?x&na%20me=a%26b", Some(0)),
        ("/?na+me=a&b", None),
        ("/?na+me=a%2", None),
        ("/?na+me", None),
    ] {
        assert_eq!(found(&rules, &get("x", target)), expected, "{target}");
    }
}

#[test]
fn an_expression_must_match_the_whole_value_and_is_refused_with_a_reason() {
    assert!(regex("a|b").matches(b"b"));
    assert!(!regex("a|b").matches(b"ab"));
    let error = Pattern::regex("a(b")
        .expect_err("an open group")
        .to_string();
    assert!(error.contains("unclosed group"), "{error}");
    assert_eq!(
        Pattern::regex("(?:[a-z]{1000}){1000}").expect_err("huge"),
        PatternError::TooLarge
    );
    assert!(Pattern::regex("a)(b").is_err(), "only valid inside our own");
}

#[test]
fn hosts_that_both_sides_allow_are_the_narrower_ones() {
    let cases = [
        ("a.b.c", "a.b.c", Some("a.b.c")),
        ("a.b.c", "*.b.c", Some("a.b.c")),
        ("a.b.c", "*.c", Some("a.b.c")),
        ("*.b.c", "*.c", Some("*.b.c")),
        ("b.c", "*.b.c", None),
        ("a.b.c", "x.b.c", None),
        ("*.b.c", "*.x.c", None),
    ];
    for (one, two, both) in cases {
        let expected = both.map(host);
        assert_eq!(host(one).and(&host(two)), expected, "{one} {two}");
        assert_eq!(host(two).and(&host(one)), expected, "{two} {one}");
        assert_eq!(host(one).and(&Host::Any), Some(host(one)));
    }
}

#[test]
fn what_is_no_host_name_is_told_apart() {
    let long = "a.".repeat(127) + "aa";
    for (text, expected) in [
        ("10.0.0.1", HostError::Address),
        ("::1", HostError::Address),
        ("example.com:80", HostError::Port),
        ("*", HostError::Unreadable),
        ("*.", HostError::Unreadable),
        ("a.*.b", HostError::Unreadable),
        ("A.example", HostError::Unreadable),
        ("-a.example", HostError::Unreadable),
        ("", HostError::Unreadable),
        (&long, HostError::Unreadable),
    ] {
        assert_eq!(Host::parse(text), Err(expected), "{text}");
    }
}

#[test]
fn a_split_gives_every_backend_its_share_and_none_to_weight_zero() {
    let split = Split::new([(4, 1), (5, 0), (6, 3)]);
    let place = |share: Option<&Share>| share.map(|share| share.backend);
    let drawn: Vec<_> = (0..4).map(|number| place(split.draw(|_| number))).collect();
    assert_eq!(drawn, [4, 6, 6, 6].map(Some));
    assert_eq!(place(split.draw(|limit| limit - 1)), Some(6));
    assert_eq!(Split::new([(1, 0)]).draw(|_| 0), None);
    let undrawn = |_| unreachable!("there is no choice");
    assert_eq!(place(Split::new([(1, 9), (2, 0)]).draw(undrawn)), Some(1));
}
