//! Which of several rules that match goes first, as the Gateway API has it.

use super::*;

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

/// Rules that all match `PUT /a/b?q=1` to `www.example.com` with `X-One: 1`, the one that goes first in front; each is
/// ahead of the next by one thing, and behind it in everything that counts less.
#[test]
fn what_counts_more_decides_whatever_counts_less() {
    let long = "/a/[a-z]|/aaaaaaaaaaaaaaaaaaaa";
    let conditions = |method: bool, headers: usize, query: usize| Match {
        method: method.then(|| "PUT".into()),
        headers: vec![field("x-one", "1"); headers],
        query: vec![field("q", "1"); query],
        ..Match::default()
    };
    let at = |path: PathMatch, conditions: Match| Match { path, ..conditions };
    let in_order = vec![
        (host("www.example.com"), conditions(false, 0, 0)),
        (
            host("*.example.com"),
            at(PathMatch::Any, conditions(false, 0, 0)),
        ),
        (
            host("*.com"),
            at(PathMatch::Exact("/a/b".into()), conditions(false, 0, 0)),
        ),
        (
            host("*.com"),
            at(PathMatch::Regex(regex(long)), conditions(false, 0, 0)),
        ),
        (
            host("*.com"),
            at(PathMatch::Regex(regex("/a/[a-z]")), conditions(true, 2, 2)),
        ),
        (
            host("*.com"),
            at(PathMatch::prefix("/a/b"), conditions(false, 0, 0)),
        ),
        (
            host("*.com"),
            at(PathMatch::prefix("/a"), conditions(true, 0, 0)),
        ),
        (
            host("*.com"),
            at(PathMatch::prefix("/a"), conditions(false, 2, 0)),
        ),
        (
            host("*.com"),
            at(PathMatch::prefix("/a"), conditions(false, 1, 1)),
        ),
        (
            host("*.com"),
            at(PathMatch::prefix("/a"), conditions(false, 1, 0)),
        ),
        (
            host("*.com"),
            at(PathMatch::prefix("/a"), conditions(false, 0, 2)),
        ),
        (
            host("*.com"),
            at(PathMatch::prefix("/a"), conditions(false, 0, 1)),
        ),
        (
            host("*.com"),
            at(PathMatch::prefix("/a"), conditions(false, 0, 0)),
        ),
        (host("*.com"), conditions(true, 2, 2)),
        (
            Host::Any,
            at(PathMatch::Exact("/a/b".into()), conditions(true, 2, 2)),
        ),
    ];
    let request = "PUT /a/b?q=1 HTTP/1.1\r\nHost: www.example.com\r\nX-One: 1\r\n\r\n";
    for first in 0..in_order.len() {
        // Those behind it, the last of them in front.
        let mut list = in_order[first..].to_vec();
        list.reverse();
        let expected = list.len() - 1;
        assert_eq!(found(&rules(list), request), Some(expected), "rule {first}");
    }
}

#[test]
fn a_host_whose_rules_do_not_match_leaves_the_request_to_wider_ones() {
    let at = |text: &str| path(PathMatch::prefix(text));
    let rules = rules(vec![
        (host("www.example.com"), at("/a")),
        (host("*.example.com"), at("/b")),
        (host("*.com"), at("/c")),
        (Host::Any, at("/d")),
    ]);
    for (target, expected) in [
        ("/a", Some(0)),
        ("/b/x", Some(1)),
        ("/c", Some(2)),
        ("/d", Some(3)),
        ("/e", None),
    ] {
        let request = get("www.example.com", target);
        assert_eq!(found(&rules, &request), expected, "{target}");
    }
}

#[test]
fn a_longer_prefix_that_asks_for_more_leaves_the_request_to_shorter_ones() {
    let with_header = Match {
        headers: vec![field("x-one", "1")],
        ..path(PathMatch::prefix("/a/b/c"))
    };
    let rules = rules(vec![
        (Host::Any, with_header),
        (Host::Any, path(PathMatch::prefix("/a"))),
    ]);
    assert_eq!(found(&rules, &get("x", "/a/b/c/d")), Some(1));
    let asked = "GET /a/b/c HTTP/1.1\r\nHost: x\r\nX-One: 1\r\n\r\n";
    assert_eq!(found(&rules, asked), Some(0));
}
