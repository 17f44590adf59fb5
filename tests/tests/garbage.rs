//! Bytes that are no HTTP, from either side, thousands of times: no crash, no leak, and others are served meanwhile.

use std::io::{Read, Write};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use anyhow::Result;
use weir_tests::client::Client;
use weir_tests::endpoint::Next;
use weir_tests::endpoint::scripts::{answers_after, script};
use weir_tests::pattern;
use weir_tests::scenario::Scenario;
use weir_tests::skip::{Need, can_run};
use weir_tests::wait::becomes_true;
use weir_tests::weir::{Metrics, Weir};

const NEEDS: &[Need] = &[Need::Root];
const ROUNDS: u64 = 2000;
const SIZE: usize = 64 * 1024;

#[test]
fn random_bytes_from_clients_disturb_nobody() -> Result<()> {
    if !can_run(NEEDS) {
        return Ok(());
    }
    let mut scenario = Scenario::plain(vec![answers_after(Duration::ZERO)])?;
    let mut other = scenario.client()?;
    assert_eq!(other.get("/")?.status(), 200);
    let before = Held::of(&scenario.weir)?;
    for round in 0..ROUNDS {
        let mut client = scenario.client()?;
        // Weir answers or closes at the first wrong byte, so the rest may meet a closed connection.
        let _ = client.wire.send(garbage(round));
        let _ = client.wire.finish();
        if let Ok(answer) = client.response("GET") {
            assert!((400..500).contains(&answer.status()), "{}", answer.status());
        }
        if round % 50 == 0 {
            assert_eq!(other.get("/")?.status(), 200);
        }
    }
    let seen = scenario.endpoints[0].seen();
    assert_eq!(
        seen.requests(),
        1 + ROUNDS / 50,
        "no garbage reaches an endpoint"
    );
    before.assert_returns(&mut scenario.weir);
    Ok(())
}

#[test]
fn random_bytes_from_an_endpoint_disturb_nobody() -> Result<()> {
    if !can_run(NEEDS) {
        return Ok(());
    }
    let rounds = AtomicU64::new(0);
    let wild = script(move |exchange| {
        let round = rounds.fetch_add(1, Ordering::Relaxed);
        exchange.send(garbage(round))?;
        Ok(if round.is_multiple_of(2) {
            Next::Close
        } else {
            Next::Keep
        })
    });
    let mut scenario = Scenario::plain(vec![wild, answers_after(Duration::ZERO)])?;
    let before = Held::of(&scenario.weir)?;
    let mut client = scenario.client()?;
    let (mut right, mut wrong) = (0, 0);
    // Ejection keeps the wild endpoint's share small, so it takes several clients' patience to see it often.
    while scenario.endpoints[0].seen().requests() < ROUNDS / 20 && right < 20 * ROUNDS {
        match client.get("/")?.status() {
            200 => right += 1,
            502 => wrong += 1,
            status => panic!("status {status}"),
        }
    }
    assert!(right > wrong, "{right} right, {wrong} wrong");
    drop(client);
    before.assert_returns(&mut scenario.weir);
    Ok(())
}

#[test]
fn an_endpoint_of_random_bytes_alone_gives_502_each_time() -> Result<()> {
    if !can_run(NEEDS) {
        return Ok(());
    }
    let rounds = AtomicU64::new(0);
    let mut scenario = Scenario::plain(vec![script(move |exchange| {
        exchange.send(garbage(rounds.fetch_add(1, Ordering::Relaxed)))?;
        Ok(Next::Close)
    })])?;
    let before = Held::of(&scenario.weir)?;
    let mut client = scenario.client()?;
    for _ in 0..ROUNDS {
        assert_eq!(client.get("/")?.status(), 502);
    }
    drop(client);
    before.assert_returns(&mut scenario.weir);
    Ok(())
}

#[test]
fn half_heads_held_open_do_not_keep_others_out() -> Result<()> {
    if !can_run(NEEDS) {
        return Ok(());
    }
    let scenario = Scenario::plain(vec![answers_after(Duration::ZERO)])?;
    let held: Vec<Client> = (0..500)
        .map(|_| {
            let mut client = scenario.client()?;
            client.wire.send(b"GET / HTTP/1.1\r\nhos")?;
            Ok(client)
        })
        .collect::<Result<_>>()?;
    let mut other = scenario.client()?;
    for _ in 0..100 {
        assert_eq!(other.get("/")?.status(), 200);
    }
    drop(held);
    Ok(())
}

#[test]
fn dribbled_garbage_meets_a_steady_client_unharmed() -> Result<()> {
    if !can_run(NEEDS) {
        return Ok(());
    }
    let scenario = Scenario::plain(vec![answers_after(Duration::ZERO)])?;
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| -> Result<()> {
        let dribbling = scope.spawn(|| -> Result<()> {
            let mut number = 0;
            while !done.load(Ordering::Relaxed) {
                let client = scenario.client()?;
                let mut stream = client.wire.stream();
                for byte in &garbage(number)[..64] {
                    if stream.write_all(&[*byte]).is_err() {
                        break;
                    }
                }
                let _ = stream.read(&mut [0; 1024]);
                number += 1;
            }
            Ok(())
        });
        let mut steady = scenario.client()?;
        let served = (0..1000).try_for_each(|_| {
            let status = steady.get("/")?.status();
            anyhow::ensure!(status == 200, "status {status}");
            Ok(())
        });
        done.store(true, Ordering::Relaxed);
        dribbling.join().expect("no panic")?;
        served
    })
}

/// 64 KiB of noise, another piece of it each round.
fn garbage(round: u64) -> &'static [u8] {
    pattern::at(round * 7919, SIZE)
}

/// What a Weir holds, to be compared after a disturbance.
struct Held {
    descriptors: usize,
    clients: f64,
}

impl Held {
    fn of(weir: &Weir) -> Result<Self> {
        Ok(Self {
            descriptors: weir.process.descriptors()?,
            clients: gauge(&weir.metrics()?, "weir_downstream_connections"),
        })
    }

    /// Idle connections to endpoints may stay, two at most; everything else is given back.
    fn assert_returns(&self, weir: &mut Weir) {
        assert!(weir.process.is_running());
        let returned = becomes_true(Duration::from_secs(5), || {
            let Ok(metrics) = weir.metrics() else {
                return false;
            };
            gauge(&metrics, "weir_downstream_connections") <= self.clients
                && gauge(&metrics, "weir_ring_buffers") == 0.0
                && weir
                    .process
                    .descriptors()
                    .is_ok_and(|now| now <= self.descriptors + 2)
        });
        assert!(
            returned,
            "not given back: {:?} descriptors of {}, {:#?}",
            weir.process.descriptors(),
            self.descriptors,
            weir.metrics()
        );
    }
}

fn gauge(metrics: &Metrics, name: &str) -> f64 {
    metrics.sum(name, &[]).unwrap_or(f64::NAN)
}
