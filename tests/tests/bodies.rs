//! A body of any size passes through byte by byte, as fast as its reader reads and no faster: what a slow reader leaves
//! is not kept in Weir.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use weir_tests::endpoint::scripts::{pattern_bodies, script};
use weir_tests::message::Framing;
use weir_tests::pattern;
use weir_tests::scenario::Scenario;
use weir_tests::skip::{Need, can_run};

const NEEDS: &[Need] = &[Need::Root];
const GIB: u64 = 1 << 30;
const MOST_GROWTH: u64 = 16 << 20;

#[test]
fn a_gibibyte_down_and_one_up_pass_pausing_readers_in_constant_memory() -> Result<()> {
    if !can_run(NEEDS) {
        return Ok(());
    }
    let scenario = Scenario::plain(vec![script(|exchange| {
        if exchange.head.method() == "GET" {
            return pattern_bodies(exchange);
        }
        let right = check_with_pauses(|sink| exchange.read_body(sink))?;
        exchange.respond(200, right.to_string().as_bytes())
    })])?;
    // Both directions have been used once before memory is compared.
    let mut client = scenario.client()?;
    client.request("POST", "/", "", pattern::at(0, 100_000))?;
    client.get("/1000000")?;
    let before = scenario.weir.process.memory()?;

    let done = AtomicBool::new(false);
    let most = AtomicU64::new(before);
    std::thread::scope(|scope| -> Result<()> {
        let watching = scope.spawn(|| -> Result<()> {
            while !done.load(Ordering::Relaxed) {
                most.fetch_max(scenario.weir.process.memory()?, Ordering::Relaxed);
                std::thread::sleep(Duration::from_millis(50));
            }
            Ok(())
        });
        let down = scope.spawn(|| download(&scenario));
        let up = scope.spawn(|| upload(&scenario));
        let (down, up) = (down.join(), up.join());
        done.store(true, Ordering::Relaxed);
        watching.join().expect("no panic")?;
        down.expect("no panic")?;
        up.expect("no panic")
    })?;
    let growth = most.load(Ordering::Relaxed).saturating_sub(before);
    assert!(growth < MOST_GROWTH, "memory grew by {growth} bytes");
    Ok(())
}

fn download(scenario: &Scenario) -> Result<()> {
    let mut client = scenario.client()?;
    let request = format!("GET /{GIB} HTTP/1.1\r\nhost: a\r\n\r\n");
    client.wire.send(request.as_bytes())?;
    let (head, framing) = client.response_head("GET")?;
    ensure!(framing == Framing::Length(GIB), "{head:?}");
    let right = check_with_pauses(|sink| client.wire.read_body(framing, sink))?;
    ensure!(right == GIB, "wrong from byte {right}");
    Ok(())
}

fn upload(scenario: &Scenario) -> Result<()> {
    let mut client = scenario.client()?;
    let head = format!("POST / HTTP/1.1\r\nhost: a\r\ncontent-length: {GIB}\r\n\r\n");
    client.wire.send(head.as_bytes())?;
    let mut sent = 0;
    while sent < GIB {
        let left = usize::try_from(GIB - sent)?;
        let piece = pattern::at(sent, left);
        client.wire.send(piece)?;
        sent += piece.len() as u64;
    }
    let right = client.response("POST")?.text();
    ensure!(right == GIB.to_string(), "wrong from byte {right}");
    Ok(())
}

/// Compares a body with the pattern while it is read, with three pauses of a second in it. Returns how many bytes were
/// right from the start.
fn check_with_pauses(
    read: impl FnOnce(&mut dyn FnMut(&[u8])) -> std::io::Result<u64>,
) -> std::io::Result<u64> {
    let mut right = 0;
    let mut pauses = [GIB / 8, GIB / 3, GIB / 2].into_iter().peekable();
    read(&mut |piece| {
        if pauses.next_if(|&at| right >= at).is_some() {
            std::thread::sleep(Duration::from_secs(1));
        }
        if pattern::is_at(right, piece) {
            right += piece.len() as u64;
        }
    })?;
    Ok(right)
}

#[test]
fn pieces_are_passed_on_at_once() -> Result<()> {
    if !can_run(NEEDS) {
        return Ok(());
    }
    let scenario = Scenario::plain(vec![script(|exchange| {
        exchange.send(b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n")?;
        for _ in 0..5 {
            exchange.send(b"5\r\ndata\n\r\n")?;
            std::thread::sleep(Duration::from_millis(100));
        }
        exchange.send(b"0\r\n\r\n")?;
        Ok(weir_tests::endpoint::Next::Keep)
    })])?;
    let mut client = scenario.client()?;
    client.wire.send(b"GET / HTTP/1.1\r\nhost: a\r\n\r\n")?;
    let (_, framing) = client.response_head("GET")?;
    let start = Instant::now();
    let mut arrivals = Vec::new();
    client
        .wire
        .read_body(framing, |_| arrivals.push(start.elapsed()))?;
    assert_eq!(arrivals.len(), 5);
    for (number, arrival) in arrivals.iter().enumerate() {
        let sent = Duration::from_millis(100) * u32::try_from(number)?;
        assert!(
            arrival.abs_diff(sent) < Duration::from_millis(80),
            "event {number} came after {arrival:?}"
        );
    }
    Ok(())
}
