//! Parsed heads against rules in every order of precedence.

mod linear;
mod precedence;

use super::*;
use crate::http::h1::{HeadLimits, RequestHead};

/// Which of the rules, by place, a request goes to.
fn found(rules: &Rules, text: &str) -> Option<usize> {
    let head = parsed(text);
    let rule = rules.find(Request::new(&head, text.as_bytes()))?;
    rule.handling.split.draw(|_| 0).map(|share| share.backend)
}

fn parsed(text: &str) -> RequestHead {
    let mut head = RequestHead::default();
    head.parse(text.as_bytes(), &HeadLimits::default())
        .expect("a valid head");
    head
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
