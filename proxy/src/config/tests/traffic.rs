//! What rules ask for on the way of their requests.

use std::time::Duration;

use super::*;
use crate::route::{Handling, Retry, RetryOn, StatusCodes, Timeouts};

const BACKENDS: &str = "    - {name: shop, port: 80}\n";

/// What becomes of requests of the shop, if its rule says this, too.
fn handling(rule: &str) -> Handling {
    let text = changed(SHOP, BACKENDS, &format!("{BACKENDS}{rule}"));
    let plan = plan(&text);
    let rules = plan.listeners[0].rules.iter();
    rules.last().expect("a rule").handling.as_ref().clone()
}

/// What is wrong with a rule that says this, from its key on.
fn refused(rule: &str) -> Vec<String> {
    let text = changed(SHOP, BACKENDS, &format!("{BACKENDS}{rule}"));
    let checked = checked(&text);
    assert!(checked.plan.is_none(), "{rule}");
    let problems = checked.problems.iter().map(Problem::to_string);
    problems
        .map(|line| {
            line.split_once("spec.rules[0].")
                .map_or(line.clone(), |it| it.1.to_owned())
        })
        .collect()
}

#[test]
fn a_rule_says_how_often_and_after_what_its_requests_are_tried_again() {
    let mut codes = StatusCodes::default();
    assert!(codes.insert(429) && codes.insert(503));
    let rule = "    retry: {attempts: 3, codes: [429, 503], backoff: 100ms}\n";
    let expected = Retry {
        attempts: 3,
        on: RetryOn::Failure(codes),
        backoff: Some(Duration::from_millis(100)),
    };
    assert_eq!(handling(rule).retry, expected);
    assert_eq!(handling("").retry, Retry::default());
    let asked = handling("    retry: {attempts: 1}\n").retry;
    assert_eq!(asked.on, RetryOn::Failure(StatusCodes::default()));
    assert_eq!(
        handling("    retry: {codes: [500]}\n").retry.attempts,
        Retry::DEFAULT_ATTEMPTS
    );
    assert_eq!(handling("    retry: {attempts: 0}\n").retry.attempts, 0);
}

#[test]
fn mistakes_in_a_retry_are_all_named() {
    let rule = "    retry: {attempts: 256, codes: [200, 503, x], backoff: 1.5s, times: 3}\n";
    assert_eq!(
        refused(rule),
        [
            "retry.attempts: 256 is out of range; write a whole number from 0 to 255",
            "retry.codes[0]: 200 is out of range; write a whole number from 400 to 599",
            "retry.codes[2]: is the text `x`; write a whole number from 400 to 599",
            "retry.backoff: `1.5s` is not a duration; write one such as 500ms, 3s, 2m or 1h30m",
            "retry.times: is not a known field; leave it out",
        ]
    );
}

#[test]
fn a_rule_says_how_long_its_requests_may_take() {
    let timeouts = |rule| handling(rule).timeouts;
    let expected = Timeouts {
        request: Some(Duration::from_secs(10)),
        backend_request: Some(Duration::from_millis(2500)),
    };
    assert_eq!(
        timeouts("    timeouts: {request: 10s, backendRequest: 2s500ms}\n"),
        expected
    );
    // Zero is no limit, and none that another could be longer than.
    let unlimited = Timeouts {
        request: None,
        ..expected
    };
    let zero = "    timeouts: {request: 0s, backendRequest: 2s500ms}\n";
    assert_eq!(timeouts(zero), unlimited);
    assert_eq!(timeouts(""), Timeouts::default());
    assert_eq!(
        refused("    timeouts: {request: 1s, backendRequest: 2s}\n"),
        [
            "timeouts.backendRequest: is longer than `request`, which holds for all tries together; make it shorter"
        ]
    );
}
