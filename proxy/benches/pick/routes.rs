//! Finding the rule of a request, among rules that differ by path, by host, or by a wildcard and a path; and what it would
//! take to look at them one by one.

use std::hint::black_box;
use std::sync::Arc;

use weir::http::h1::{HeadLimits, RequestHead};
use weir::route::{Host, Match, Origin, PathMatch, Request, Rule, Rules, Split};

use super::{print, time};

const ROUNDS: usize = 100;
/// Different requests of a round, spread over the rules.
const REQUESTS: usize = 64;
const REPEATS: usize = 20;

pub fn report() {
    println!(
        "\n{:<46} {:>9} {:>9} {:>9}",
        "ns for a route", "rules", "best", "middle"
    );
    for size in [1, 100, 5_000] {
        measure("rule by path", size, |n| {
            (
                Host::Any,
                format!("/service-{n}"),
                "shop.example.com".into(),
            )
        });
    }
    for size in [1, 100, 5_000] {
        measure("rule by host", size, |n| {
            let name = format!("shop-{n}.example.com");
            (host(&name), "/".into(), name)
        });
    }
    for size in [1, 100, 5_000] {
        measure("rule by wildcard and path", size, |n| {
            let domain = format!("team-{}.example.com", n % 50);
            let path = format!("/service-{n}");
            (host(&format!("*.{domain}")), path, format!("www.{domain}"))
        });
    }
}

fn host(text: &str) -> Host {
    Host::parse(text).expect("a host name")
}

/// `rule` says of a number the host and prefix of its rule, and the host of a request for it.
fn measure(name: &str, size: usize, rule: impl Fn(usize) -> (Host, String, String)) {
    let rules = Rules::new((0..size).map(|n| rule_at(n, rule(n))).collect());
    let requests: Vec<(String, RequestHead)> = (0..REQUESTS)
        .map(|n| {
            let (_, prefix, host) = rule(n * size / REQUESTS);
            let path = format!("{}/items/7", prefix.trim_end_matches('/'));
            let text = format!("GET {path}?page=2 HTTP/1.1\r\nHost: {host}\r\n\r\n");
            let mut head = RequestHead::default();
            head.parse(text.as_bytes(), &HeadLimits::default())
                .expect("a valid head");
            (text, head)
        })
        .collect();
    let round = |find: &dyn Fn(&str, &RequestHead) -> bool| {
        time(REQUESTS * REPEATS, || {
            for (text, head) in requests.iter().cycle().take(REQUESTS * REPEATS) {
                assert!(find(black_box(text), black_box(head)));
            }
        })
    };
    let indexed = |text: &str, head: &RequestHead| {
        let request = Request::new(head, text.as_bytes());
        black_box(rules.find(request)).is_some()
    };
    let one_by_one = |text: &str, head: &RequestHead| {
        let mut rules = rules.iter();
        black_box(rules.find(|rule| is_for(rule, text.as_bytes(), head))).is_some()
    };
    let (indexed, one_by_one) = (0..ROUNDS)
        .map(|_| (round(&indexed), round(&one_by_one)))
        .unzip();
    print(&format!("{name:<46} {size:>9}"), indexed);
    let name = format!("{name}, one by one");
    print(&format!("{name:<46} {size:>9}"), one_by_one);
}

/// For the hosts and paths there are here.
fn is_for(rule: &Rule, text: &[u8], head: &RequestHead) -> bool {
    let host = head.host(text).unwrap_or_default();
    let is_host = match &rule.host {
        Host::Any => true,
        Host::Exact(name) => host.eq_ignore_ascii_case(name.as_bytes()),
        Host::Wildcard(suffix) => {
            let start = host.len().checked_sub(suffix.len());
            start.is_some_and(|start| host[start..].eq_ignore_ascii_case(suffix.as_bytes()))
        }
    };
    is_host
        && match &rule.matches.path {
            PathMatch::Prefix(prefix) => head
                .path(text)
                .strip_prefix(prefix.as_bytes())
                .is_some_and(|rest| matches!(rest, [] | [b'/', ..])),
            _ => true,
        }
}

fn rule_at(place: usize, (host, prefix, _): (Host, String, String)) -> Rule {
    Rule {
        host,
        matches: Match {
            path: PathMatch::prefix(&prefix),
            ..Match::default()
        },
        origin: Origin {
            rule: place,
            ..Origin::default()
        },
        handling: Arc::new(Split::one(place).into()),
    }
}
