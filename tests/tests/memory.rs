//! Memory: what an idle client keeps. The figure to compare with other proxies is `cargo xtask bench http`'s; this
//! holds it where it is.

use std::time::Duration;

use anyhow::Result;
use weir_tests::endpoint::scripts::answers_after;
use weir_tests::idle;
use weir_tests::scenario::Scenario;
use weir_tests::skip::{Need, can_run};

#[test]
fn an_idle_client_costs_less_than_400_bytes() -> Result<()> {
    if !can_run(&[Need::Root]) {
        return Ok(());
    }
    let scenario = Scenario::plain(vec![answers_after(Duration::ZERO)])?;
    let weir = &scenario.weir;
    let client = scenario.star.client.namespace.place();
    let memory = idle::cost(&weir.process, weir.listen, &client)?;
    assert!(memory.per_client < 400.0, "{memory:?}");
    Ok(())
}
