//! What hung on interfaces that are others by now.

use std::time::Duration;

use anyhow::Result;
use weir_tests::endpoint::scripts::answers_after;
use weir_tests::scenario::Scenario;
use weir_tests::skip::can_run;

use crate::{NEEDS, kill, links, warm};

#[test]
fn links_on_interfaces_that_are_not_asked_for_any_more_are_removed() -> Result<()> {
    if !can_run(NEEDS) {
        return Ok(());
    }
    let mut scenario = warm()?;
    kill(&mut scenario)?;
    scenario.options.interfaces.truncate(1);
    scenario.start_again()?;
    assert_eq!(links(&scenario), 2);
    Ok(())
}

#[test]
fn an_interface_swapped_while_nobody_ran_is_attached_to_afresh() -> Result<()> {
    if !can_run(NEEDS) {
        return Ok(());
    }
    let mut scenario = warm()?;
    kill(&mut scenario)?;
    scenario.star.proxy.ip("link delete endpoint1")?;
    scenario.star.endpoints[0].link(&scenario.star.proxy, "endpoint1")?;
    scenario.start_again()?;
    let metrics = scenario.weir.metrics()?;
    assert_eq!(metrics.sum("weir_ebpf_attached", &[]), Some(2.0));
    assert_eq!(links(&scenario), 4, "those of the old one are gone");
    Ok(())
}

#[test]
fn an_instance_started_in_another_namespace_does_not_take_its_interfaces_for_its_own() -> Result<()>
{
    if !can_run(NEEDS) {
        return Ok(());
    }
    let answer = || vec![answers_after(Duration::from_millis(2))];
    let mut first = warm()?;
    kill(&mut first)?;
    let instance = first.options.instance.clone();
    // The same names and numbers of interfaces, and other devices.
    let second = Scenario::start(answer(), |star, mut options| {
        options.instance = instance;
        options.measured_on(star.endpoints.iter().map(|peer| peer.interface.as_str()))
    })?;
    let before = second.dump()?[0].wire.finished;
    let mut client = second.client()?;
    for _ in 0..10 {
        client.get("/")?;
    }
    assert_eq!(second.dump()?[0].wire.finished, before + 10);
    Ok(())
}
