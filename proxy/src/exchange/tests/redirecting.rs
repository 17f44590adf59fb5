//! Clients that are sent elsewhere: an answer of our own that is nobody's failure.

use std::sync::Arc;

use super::setup::Setup;
use super::wire::Ending;
use super::world::World;
use super::*;
use crate::http::Status;
use crate::metrics::{LocalCause, ResponseClass};
use crate::route::{Filters, Handling, PathRewrite, Redirect, RedirectScheme, Rules};

fn world() -> World {
    let redirect = Redirect {
        scheme: Some(RedirectScheme::Https),
        host: None,
        port: None,
        path: Some(PathRewrite::prefix("/v2")),
        status: Status::try_from(308).expect("a status"),
    };
    World::of(Setup {
        rules: Rules::always(Handling {
            filters: Some(Arc::new(Filters {
                redirect: Some(redirect),
                ..Filters::default()
            })),
            ..Handling::default()
        }),
        ..Setup::default()
    })
}

const HEAD: &str = "HTTP/1.1 308 Permanent Redirect\r\nDate: Thu, 01 Jan 1970 00:00:01 GMT\r\n\
    Content-Type: text/plain\r\nContent-Length: 29\r\n\
    Location: https://a/v2/x?y\r\n";

#[test]
fn clients_are_told_where_to_go_and_may_ask_on() {
    let mut world = world();
    let client = world.client();
    for _ in 0..2 {
        world.send(client, get("/x?y"));
        assert_eq!(
            world.read(client),
            format!("{HEAD}\r\nPermanent Redirect: redirect\n")
        );
    }
    world.send(client, "HEAD /x?y HTTP/1.1\r\nHost: a\r\n\r\n");
    assert_eq!(world.read(client), format!("{HEAD}\r\n"));
    assert!(world.is_open(client) && world.upstreams.is_empty());
    assert_eq!(world.figures(0).leases.picked, 0);
    let counters = &world.counters;
    assert_eq!(counters.local_replies.of(LocalCause::Redirect).value(), 3);
    assert_eq!(counters.responses.of(ResponseClass::Redirection).value(), 3);
}

#[test]
fn requests_in_a_row_each_get_their_own_place() {
    let mut world = world();
    let client = world.client();
    world.send(client, get("/1") + &get("/2"));
    let answers = world.read(client);
    let places: Vec<&str> = answers
        .lines()
        .filter_map(|line| line.strip_prefix("Location: "))
        .collect();
    assert_eq!(places, ["https://a/v2/1", "https://a/v2/2"]);
}

#[test]
fn an_upload_under_way_or_a_drain_ends_the_connection() {
    let mut uploading = world();
    let client = uploading.client();
    let post = with_body("POST", "0123456789");
    uploading.send(client, &post[..post.len() - 5]);
    assert!(says_close(&uploading.read(client)));
    assert_eq!(uploading.ending(client), Ending::Shutdown);

    let mut draining = world();
    let client = draining.client();
    draining.drain();
    draining.send(client, get("/x?y"));
    let answer = draining.read(client);
    assert!(answer.starts_with(HEAD) && says_close(&answer), "{answer}");
}

#[test]
fn a_request_for_no_host_has_no_other_place() {
    let mut world = world();
    let client = world.client();
    world.send(client, "GET / HTTP/1.0\r\n\r\n");
    assert!(world.read(client).starts_with("HTTP/1.1 400 "));
}
