//! Requests with the same value stay at one endpoint: through every proxy that knows the endpoints, and when others
//! join.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::time::Duration;

use anyhow::{Context, Result};
use weir_tests::client::Client;
use weir_tests::endpoint::Endpoint;
use weir_tests::endpoint::scripts::{answers_after, script};
use weir_tests::namespace::Namespace;
use weir_tests::process::Place;
use weir_tests::scenario::Scenario;
use weir_tests::skip::{Need, can_run};
use weir_tests::weir::{Options, Weir, weir_command};

const NEEDS: &[Need] = &[Need::Root];
const EXPRESSION: &str = r#"request.headers["x-session-id"]"#;
const VALUES: usize = 10_000;
const LOOPBACK: IpAddr = IpAddr::V4(Ipv4Addr::LOCALHOST);

/// Who answers each of the values, by the last digit of its port; through a proxy of its own.
fn homes(place: &Place, endpoints: &[SocketAddr]) -> Result<Vec<u8>> {
    let listen = SocketAddr::new(LOOPBACK, 8080);
    let mut options = Options::new(listen, endpoints.iter().copied());
    options.more = vec!["--affinity".into(), EXPRESSION.into()];
    let weir = Weir::start(place, &options)?;
    let mut client = Client::connect(place, listen)?;
    let mut homes = Vec::new();
    for value in 0..VALUES {
        let fields = format!("x-session-id: session-{value}\r\n");
        let answer = client.request("GET", "/", &fields, b"")?;
        homes.push(*answer.body.first().context("an empty answer")?);
    }
    let metrics = weir.metrics()?;
    let bound = metrics.sum("weir_selections_total", &[("method", "affinity")]);
    assert_eq!(bound, Some(VALUES as f64));
    assert_eq!(metrics.sum("weir_affinity_total", &[]), Some(0.0));
    Ok(homes)
}

#[test]
fn proxies_agree_on_every_value_and_an_endpoint_that_joins_takes_only_what_it_wins() -> Result<()> {
    if !can_run(NEEDS) {
        return Ok(());
    }
    let host = Namespace::new("affinity")?;
    let place = host.place();
    let start = |number: u8| {
        let answer = [b'0' + number];
        let address = (LOOPBACK, 9000 + u16::from(number));
        Endpoint::start(
            &place,
            address,
            script(move |exchange| exchange.respond(200, &answer)),
        )
    };
    let endpoints = (1..=4).map(start).collect::<std::io::Result<Vec<_>>>()?;
    let addresses: Vec<SocketAddr> = endpoints.iter().map(Endpoint::address).collect();

    let three = homes(&place, &addresses[..3])?;
    let reversed: Vec<SocketAddr> = addresses[..3].iter().rev().copied().collect();
    assert_eq!(three, homes(&place, &reversed)?, "two proxies disagree");

    let four = homes(&place, &addresses)?;
    let moved: Vec<u8> = three
        .iter()
        .zip(&four)
        .filter(|(old, new)| old != new)
        .map(|(_, new)| *new)
        .collect();
    assert!(
        moved.iter().all(|new| *new == b'4'),
        "a value moved between endpoints that stayed"
    );
    // A quarter of the values, within four standard deviations.
    assert!(
        (2327..=2673).contains(&moved.len()),
        "{} values moved",
        moved.len()
    );
    Ok(())
}

#[test]
fn a_request_without_a_usable_value_is_served_and_counted() -> Result<()> {
    if !can_run(NEEDS) {
        return Ok(());
    }
    let answer = || answers_after(Duration::ZERO);
    let scenario = Scenario::start(vec![answer(), answer()], |_, mut options| {
        options.more = vec!["--affinity".into(), EXPRESSION.into()];
        options
    })?;
    let mut client = scenario.client()?;
    let twice = "x-session-id: a\r\nX-Session-Id: a\r\n";
    for fields in [
        "",
        "x-session-id:\r\n",
        twice,
        "x-session-id: \u{e4}\r\n",
        "x-session-id: a\r\n",
    ] {
        assert_eq!(
            client.request("GET", "/", fields, b"")?.status(),
            200,
            "{fields}"
        );
    }
    let metrics = scenario.weir.metrics()?;
    for (result, count) in [
        ("evaluation_error", 1.0),
        ("empty", 1.0),
        ("wrong_type", 1.0),
    ] {
        let counted = metrics.sum("weir_affinity_total", &[("result", result)]);
        assert_eq!(counted, Some(count), "{result}");
    }
    for (method, count) in [("affinity", 2.0), ("p2c", 3.0)] {
        let counted = metrics.sum("weir_selections_total", &[("method", method)]);
        assert_eq!(counted, Some(count), "{method}");
    }
    let dump = scenario.weir.admin("/config_dump")?.text();
    assert!(
        dump.contains(r#""affinity": "request.headers[\"x-session-id\"]""#),
        "{dump}"
    );
    Ok(())
}

#[test]
fn an_expression_that_cannot_be_used_is_refused_at_start_with_its_place() -> Result<()> {
    let arguments = [
        "run",
        "--listen",
        "127.0.0.1:0",
        "--to",
        "10.0.0.1:80",
        "--affinity",
    ];
    for (expression, part) in [
        ("request.headers[", "line 1, column 17"),
        (
            "request.body",
            "`request.body` is not known here; request has method",
        ),
        ("", "1 to 16384 characters"),
    ] {
        let output = weir_command(&Place::default(), &[&arguments[..], &[expression]].concat())?;
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(
            !output.status.success() && said.contains("--affinity"),
            "{expression}: {said}"
        );
        assert!(said.contains(part), "{expression}: {said}");
    }
    Ok(())
}
