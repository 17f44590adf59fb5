//! Where a request goes, and what becomes of one that has nowhere to go. What matches what is tested with the rules.

use std::sync::Arc;

use super::setup::Setup;
use super::world::World;
use super::*;
use crate::route::{Host, Match, Origin, Rule, Rules, Split};

/// A world with one rule, for requests of this method.
fn ruled(method: &str, split: Split) -> World {
    let matches = Match {
        method: Some(method.into()),
        ..Match::default()
    };
    let rule = Rule {
        host: Host::Any,
        matches,
        origin: Origin::default(),
        handling: Arc::new(split.into()),
    };
    World::of(Setup {
        rules: Rules::new(vec![rule]),
        ..Setup::default()
    })
}

#[test]
fn a_request_no_rule_matches_is_not_found_and_the_next_is_served() {
    let mut world = ruled("GET", Split::one(0));
    let client = world.client();
    world.send(client, "DELETE / HTTP/1.1\r\nHost: a\r\n\r\n");
    assert_local_reply(&world.read(client), 404, "no-route");
    assert_eq!(world.figures(0).leases.picked, 0);
    world.send(client, get("/"));
    world.answer(&ok("x"));
    assert_eq!(world.read(client), ok("x"));
}

#[test]
fn a_rule_that_leads_nowhere_is_our_own_error() {
    let mut world = ruled("GET", Split::new([]));
    let client = world.client();
    world.send(client, get("/"));
    assert_local_reply(&world.read(client), 500, "no-backend");
    assert!(world.is_open(client) && world.upstreams.is_empty());
}

#[test]
fn an_upload_that_has_nowhere_to_go_ends_the_connection() {
    let mut world = ruled("GET", Split::one(0));
    let client = world.client();
    let post = with_body("POST", "0123456789");
    world.send(client, &post[..post.len() - 5]);
    let answer = world.read(client);
    assert_local_reply(&answer, 404, "no-route");
    assert!(says_close(&answer));
}
