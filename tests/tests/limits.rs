//! Few descriptors: clients beyond them are told so or wait, nobody is reset, and all is well again afterwards.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::thread;
use std::time::Duration;

use anyhow::Result;
use weir_tests::client::{Client, Response};
use weir_tests::endpoint::scripts::answers_after;
use weir_tests::scenario::Scenario;
use weir_tests::skip::{Need, can_run};
use weir_tests::wait::becomes_some;
use weir_tests::weir::binary;

/// A program that runs Weir with at most this many descriptors. Dropping it removes it.
struct Limited(PathBuf);

impl Limited {
    fn to(descriptors: usize) -> Result<Self> {
        let name = format!("weir-limited-{}-{descriptors}", std::process::id());
        let file = std::env::temp_dir().join(name);
        let weir = binary()?;
        let script = format!(
            "#!/bin/sh\nulimit -n {descriptors}\nexec {} \"$@\"\n",
            weir.display()
        );
        fs::write(&file, script)?;
        fs::set_permissions(&file, fs::Permissions::from_mode(0o755))?;
        Ok(Self(file))
    }
}

impl Drop for Limited {
    fn drop(&mut self) {
        // Already gone is as good.
        let _ = fs::remove_file(&self.0);
    }
}

fn is_shed(answer: &Response) -> bool {
    answer.status() == 503 && answer.head.field("x-weir-error") == Some("shed")
}

#[test]
fn more_clients_than_descriptors_are_all_answered() -> Result<()> {
    if !can_run(&[Need::Root]) {
        return Ok(());
    }
    const CLIENTS: usize = 80;
    let limited = Limited::to(64)?;
    let slow = || answers_after(Duration::from_millis(20));
    let scenario = Scenario::start(vec![slow(), slow(), slow()], |_, mut options| {
        options.binary = Some(limited.0.clone());
        options
    })?;
    let weir = &scenario.weir;
    assert!(weir.process.output().contains("clients at a time"));
    let at_start = weir.process.descriptors()?;

    // All at once: each is served or told, in its time.
    let clients: Vec<Client> = (0..CLIENTS)
        .map(|_| scenario.client())
        .collect::<Result<_>>()?;
    let answers: Vec<Response> = thread::scope(|scope| {
        let asking: Vec<_> = clients
            .into_iter()
            .map(|mut client| scope.spawn(move || client.get("/").expect("an answer, not a reset")))
            .collect();
        let answers = asking.into_iter().map(|client| client.join());
        answers.map(|answer| answer.expect("no panic")).collect()
    });
    let served = answers.iter().filter(|answer| answer.status() == 200);
    let shed = answers.iter().filter(|answer| is_shed(answer));
    let (served, shed) = (served.count(), shed.count());
    assert!(served > 0 && shed > 0, "{served} served, {shed} shed");
    assert_eq!(served + shed, CLIENTS, "{answers:?}");

    let metrics = weir.metrics()?;
    let count = |name| metrics.sum(name, &[]);
    assert_eq!(count("weir_downstream_shed_total"), Some(shed as f64));
    assert!(count("weir_accept_rested_total") > Some(0.0));
    assert_eq!(count("weir_accept_failed_total"), Some(0.0));
    let causes = [("reason", "shed")];
    let replies = metrics.sum("weir_local_replies_total", &causes);
    assert_eq!(replies, Some(shed as f64));

    // Those that stay keep their place, and the next one is told.
    let mut staying: Vec<Client> = Vec::new();
    let refused = loop {
        let mut client = scenario.client()?;
        let answer = client.get("/")?;
        if is_shed(&answer) {
            break client;
        }
        assert_eq!(answer.status(), 200);
        staying.push(client);
        assert!(staying.len() < 64, "nobody is told");
    };
    drop(refused);
    for client in &mut staying {
        assert_eq!(client.get("/")?.status(), 200, "who is served stays served");
    }
    staying.pop();
    let again = becomes_some(Duration::from_secs(5), || {
        let answer = scenario.client().ok()?.get("/").ok()?;
        (answer.status() == 200).then_some(())
    });
    assert!(again.is_some(), "one left, so there is room for one");

    drop(staying);
    // Idle connections to endpoints stay, one of each client at most.
    let settled = becomes_some(Duration::from_secs(5), || {
        let open = weir.process.descriptors().ok()?;
        (open <= at_start + 16).then_some(())
    });
    assert!(settled.is_some(), "{} open", weir.process.descriptors()?);
    Ok(())
}
