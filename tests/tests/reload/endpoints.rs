//! Endpoints that come, change and go.

use std::thread;
use std::time::Duration;

use anyhow::{Result, ensure};
use weir_tests::endpoint::scripts::{script, trickle_after};
use weir_tests::skip::can_run;
use weir_tests::wait::becomes_true;

use crate::edited::{Edited, quick};
use crate::{NEEDS, PATIENCE};

#[test]
fn an_edited_file_is_served_without_losing_a_request_or_what_was_learned() -> Result<()> {
    if !can_run(NEEDS) {
        return Ok(());
    }
    let edited = Edited::start(vec![quick(), quick(), quick()], &[])?;
    let report = edited.under_load(|| {
        ensure!(becomes_true(PATIENCE, || edited.seen(0) > 300));
        let mut both = edited.service(&[0, 1]);
        both.endpoints[0].1 = 2;
        edited.write(&both)?;
        ensure!(
            becomes_true(PATIENCE, || edited.seen(1) > 100),
            "no traffic"
        );
        edited.write(&edited.service(&[1, 2]))?;
        ensure!(
            becomes_true(PATIENCE, || edited.seen(2) > 100),
            "no traffic"
        );
        // Whoever is gone is left alone, once what was on its way has come.
        let quiet = edited.seen(0);
        thread::sleep(Duration::from_millis(300));
        ensure!(edited.seen(0) == quiet, "still asked after it had left");
        Ok(())
    })?;
    assert!(report.responses > 500);
    let kept = edited.dump_of(1)?;
    assert_eq!(kept.attempts.started, edited.seen(1), "since it came");
    assert!(kept.latency_ms.is_some());
    assert!(edited.dump_of(0).is_err(), "it has left");
    let said = edited.scenario.weir.process.output();
    for line in [
        "reloaded: endpoints +1 1 changed; revision 2 is served",
        "reloaded: endpoints +1 -1; revision 3 is served",
    ] {
        assert!(said.contains(line), "{line}\n{said}");
    }
    let metrics = edited.scenario.weir.metrics()?;
    assert_eq!(metrics.sum("weir_config_revision", &[]), Some(3.0));
    let applied = metrics.sum("weir_reloads_total", &[("result", "applied")]);
    assert_eq!(applied, Some(2.0));
    let loaded_at = metrics.sum("weir_config_loaded_timestamp_seconds", &[]);
    assert!(loaded_at.is_some_and(|seconds| seconds > 1.6e9));
    Ok(())
}

#[test]
fn a_long_response_of_an_endpoint_that_is_gone_comes_to_its_end() -> Result<()> {
    if !can_run(NEEDS) {
        return Ok(());
    }
    let slow =
        script(|exchange| trickle_after(exchange, Duration::ZERO, 15, Duration::from_millis(100)));
    let edited = Edited::start(vec![slow, quick()], &[])?;
    let mut client = edited.scenario.client()?;
    client.wire.send(b"GET / HTTP/1.1\r\nhost: a\r\n\r\n")?;
    let (_, framing) = client.response_head("GET")?;
    edited.write(&edited.service(&[1]))?;
    edited.wait_for_revision(2)?;
    let mut body = Vec::new();
    client
        .wire
        .read_body(framing, |piece| body.extend_from_slice(piece))?;
    assert_eq!(body, b".".repeat(15));
    assert_eq!(client.get("/")?.text(), "hello from an endpoint\n");
    assert_eq!((edited.seen(0), edited.seen(1)), (1, 1));
    Ok(())
}

#[test]
fn more_endpoints_than_there_is_room_for_are_refused() -> Result<()> {
    if !can_run(NEEDS) {
        return Ok(());
    }
    let edited = Edited::start(vec![quick(), quick(), quick()], &["--max-endpoints", "3"])?;
    let weir = &edited.scenario.weir;
    let mut too_many = edited.service(&[0, 1, 2]);
    too_many.endpoints.push(("10.200.0.1:80".parse()?, 1));
    edited.write(&too_many)?;
    let answer = weir.reload("")?;
    assert_eq!(answer.status(), 422);
    assert!(
        answer
            .text()
            .contains("room for 3 endpoints; raise --max-endpoints"),
        "{}",
        answer.text()
    );
    // Every row is given to others again and again.
    for turn in 0..6 {
        edited.write(&edited.service(&[turn % 2, 2]))?;
        let served = becomes_true(PATIENCE, || {
            weir.reload("").is_ok_and(|it| it.status() == 200)
        });
        assert!(served, "{}", weir.process.output());
        assert_eq!(edited.scenario.client()?.get("/")?.status(), 200);
    }
    Ok(())
}
