//! What outlives a Weir that was killed, and one that has ended in order.

use std::net::TcpStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use anyhow::Result;
use rustix::process::Signal;
use weir_tests::client::Client;
use weir_tests::process::Process;
use weir_tests::scenario::Scenario;
use weir_tests::skip::can_run;
use weir_tests::wait::becomes_true;

use crate::{NEEDS, PATIENCE, TABLES, detach, kill, links, warm};

#[test]
fn after_a_kill_measuring_goes_on_and_the_next_start_knows_what_was_learnt() -> Result<()> {
    if !can_run(NEEDS) {
        return Ok(());
    }
    let mut scenario = warm()?;
    let place = scenario.star.client.namespace.place();
    let target = scenario.weir.listen;
    let hanging = place.spawn(move || {
        let mut client = Client::connect(&Default::default(), target)?;
        client.get("/long").map(|_| ())
    });
    let is_pending = |scenario: &Scenario| {
        let dump = scenario.dump();
        dump.is_ok_and(|dump| dump.iter().any(|endpoint| endpoint.pending > 0))
    };
    assert!(becomes_true(PATIENCE, || is_pending(&scenario)));
    let before = scenario.dump()?;
    let packets = |scenario: &Scenario| -> Result<f64> {
        let metrics = scenario.weir.metrics()?;
        let measured = metrics.sum("weir_ebpf_packets_total", &[("reason", "measured")]);
        Ok(measured.unwrap_or_default())
    };
    let packets_before = packets(&scenario)?;
    kill(&mut scenario)?;
    assert!(hanging.join().expect("no panic").is_err());
    assert_eq!(links(&scenario), 4, "egress and ingress of two interfaces");

    // Nobody runs, and the kernel still times handshakes with endpoints it knows.
    let endpoint = scenario.endpoints[0].address();
    let proxy = scenario.star.proxy.place();
    proxy.run(|| TcpStream::connect(endpoint))?;

    scenario.start_again()?;
    let after = scenario.dump()?;
    for (before, after) in before.iter().zip(&after) {
        assert_eq!(after.latency_ms, before.latency_ms);
        assert_eq!(after.latency_source.as_deref(), Some("kernel"));
        assert_eq!(after.attempts.started, before.attempts.started);
        assert_eq!(after.pending, 0, "leases end with their process");
        assert!(after.wire.finished >= before.wire.finished);
    }
    assert_eq!(after[0].wire.opened, before[0].wire.opened + 1);
    assert!(packets(&scenario)? >= packets_before, "counters only rise");
    let output = scenario.weir.process.output();
    assert!(output.contains("going on with the tables"), "{output}");

    // The programs are the new ones: they know the new connections.
    let mut client = scenario.client()?;
    for _ in 0..10 {
        client.get("/")?;
    }
    let later = scenario.dump()?;
    let finished = |dump: &[weir_tests::weir::EndpointDump]| -> u64 {
        dump.iter().map(|endpoint| endpoint.wire.finished).sum()
    };
    assert_eq!(finished(&later), finished(&after) + 10);
    Ok(())
}

#[test]
fn an_orderly_end_takes_the_programs_along_and_leaves_what_was_learnt() -> Result<()> {
    if !can_run(NEEDS) {
        return Ok(());
    }
    let mut scenario = warm()?;
    let before = scenario.dump()?;
    assert!(scenario.weir.process.stop(PATIENCE)?.success());
    assert_eq!(scenario.options.instance.pinned(), TABLES);
    scenario.start_again()?;
    let after = scenario.dump()?;
    assert_eq!(after[0].latency_ms, before[0].latency_ms);
    assert_eq!(after[1].health_score, before[1].health_score);
    assert_eq!(links(&scenario), 4);
    Ok(())
}

#[test]
fn a_kill_at_any_moment_is_in_the_way_of_nothing() -> Result<()> {
    if !can_run(NEEDS) {
        return Ok(());
    }
    let mut scenario = warm()?;
    kill(&mut scenario)?;
    let before = scenario.options.instance.pinned();
    for moment in 0..16 {
        let binary = weir_tests::weir::binary()?;
        let mut command = std::process::Command::new(binary);
        command.args(scenario.options.arguments());
        let mut process = Process::start(command, &scenario.star.proxy.place())?;
        std::thread::sleep(Duration::from_millis(moment * 25));
        process.signal(Signal::KILL)?;
        process.wait(PATIENCE)?;
    }
    scenario.start_again()?;
    assert_eq!(scenario.options.instance.pinned(), before);
    let metrics = scenario.weir.metrics()?;
    assert_eq!(metrics.sum("weir_ebpf_attached", &[]), Some(2.0));
    assert_eq!(scenario.client()?.get("/")?.status(), 200);
    assert!(scenario.dump()?[0].latency_ms.is_some(), "still warm");
    kill(&mut scenario)?;
    assert!(detach(&scenario, &[])?.status.success());
    assert!(!scenario.options.instance.pins().exists());
    Ok(())
}

#[test]
fn killed_in_the_middle_of_traffic_the_next_one_is_warm_and_owes_nothing() -> Result<()> {
    if !can_run(NEEDS) {
        return Ok(());
    }
    let mut scenario = warm()?;
    let place = scenario.star.client.namespace.place();
    let stop = Arc::new(AtomicBool::new(false));
    let (told, target) = (stop.clone(), scenario.weir.listen);
    // Whoever is in the middle of a request loses it, and asks again.
    let traffic = place.spawn(move || {
        while !told.load(Ordering::Relaxed) {
            let connected = Client::connect(&Default::default(), target);
            let _ = connected.map(|mut client| {
                while client.get("/").is_ok() {
                    if told.load(Ordering::Relaxed) {
                        return;
                    }
                }
            });
        }
    });
    let mut before = scenario.dump()?;
    for moment in [130, 20, 310, 70] {
        std::thread::sleep(Duration::from_millis(moment));
        kill(&mut scenario)?;
        scenario.start_again()?;
        let after = scenario.dump()?;
        for (before, after) in before.iter().zip(&after) {
            assert!(after.latency_ms.is_some(), "still warm");
            assert!(after.attempts.started >= before.attempts.started);
            assert!(after.wire.finished >= before.wire.finished);
        }
        let said = scenario.weir.process.output();
        assert!(said.contains("going on with the tables"), "{said}");
        assert!(!said.contains("WARN"), "{said}");
        before = after;
    }
    stop.store(true, Ordering::Relaxed);
    traffic.join().expect("no panic");
    let is_idle = || {
        let dump = scenario.dump();
        dump.is_ok_and(|dump| dump.iter().all(|endpoint| endpoint.pending == 0))
    };
    assert!(
        becomes_true(PATIENCE, is_idle),
        "leases end with their process"
    );
    assert_eq!(links(&scenario), 4);
    Ok(())
}
