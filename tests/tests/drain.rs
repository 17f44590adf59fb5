//! Ending in order: what runs is finished, nothing new is begun, and the process goes by itself.

use std::time::{Duration, Instant};

use anyhow::Result;
use rustix::process::Signal;
use weir_tests::client;
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
    assert!(idle.is_closed(), "a connection without a request is closed");
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
