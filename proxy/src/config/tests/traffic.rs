//! What rules ask for on the way of their requests.

use std::time::Duration;

use super::*;
use crate::http::Status;
use crate::route::{
    Handling, PathRewrite, Redirect, RedirectScheme, Retry, RetryOn, StatusCodes, Timeouts,
};

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

#[test]
fn a_rule_says_what_is_done_to_what_passes() {
    let rule = r#"    matches: [{path: {value: /shop}}]
    filters:
    - type: RequestHeaderModifier
      requestHeaderModifier:
        set: [{name: X-Tenant, value: weir}]
        add: [{name: Via, value: weir}]
        remove: [cookie]
    - type: ResponseHeaderModifier
      responseHeaderModifier: {set: [{name: X-Served-By, value: weir}]}
    - type: URLRewrite
      urlRewrite: {hostname: inner, path: {type: ReplacePrefixMatch, replacePrefixMatch: /v2/}}
"#;
    let filters = handling(rule).filters.expect("filters");
    assert_eq!(filters.request.lines(), b"X-Tenant: weir\r\nVia: weir\r\n");
    assert_eq!(filters.response.lines(), b"X-Served-By: weir\r\n");
    assert_eq!(filters.rewrite.host.as_deref(), Some("inner"));
    assert_eq!(filters.rewrite.path, Some(PathRewrite::prefix("/v2")));
    assert_eq!(handling("").filters, None);
}

#[test]
fn a_backend_says_what_is_done_to_its_own_requests() {
    let filter = |value: &str| {
        format!(
            "[{{type: RequestHeaderModifier, requestHeaderModifier: {{set: [{{name: x-who, value: {value}}}]}}}}]"
        )
    };
    let text = changed(
        SHOP,
        BACKENDS,
        &format!(
            "    - {{name: shop, port: 80}}\n    - {{name: shop, port: 80, filters: {}}}\n    filters: {}\n",
            filter("own"),
            filter("all")
        ),
    );
    let plan = plan(&text);
    let rule = plan.listeners[0].rules.iter().last().expect("a rule");
    let lines = |number| {
        let share = rule.handling.split.draw(|_| number).expect("a share");
        let filters = rule.handling.filters_of(share).expect("filters");
        String::from_utf8_lossy(filters.request.lines()).into_owned()
    };
    assert_eq!(lines(0), "x-who: all\r\n");
    assert_eq!(lines(1), "x-who: own\r\n");
}

#[test]
fn a_backend_has_no_filters_that_are_for_the_whole_rule() {
    let rule = r#"    - name: shop
      port: 80
      filters:
      - {type: URLRewrite, urlRewrite: {hostname: inner}}
      - {type: RequestRedirect, requestRedirect: {hostname: outer}}
"#;
    assert_eq!(
        refused(rule),
        [
            "backendRefs[1].filters[0].type: URLRewrite is for all backends of a rule, so that a further try asks for the same; write it among the filters of the rule",
            "backendRefs[1].filters[1].type: RequestRedirect answers in the place of every backend; write it among the filters of a rule without backendRefs",
        ]
    );
}

#[test]
fn a_rule_and_its_backends_say_who_gets_copies() {
    let mirror = |backend: &str, part: &str| {
        format!(
            "{{type: RequestMirror, requestMirror: {{backendRef: {{name: {backend}, port: 80}}{part}}}}}"
        )
    };
    let edit = "{type: RequestHeaderModifier, requestHeaderModifier: {remove: [x-a]}}";
    let copies = "---
apiVersion: v1
kind: Service
metadata: {name: copies}
spec: {ports: [{port: 80}]}
";
    let rule = format!(
        "    - {{name: shop, port: 80, filters: [{}, {edit}]}}\n    filters: [{}, {}]\n",
        mirror("copies", ", percent: 5"),
        mirror("copies", ""),
        mirror("shop", ", fraction: {numerator: 1, denominator: 3}"),
    );
    let text = changed(SHOP, BACKENDS, &format!("{BACKENDS}{rule}")) + copies;
    let plan = plan(&text);
    let place = |name: &str| {
        let found = plan.backends.iter().position(|one| one.name == name);
        found.expect("a backend of this name")
    };
    let (shop, copies) = (place("shop"), place("copies"));
    let handling = &plan.listeners[0]
        .rules
        .iter()
        .last()
        .expect("a rule")
        .handling;
    let mirrors = |number| {
        let share = handling.split.draw(|_| number).expect("a share");
        let filters = handling.filters_of(share).expect("filters");
        let mirrors = filters.mirrors.iter();
        mirrors
            .map(|one| {
                (
                    one.backend,
                    one.fraction.percent().round(),
                    one.filters.is_some(),
                )
            })
            .collect::<Vec<_>>()
    };
    let of_rule = [(copies, 100.0, false), (shop, 33.0, false)];
    assert_eq!(mirrors(0), of_rule);
    assert_eq!(mirrors(1), [&of_rule[..], &[(copies, 5.0, true)]].concat());
}

#[test]
fn mistakes_in_mirrors_are_all_named() {
    let rule = r#"    filters:
    - {type: RequestMirror, requestMirror: {percent: 5}}
    - {type: RequestMirror, requestMirror: {backendRef: {name: shop, port: 80, weight: 1}, percent: 101}}
    - {type: RequestMirror, requestMirror: {backendRef: {name: shop}, percent: 1, fraction: {numerator: 1}}}
    - {type: RequestMirror, requestMirror: {backendRef: {name: shop, port: 80}, fraction: {numerator: 101}}}
    - {type: RequestMirror, requestMirror: {backendRef: {name: shop, port: 80}, fraction: {numerator: 1, denominator: 0}}}
"#;
    assert_eq!(
        refused(rule),
        [
            "filters[0].requestMirror: has no `backendRef`; add it",
            "filters[1].requestMirror.backendRef.weight: is not a known field; leave it out",
            "filters[1].requestMirror.percent: 101 is out of range; write a whole number from 0 to 100",
            "filters[2].requestMirror.backendRef: has no `port`; add the port of the Service",
            "filters[2].requestMirror.fraction: stands beside `percent`, which says the same; leave one out",
            "filters[3].requestMirror.fraction: 101 of 100 is more than all; make the numerator smaller",
            "filters[4].requestMirror.fraction.denominator: 0 is out of range; write a whole number from 1 to 2147483647",
        ]
    );
    let unknown = "    filters: [{type: RequestMirror, requestMirror: {backendRef: {name: shpo, port: 80}}}]\n";
    assert_eq!(
        refused(unknown),
        [
            "filters[0].requestMirror.backendRef: there is no Service default/shpo; did you mean default/shop?"
        ]
    );
}

#[test]
fn mistakes_in_filters_are_all_named() {
    let rule = r#"    matches: [{path: {type: Exact, value: /shop}}]
    filters:
    - type: RequestHeaderModifier
      requestHeaderModifier:
        set: [{name: Host, value: a}, {name: x-a, value: "a\nb"}, {name: "x a", value: b}]
        remove: [X-A, content-length]
    - type: CORS
      requestMirror: {backendRef: {name: shop, port: 80}}
    - type: URLRewrite
      urlRewrite: {hostname: "a b", path: {type: ReplaceFullPath, replacePrefixMatch: /v2}}
    - type: URLRewrite
      urlRewrite: {path: {type: ReplacePrefixMatch, replacePrefixMatch: /v2}}
    - type: ResponseHeaderModifier
      urlRewrite: {hostname: a}
"#;
    let expected = [
        "filters[0].requestHeaderModifier.set[0].name: frames or routes messages, or says who forwarded them, which is not for others to change",
        "filters[0].requestHeaderModifier.set[1].value: holds a control character, or begins or ends with a space",
        "filters[0].requestHeaderModifier.set[2].name: is not the name of a header: letters, digits and hyphens",
        "filters[0].requestHeaderModifier.remove[0]: `x-a` stands here a second time; leave one out",
        "filters[0].requestHeaderModifier.remove[1]: frames or routes messages, or says who forwarded them, which is not for others to change",
        "filters[1].type: `CORS` is not supported yet; write RequestHeaderModifier or ResponseHeaderModifier or URLRewrite or RequestRedirect or RequestMirror",
        "filters[2].urlRewrite.hostname: `a b` is not a host name; write one such as shop.example.com",
        "filters[3].urlRewrite.path.replacePrefixMatch: replaces a prefix, but the rule matches paths otherwise; match by PathPrefix alone",
        "filters[4]: says nothing of what to do; add the part its type is named after",
        "filters[4].urlRewrite: does not belong to a filter of this type; leave it out",
    ];
    let mut found = refused(rule);
    found.sort();
    let mut expected = expected.map(str::to_owned);
    expected.sort();
    assert_eq!(found, expected);
}

/// What a rule without backends has for its clients.
fn redirected(redirect: &str) -> Redirect {
    let rule =
        format!("    filters: [{{type: RequestRedirect, requestRedirect: {{{redirect}}}}}]\n");
    let text = changed(SHOP, BACKENDS, &rule).replace("  - backendRefs:\n", "  -\n");
    let checked = checked(&text);
    assert!(checked.problems.is_empty(), "{:?}", checked.problems);
    let plan = checked.plan.expect("a plan");
    let rule = plan.listeners[0].rules.iter().last().expect("a rule");
    rule.handling.redirect().expect("a redirect").clone()
}

#[test]
fn a_rule_may_send_its_clients_elsewhere() {
    assert_eq!(
        redirected(
            "scheme: https, hostname: b.example, port: 8443, statusCode: 308, \
             path: {type: ReplacePrefixMatch, replacePrefixMatch: /v2}"
        ),
        Redirect {
            scheme: Some(RedirectScheme::Https),
            host: Some("b.example".into()),
            port: Some(8443),
            path: Some(PathRewrite::prefix("/v2")),
            status: Status::try_from(308).expect("a status"),
        }
    );
    let unsaid = Redirect {
        scheme: None,
        host: None,
        port: None,
        path: None,
        status: Status::FOUND,
    };
    assert_eq!(redirected(""), unsaid);
}

#[test]
fn mistakes_in_redirects_are_all_named() {
    let rule = r#"    filters:
    - type: RequestRedirect
      requestRedirect: {scheme: ftp, hostname: "a:80", port: 0, statusCode: 304, path: {type: ReplaceFullPath}}
"#;
    let mut found = refused(rule);
    found.sort();
    assert_eq!(
        found,
        [
            "filters[0].requestRedirect.hostname: `a:80` is more than a host name; say the port as `port`",
            "filters[0].requestRedirect.path: has no `replaceFullPath`; add it",
            "filters[0].requestRedirect.port: 0 is out of range; write a whole number from 1 to 65535",
            "filters[0].requestRedirect.scheme: `ftp` is not one of http, https",
            "filters[0].requestRedirect.statusCode: 304 does not redirect; write 301, 302, 303, 307 or 308",
        ]
    );
}

#[test]
fn a_redirect_stands_alone() {
    let rule = r#"    filters:
    - {type: RequestRedirect, requestRedirect: {scheme: https}}
    - {type: URLRewrite, urlRewrite: {hostname: a}}
    - {type: ResponseHeaderModifier, responseHeaderModifier: {remove: [server]}}
"#;
    let mut found = refused(rule);
    found.sort();
    assert_eq!(
        found,
        [
            "backendRefs[0]: stands beside the filter RequestRedirect, which asks no backend; leave one out",
            "filters[1]: cannot stand beside a RequestRedirect; leave one of them out",
            "filters[2]: does nothing beside a RequestRedirect, which asks no endpoint",
        ]
    );
}
