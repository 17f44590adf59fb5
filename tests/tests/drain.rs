//! Ending in order: what runs is finished, nothing new is begun, and the process goes by itself.

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use anyhow::Result;
use rustix::process::Signal;
use weir_tests::client::{self, Client};
use weir_tests::endpoint::scripts::answers_after;
use weir_tests::scenario::Scenario;
use weir_tests::skip::{Need, can_run};
use weir_tests::wait::becomes_true;

const NEEDS: &[Need] = &[Need::Root];
const PATIENCE: Duration = Duration::from_secs(5);

#[test]
fn requests_under_way_are_answered_before_it_ends() -> Result<()> {
    if !can_run(NEEDS) {
        return Ok(());
    }
    let mut scenario = Scenario::plain(vec![answers_after(Duration::from_millis(700))])?;
    let mut idle = scenario.client()?;
    assert_eq!(idle.get("/")?.status(), 200);
    let mut busy = scenario.client()?;
    busy.wire.send(b"GET / HTTP/1.1\r\nhost: a\r\n\r\n")?;
    let under_way = becomes_true(PATIENCE, || scenario.endpoints[0].seen().requests() == 2);
    assert!(under_way);

    let start = Instant::now();
    scenario.weir.process.signal(Signal::TERM)?;
    let last = idle.get("/")?;
    assert_eq!(last.status(), 200, "a client that was not told may ask");
    assert_eq!(last.head.field("connection"), Some("close"));
    let place = scenario.star.client.namespace.place();
    let refuses = becomes_true(PATIENCE, || {
        client::get(&place, scenario.weir.listen, "/").is_err()
    });
    assert!(refuses, "nothing new is accepted");
    let answer = busy.response("GET")?;
    assert_eq!(answer.status(), 200);
    assert!(busy.is_closed());
    let status = scenario.weir.process.wait(PATIENCE)?;
    assert!(status.success(), "{status}");
    assert!(start.elapsed() < PATIENCE);
    Ok(())
}

#[test]
fn a_second_signal_ends_it_at_once() -> Result<()> {
    if !can_run(NEEDS) {
        return Ok(());
    }
    let mut scenario = Scenario::plain(vec![answers_after(Duration::from_secs(30))])?;
    let mut busy = scenario.client()?;
    busy.wire.send(b"GET / HTTP/1.1\r\nhost: a\r\n\r\n")?;
    let under_way = becomes_true(PATIENCE, || scenario.endpoints[0].seen().requests() == 1);
    assert!(under_way);
    scenario.weir.process.signal(Signal::TERM)?;
    std::thread::sleep(Duration::from_millis(200));
    assert!(
        scenario.weir.process.is_running(),
        "it waits for the request"
    );
    scenario.weir.process.signal(Signal::TERM)?;
    scenario.weir.process.wait(PATIENCE)?;
    Ok(())
}

#[test]
fn clients_that_ask_now_and_then_lose_no_request() -> Result<()> {
    if !can_run(NEEDS) {
        return Ok(());
    }
    const CLIENTS: u64 = 40;
    let mut scenario = Scenario::start(
        vec![answers_after(Duration::from_millis(20))],
        |_, mut options| {
            options.workers = 2;
            options
        },
    )?;
    let (listen, place) = (scenario.weir.listen, scenario.star.client.namespace.place());
    let clients: Vec<_> = (0..CLIENTS)
        .map(|number| place.spawn(move || ask_until_told_to_go(listen, number)))
        .collect();
    let are_asking = becomes_true(PATIENCE, || {
        scenario.endpoints[0].seen().requests() > 3 * CLIENTS
    });
    assert!(are_asking);
    scenario.weir.process.signal(Signal::TERM)?;
    let mut answered = 0;
    for client in clients {
        answered += client.join().expect("no panic")?;
    }
    assert_eq!(answered, scenario.endpoints[0].seen().requests());
    let status = scenario.weir.process.wait(PATIENCE)?;
    assert!(status.success(), "{status}");
    Ok(())
}

/// Asks on one connection after another, each time after another pause, until nobody listens any more. Gives the number
/// of answers; a request without one is an error.
fn ask_until_told_to_go(listen: SocketAddr, number: u64) -> std::io::Result<u64> {
    let mut answered = 0;
    while let Ok(mut client) = Client::connect_here(listen) {
        loop {
            let response = client.get("/")?;
            assert_eq!(response.status(), 200);
            answered += 1;
            if response.head.field("connection") == Some("close") {
                break;
            }
            std::thread::sleep(Duration::from_millis((number * 37 + answered * 53) % 400));
        }
    }
    Ok(answered)
}

#[test]
fn a_drain_ends_when_its_time_is_over() -> Result<()> {
    if !can_run(NEEDS) {
        return Ok(());
    }
    let scripts = vec![answers_after(Duration::from_secs(30))];
    let mut scenario = Scenario::start(scripts, |_, mut options| {
        options.more = vec!["--drain-timeout".to_owned(), "1s".to_owned()];
        options
    })?;
    let mut busy = scenario.client()?;
    busy.wire.send(b"GET / HTTP/1.1\r\nhost: a\r\n\r\n")?;
    let under_way = becomes_true(PATIENCE, || scenario.endpoints[0].seen().requests() == 1);
    assert!(under_way);
    let start = Instant::now();
    scenario.weir.process.signal(Signal::TERM)?;
    scenario.weir.process.wait(PATIENCE)?;
    assert!(start.elapsed() >= Duration::from_secs(1), "not before");
    Ok(())
}
