//! Requests with the same value stay at one endpoint: through every proxy that knows the endpoints, and when others
//! join.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use weir_tests::client::Client;
use weir_tests::editing::{Folder, Service};
use weir_tests::endpoint::Endpoint;
use weir_tests::endpoint::scripts::{answers_after, script};
use weir_tests::namespace::Namespace;
use weir_tests::process::Place;
use weir_tests::scenario::{PORT, Scenario};
use weir_tests::skip::{Need, can_run};
use weir_tests::weir::{Options, Weir, weir_command};

const NEEDS: &[Need] = &[Need::Root];
const EXPRESSION: &str = r#"request.headers["x-session-id"]"#;
const VALUES: usize = 10_000;
const LOOPBACK: IpAddr = IpAddr::V4(Ipv4Addr::LOCALHOST);

/// Who answers a value: what its endpoint is called.
fn home(client: &mut Client, value: usize) -> Result<u8> {
    let fields = format!("x-session-id: session-{value}\r\n");
    let answer = client.request("GET", "/", &fields, b"")?;
    ensure!(answer.status() == 200, "{value}: {}", answer.status());
    answer.body.first().copied().context("an empty answer")
}

/// Who answers each of the values, by the last digit of its port; through a proxy of its own.
fn homes(place: &Place, endpoints: &[SocketAddr]) -> Result<Vec<u8>> {
    let listen = SocketAddr::new(LOOPBACK, 8080);
    let mut options = Options::new(listen, endpoints.iter().copied());
    options.more = vec!["--affinity".into(), EXPRESSION.into()];
    let weir = Weir::start(place, &options)?;
    let mut client = Client::connect(place, listen)?;
    let mut homes = Vec::new();
    for value in 0..VALUES {
        homes.push(home(&mut client, value)?);
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

/// Who answered each of some values, in order and each answer once for as long as it stayed the same.
type Answers = Vec<Vec<u8>>;

/// Asks for all values again and again until told to stop, each by one of four clients.
fn ask_meanwhile(
    scenario: &Scenario,
    values: usize,
    work: impl FnOnce() -> Result<()>,
) -> Result<Answers> {
    const CLIENTS: usize = 4;
    let stop = AtomicBool::new(false);
    let stop = &stop;
    thread::scope(|scope| {
        let clients = [(); CLIENTS].map(|()| scenario.client());
        let clients = clients.into_iter().enumerate().map(|(number, client)| {
            scope.spawn(move || -> Result<Answers> {
                let mut client = client?;
                let mut answers: Answers = vec![Vec::new(); values];
                while !stop.load(Ordering::Relaxed) {
                    for value in (number..values).step_by(CLIENTS) {
                        let home = home(&mut client, value)?;
                        if answers[value].last() != Some(&home) {
                            answers[value].push(home);
                        }
                    }
                }
                Ok(answers)
            })
        });
        let clients: Vec<_> = clients.collect();
        let done = work();
        stop.store(true, Ordering::Relaxed);
        let mut all: Answers = vec![Vec::new(); values];
        for client in clients {
            for (all, answers) in all.iter_mut().zip(client.join().expect("no panic")?) {
                all.extend(answers);
            }
        }
        done.map(|()| all)
    })
}

#[test]
fn endpoints_that_come_and_go_under_load_move_their_own_values_and_lose_no_request() -> Result<()> {
    if !can_run(NEEDS) {
        return Ok(());
    }
    const SOME: usize = 1000;
    let folder = Folder::new()?;
    let answer = |number: u8| script(move |exchange| exchange.respond(200, &[b'0' + number]));
    let mut addresses = Vec::new();
    let scenario = Scenario::start((1..=4).map(answer).collect(), |star, mut options| {
        let endpoints = star.endpoints.iter();
        addresses = endpoints
            .map(|peer| SocketAddr::new(peer.address(), PORT))
            .collect();
        let path = folder.write("all.yaml", &bound(options.listen[0], &addresses[..3]));
        options.config = Some(path.expect("a writable folder"));
        options.workers = 2;
        options
    })?;
    let weir = &scenario.weir;
    let serve = |endpoints: &[SocketAddr]| -> Result<()> {
        folder.write("all.yaml", &bound(weir.listen, endpoints))?;
        let answer = weir.reload("")?;
        ensure!(answer.status() == 200, "{}", answer.text());
        Ok(())
    };
    let homes = || -> Result<Vec<u8>> {
        let mut client = scenario.client()?;
        (0..SOME).map(|value| home(&mut client, value)).collect()
    };
    let mut phases = vec![homes()?];
    let answers = ask_meanwhile(&scenario, SOME, || {
        serve(&addresses)?;
        phases.push(homes()?);
        serve(&addresses[1..])?;
        phases.push(homes()?);
        Ok(())
    })?;
    let [three, joined, left] = &phases[..] else {
        panic!("three phases");
    };
    for value in 0..SOME {
        let (first, second, third) = (three[value], joined[value], left[value]);
        assert!(second == first || second == b'4', "{value} moved about");
        assert!(third == second || second == b'1', "{value} moved about");
        assert_ne!(third, b'1', "{value} is at an endpoint that left");
        let mut path = vec![first, second, third];
        path.dedup();
        let mut rest = path.iter();
        let seen = &answers[value];
        let follows = seen.iter().all(|home| rest.any(|next| next == home));
        assert!(follows && !seen.is_empty(), "{value}: {seen:?} of {path:?}");
    }
    let moves =
        |old: &[u8], new: &[u8]| old.iter().zip(new).filter(|(old, new)| old != new).count();
    // A quarter of the values each time, within four standard deviations.
    for moved in [moves(three, joined), moves(joined, left)] {
        assert!((195..=305).contains(&moved), "{moved} values moved");
    }
    Ok(())
}

/// A Service with these endpoints, of which each serves its values.
fn bound(listen: SocketAddr, endpoints: &[SocketAddr]) -> String {
    let service = Service::of(listen, endpoints.iter().copied()).to_yaml();
    format!(
        "{service}---
apiVersion: agentgateway.dev/v1alpha1
kind: AgentgatewayPolicy
metadata: {{name: bound}}
spec:
  targetRefs: [{{kind: Service, name: shop}}]
  backend: {{sessionAffinity: {{source: '{EXPRESSION}'}}}}
"
    )
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
            "line 1, column 8: `request.body` is not supported yet: bodies are passed on unread",
        ),
        (
            "request.colour",
            "`request.colour` is not known here; request has method",
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
