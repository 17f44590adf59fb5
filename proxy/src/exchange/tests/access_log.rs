//! What the access log is told: once for each exchange, also for those that come to nothing.

use std::sync::{Arc, Mutex};

use super::setup::{Connects, Setup};
use super::world::World;
use super::*;
use crate::access_log::{Record, Sink};
use crate::seam::ConnectFault;

/// Keeps what it is told.
#[derive(Clone, Default)]
struct Told(Arc<Mutex<Vec<Record>>>);

impl Sink for Told {
    fn put(&mut self, record: &Record) {
        self.0.lock().expect("one thread").push(record.clone());
    }
}

impl Told {
    /// What was told since this was asked last: one record.
    fn one(&self) -> Record {
        let mut told = self.0.lock().expect("one thread");
        assert_eq!(told.len(), 1, "{told:?}");
        told.remove(0)
    }
}

fn world(setup: Setup) -> (World, Told) {
    let mut world = World::of(setup);
    let told = Told::default();
    world.proxy.log_to(Box::new(told.clone()));
    (world, told)
}

#[test]
fn a_response_is_told_with_its_endpoint_bytes_and_times() {
    let (mut world, told) = world(Setup::default());
    let client = world.client();
    let request = "POST /cart?secret=1 HTTP/1.1\r\nHost: shop.example\r\nX-Request-Id: 7f\r\nContent-Length: 5\r\n\r\nabcde";
    world.send(client, request);
    world.advance(millis(30));
    world.answer(&ok("hello"));
    assert_eq!(world.read(client), ok("hello"));
    let record = told.one();
    assert_eq!(record.method.to_text(), "POST");
    assert_eq!(record.host.to_text(), "shop.example");
    assert_eq!(record.path.to_text(), "/cart", "the query is not told");
    assert_eq!(record.request_id.to_text(), "7f");
    assert_eq!(record.client.to_string(), CLIENT);
    assert_eq!(record.backend.to_text(), "default/default");
    assert_eq!(
        record.endpoint.map(|it| it.to_string()).as_deref(),
        Some("10.0.0.1:8080")
    );
    assert_eq!(
        (record.status, record.error, record.attempts),
        (Some(200), None, 1)
    );
    assert_eq!(record.bytes_in, request.len() as u64);
    assert_eq!(record.bytes_out, ok("hello").len() as u64);
    assert_eq!(record.first_byte, Some(millis(30)));
    assert_eq!(record.ended.since(record.begun), millis(30));
}

#[test]
fn answers_of_our_own_are_told_with_their_cause() {
    let (mut world, told) = world(Setup {
        connects: Connects::Fail(ConnectFault::Endpoint),
        ..Setup::default()
    });
    let client = world.client();
    world.send(client, get("/"));
    let answer = world.read(client);
    let record = told.one();
    assert_eq!(
        (record.status, record.error),
        (Some(502), Some("connect-failed"))
    );
    assert_eq!(record.bytes_out, answer.len() as u64);
    assert_eq!(record.attempts, 1);

    world.send(client, "GET / HTTP/1.1\r\nBad Name: x\r\n\r\n");
    let answer = world.read(client);
    let record = told.one();
    assert_eq!(record.status, Some(400));
    assert!(record.error.is_some() && record.method.is_empty());
    assert_eq!(record.bytes_out, answer.len() as u64);
}

#[test]
fn a_response_that_breaks_off_keeps_its_status_and_says_why() {
    let (mut world, told) = world(Setup::default());
    let client = world.client();
    world.send(client, get("/"));
    let endpoint = world.endpoint();
    world.send(endpoint, &ok("hello")[..40]);
    world.finish(endpoint);
    let record = told.one();
    assert_eq!(
        (record.status, record.error),
        (Some(200), Some("response-body-invalid"))
    );
    assert_eq!(record.bytes_out, 40);
}

#[test]
fn a_client_that_leaves_is_told() {
    let (mut world, told) = world(Setup::default());
    let client = world.client();
    world.send(client, get("/"));
    world.finish(client);
    let record = told.one();
    assert_eq!(
        (record.status, record.error),
        (None, Some("client-cancelled"))
    );
    assert!(record.endpoint.is_some());
}

#[test]
fn attempts_are_counted_and_the_last_endpoint_is_told() {
    let (mut world, told) = world(Setup {
        weights: vec![1, 1],
        connects: Connects::Fail(ConnectFault::Endpoint),
        ..Setup::default()
    });
    let client = world.client();
    world.send(client, get("/"));
    let record = told.one();
    assert_eq!(record.attempts, 2);
    assert!(record.endpoint.is_some());
}
