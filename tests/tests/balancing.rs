//! Where traffic goes: away from what is slow or wrong, by the weights an operator gave, and never nowhere.

use std::time::Duration;

use anyhow::Result;
use weir_tests::endpoint::scripts::{answers_after, fails_of_ten};
use weir_tests::load::Pace;
use weir_tests::scenario::Scenario;
use weir_tests::skip::{Need, can_run};

const NEEDS: &[Need] = &[Need::Root];
const SECOND: Duration = Duration::from_secs(1);

#[test]
fn the_slow_and_the_flaky_endpoint_lose_their_share() -> Result<()> {
    if !can_run(NEEDS) {
        return Ok(());
    }
    let fast = || answers_after(Duration::from_millis(2));
    let scripts = vec![
        fast(),
        fast(),
        answers_after(Duration::from_millis(40)),
        fails_of_ten(3, Duration::from_millis(2)),
    ];
    let scenario = Scenario::start(scripts, |star, options| {
        options.measured_on(star.interfaces())
    })?;
    scenario.load(16, Pace::PerSecond(600.0), 3 * SECOND)?;
    let shares = scenario.shares();
    let [first, second, slow, flaky] = shares[..] else {
        panic!("{shares:?}");
    };
    let least = first.min(second);
    // Of four ranks the two worst get 1/16 and 3/16 of the picks; now and then the flaky one looks well.
    assert!(slow < 0.25 && flaky < 0.25, "{shares:?}");
    assert!(slow < least && flaky < least, "{shares:?}");
    assert!(slow > 0.0 && flaky > 0.0, "both stay reachable: {shares:?}");
    Ok(())
}

#[test]
fn weights_shape_the_shares_and_zero_drains() -> Result<()> {
    if !can_run(NEEDS) {
        return Ok(());
    }
    let answer = || answers_after(Duration::ZERO);
    let scripts = vec![answer(), answer(), answer()];
    let scenario = Scenario::start(scripts, |_, mut options| {
        for (to, weight) in options.to.iter_mut().zip([9, 1, 0]) {
            to.push_str(&format!("@{weight}"));
        }
        options
    })?;
    scenario.load(8, Pace::PerSecond(1000.0), 2 * SECOND)?;
    let shares = scenario.shares();
    // With equal endpoints the better of two draws is either, so that shares lie around the weights; with one of them
    // always better it would have between .81 and .99.
    assert!((0.8..1.0).contains(&shares[0]), "{shares:?}");
    assert!(shares[1] > 0.0, "{shares:?}");
    assert_eq!(shares[2], 0.0, "{shares:?}");
    Ok(())
}

#[test]
fn an_endpoint_that_keeps_failing_is_ejected_and_comes_back() -> Result<()> {
    if !can_run(NEEDS) {
        return Ok(());
    }
    let scripts = vec![
        answers_after(Duration::ZERO),
        fails_of_ten(10, Duration::ZERO),
    ];
    let scenario = Scenario::plain(scripts)?;
    // One connection, so that no second attempt is under way when the fifth fails.
    let ask = || scenario.load(1, Pace::PerSecond(500.0), 2 * SECOND);
    ask()?;
    let broken = &scenario.dump()?[1];
    assert!(broken.ejected, "{broken:#?}");
    assert_eq!(broken.attempts.started, 5, "five failures are enough");
    let mut rows = scenario.weir.rows()?.into_iter();
    let row = rows.find(|row| row.endpoint == broken.endpoint);
    let health = row.expect("has a row").health;
    assert!(health.starts_with("Evict ("), "{health}");

    // The first ejection lasts three seconds, and the sixth failure in a row starts one of six.
    ask()?;
    let broken = &scenario.dump()?[1];
    assert_eq!(
        (broken.ejections, broken.attempts.started),
        (2, 6),
        "{broken:#?}"
    );
    Ok(())
}

#[test]
fn when_every_endpoint_is_ejected_requests_still_flow() -> Result<()> {
    if !can_run(NEEDS) {
        return Ok(());
    }
    let scripts = vec![
        fails_of_ten(10, Duration::ZERO),
        fails_of_ten(10, Duration::ZERO),
    ];
    let scenario = Scenario::plain(scripts)?;
    let mut client = scenario.client()?;
    for _ in 0..100 {
        let answer = client.get("/")?;
        assert_eq!(answer.status(), 500, "the endpoint's own answer, not ours");
    }
    assert!(scenario.dump()?.iter().all(|endpoint| endpoint.ejected));
    Ok(())
}

#[test]
fn endpoints_and_listeners_may_have_ipv6_addresses() -> Result<()> {
    if !can_run(NEEDS) {
        return Ok(());
    }
    use std::net::SocketAddr;
    use weir_tests::client;
    use weir_tests::endpoint::Endpoint;
    use weir_tests::scenario::PORT;
    use weir_tests::topology::Star;
    use weir_tests::weir::{Options, Weir};

    let star = Star::new(1)?;
    let host = &star.endpoints[0];
    let delay = Duration::from_millis(20);
    let address = (host.address_v6(), PORT);
    let endpoint = Endpoint::start(&host.namespace.place(), address, answers_after(delay))?;
    let listen = SocketAddr::new(star.client.gateway_v6(), PORT);
    let options = Options::new(listen, [endpoint.address()]).measured_on(star.interfaces());
    let weir = Weir::start(&star.proxy.place(), &options)?;
    for _ in 0..20 {
        let answer = client::get(&star.client.namespace.place(), listen, "/")?;
        assert_eq!(answer.status(), 200);
    }
    let known = &weir.dump()?[0];
    assert_eq!(known.endpoint, endpoint.address().to_string());
    assert_eq!(known.latency_source.as_deref(), Some("kernel"));
    let mean = known.wire.first_byte.mean_ms.expect("was asked");
    assert!((20.0..24.0).contains(&mean), "{mean} ms");
    Ok(())
}
