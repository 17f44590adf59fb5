//! What outlives a Weir, and what the next one makes of it: scores stay warm, programs of a killed one go on measuring,
//! and nothing is in the way of a start or stays behind when it is told to go.

mod instances;
mod interfaces;
mod outliving;
mod tables;

use std::process::Output;
use std::time::Duration;

use anyhow::Result;
use rustix::process::Signal;
use weir_tests::endpoint::Script;
use weir_tests::endpoint::scripts::script;
use weir_tests::scenario::Scenario;
use weir_tests::skip::Need;
use weir_tests::weir::weir_command;

const NEEDS: &[Need] = &[Need::Root];
const PATIENCE: Duration = Duration::from_secs(10);
const TABLES: [&str; 13] = [
    "CONNECTION",
    "ENDPOINT_ATTEMPTS",
    "ENDPOINT_IDENTITY",
    "ENDPOINT_LOAD",
    "ENDPOINT_OUTLOOK",
    "ENDPOINT_READING",
    "ENDPOINT_SCORE",
    "ENDPOINT_STATE",
    "ENDPOINT_WIRE",
    "META",
    "REASON",
    "SERVICE",
    "SERVICE_ENDPOINT",
];

/// Two endpoints of different speed; `/long` takes a minute.
fn scripts() -> Vec<Script> {
    [2, 20]
        .map(|millis| {
            script(move |exchange| {
                let length = match exchange.head.target() {
                    "/long" => Duration::from_secs(60),
                    _ => Duration::from_millis(millis),
                };
                exchange.wait(length)?;
                exchange.respond(200, b"whole")
            })
        })
        .into()
}

/// Measured towards the endpoints, after some requests.
fn warm() -> Result<Scenario> {
    let scenario = Scenario::start(scripts(), |star, options| {
        options.measured_on(star.endpoints.iter().map(|peer| peer.interface.as_str()))
    })?;
    let mut client = scenario.client()?;
    for _ in 0..40 {
        assert_eq!(client.get("/")?.status(), 200);
    }
    Ok(scenario)
}

fn kill(scenario: &mut Scenario) -> Result<()> {
    scenario.weir.process.signal(Signal::KILL)?;
    scenario.weir.process.wait(PATIENCE)?;
    Ok(())
}

fn links(scenario: &Scenario) -> usize {
    let pinned = scenario.options.instance.pinned();
    let is_link = |name: &&String| name.starts_with("egress_") || name.starts_with("ingress_");
    pinned.iter().filter(is_link).count()
}

fn detach(scenario: &Scenario, more: &[&str]) -> Result<Output> {
    let name = scenario.options.instance.name();
    let arguments = [&["detach", "--instance", name], more].concat();
    weir_command(&scenario.star.proxy.place(), &arguments)
}

fn said(output: &Output) -> String {
    let mut text = String::from_utf8_lossy(&output.stdout).into_owned();
    text.push_str(&String::from_utf8_lossy(&output.stderr));
    text
}
