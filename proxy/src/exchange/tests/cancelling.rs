//! Clients that go away: the endpoint's work is given up at once and the endpoint is not blamed.

use super::setup::{Connects, Setup};
use super::wire::Ending;
use super::world::World;
use super::*;

#[test]
fn a_client_that_leaves_before_the_response_cancels_it() {
    for leave in [World::finish, World::reset] {
        let mut world = World::new();
        let client = world.client();
        world.send(client, get("/"));
        let endpoint = world.endpoint();
        leave(&mut world, client);
        assert_eq!(world.ending(endpoint), Ending::Abort);
        assert_eq!(world.outcomes(), [0, 0, 1]);
        assert_eq!(world.counters.client_cancelled.value(), 1);
    }
}

#[test]
fn a_client_that_leaves_in_the_middle_of_the_response_cancels_it() {
    for leave in [World::finish, World::reset] {
        let mut world = World::new();
        let client = world.client();
        world.send(client, get("/"));
        let endpoint = world.endpoint();
        world.send(
            endpoint,
            "HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nhello",
        );
        leave(&mut world, client);
        assert_eq!(world.ending(endpoint), Ending::Abort);
        assert_eq!(world.outcomes(), [0, 0, 1]);
    }
}

#[test]
fn a_client_that_takes_no_more_cancels() {
    let mut world = World::new();
    let client = world.client();
    world.send(client, get("/"));
    let endpoint = world.endpoint();
    world.stall(client);
    world.send(
        endpoint,
        "HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nhello",
    );
    world.tell(client, super::wire::News::SendFailed);
    world.settle();
    assert_eq!(world.ending(endpoint), Ending::Abort);
    assert_eq!(world.ending(client), Ending::Abort);
    assert_eq!(world.outcomes(), [0, 0, 1]);
}

#[test]
fn a_client_that_leaves_while_the_connection_is_made_cancels_it() {
    let mut world = World::of(Setup {
        connects: Connects::Hang,
        ..Setup::default()
    });
    let client = world.client();
    world.send(client, get("/"));
    let endpoint = world.endpoint();
    assert_eq!(world.figures(0).leases.pending, 1);
    world.finish(client);
    assert_eq!(world.ending(endpoint), Ending::Abort);
    assert_eq!(world.outcomes(), [0, 0, 1]);
}

#[test]
fn a_client_that_leaves_in_the_middle_of_its_upload_cancels() {
    let mut world = World::new();
    let client = world.client();
    let post = with_body("POST", "0123456789");
    world.send(client, &post[..post.len() - 1]);
    let endpoint = world.endpoint();
    world.finish(client);
    assert_eq!(
        world.ending(endpoint),
        Ending::Abort,
        "it must not pass for whole"
    );
    assert_eq!(world.outcomes(), [0, 0, 1]);
}

#[test]
fn a_client_that_leaves_an_error_behind_does_not_excuse_it() {
    let mut world = World::new();
    let client = world.client();
    world.send(client, get("/"));
    let endpoint = world.endpoint();
    world.send(
        endpoint,
        "HTTP/1.1 500 Internal Server Error\r\nContent-Length: 10\r\n\r\nhello",
    );
    world.reset(client);
    assert_eq!(world.outcomes(), [0, 1, 0]);
}

#[test]
fn a_client_that_leaves_in_the_middle_of_a_head_was_never_there() {
    let mut world = World::new();
    let client = world.client();
    world.send(client, "GET / HT");
    world.finish(client);
    assert_eq!(world.ending(client), Ending::Close);
    assert_eq!(world.read(client), "");
    assert_eq!(world.counters.requests.value(), 0);
}

#[test]
fn others_go_on_when_a_client_leaves() {
    let mut world = World::new();
    let (leaver, other) = (world.client(), world.client());
    world.send(leaver, get("/leaver"));
    world.send(other, get("/other"));
    let [first, second] = world.upstreams[..] else {
        panic!("two connections");
    };
    world.reset(leaver);
    assert_eq!(world.ending(first), Ending::Abort);
    world.send(second, ok("other"));
    assert_eq!(world.read(other), ok("other"));
    assert_eq!(world.outcomes(), [1, 0, 1]);
}
