//! Copies of requests: what mirrors get, what becomes of it, and that nobody else notices.

use std::num::NonZeroU32;
use std::sync::Arc;

use super::setup::{Connects, Setup};
use super::wire::Ending;
use super::world::World;
use super::*;
use crate::http::FieldEdits;
use crate::metrics::Unmirrored;
use crate::route::{Filters, Fraction, Handling, Mirror, Portion, Rules, Split, Timeouts};
use crate::seam::{ConnId, ConnectFault, Core};

/// Place of the endpoint that gets copies.
const COPIES: usize = 1;

fn mirror(fraction: Fraction) -> Mirror {
    Mirror {
        backend: 1,
        fraction,
        filters: None,
    }
}

fn filters(mirrors: Vec<Mirror>) -> Option<Arc<Filters>> {
    Some(Arc::new(Filters {
        mirrors,
        ..Filters::default()
    }))
}

/// One endpoint, and one that gets copies of this part of the requests.
fn setup(fraction: Fraction) -> Setup {
    Setup {
        mirrors: 1,
        rules: Rules::always(Handling {
            filters: filters(vec![mirror(fraction)]),
            ..Split::one(0).into()
        }),
        ..Setup::default()
    }
}

fn world() -> World {
    World::of(setup(Fraction::ALL))
}

/// The connections the last request and its copy are on.
fn both(world: &World) -> [ConnId; 2] {
    [0, COPIES].map(|place| world.endpoint_of(place))
}

/// What arrives of a copy of this request.
fn copied(request: &str) -> String {
    marked(&forwarded(request))
}

fn marked(request: &str) -> String {
    request.replacen("\r\n\r\n", "\r\nX-Weir-Mirror: 1\r\n\r\n", 1)
}

fn dropped(world: &World, reason: Unmirrored) -> u64 {
    world.counters.unmirrored.of(reason).value()
}

/// Leases of the mirror that ended as success, failure, neutral.
fn outcomes(world: &World) -> [u64; 3] {
    let leases = world.figures(COPIES).leases;
    [leases.succeeded, leases.failed, leases.neutral]
}

#[test]
fn a_mirror_gets_the_same_request_and_its_response_goes_nowhere() {
    let mut world = world();
    let client = world.client();
    for request in [get("/a"), with_body("POST", "0123456789")] {
        world.send(client, &request);
        let [endpoint, copies] = both(&world);
        assert_eq!(world.read(endpoint), forwarded(&request));
        assert_eq!(world.read(copies), copied(&request));
        world.send(copies, ok("of the copy"));
        assert_eq!(world.read(client), "");
        world.send(endpoint, ok("x"));
        assert_eq!(world.read(client), ok("x"));
    }
    assert_eq!(world.upstreams.len(), 2, "both connections are used again");
    assert_eq!(outcomes(&world), [2, 0, 0]);
    assert_eq!(world.outcomes(), [2, 0, 0]);
    assert_eq!(world.counters.mirrored.value(), 2);
    assert_eq!(world.counters.requests.value(), 2);
}

#[test]
fn a_body_is_sent_to_the_mirror_when_all_of_it_has_come() {
    let mut world = world();
    let client = world.client();
    let head = "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n";
    world.send(client, head);
    world.send(client, "3\r\nabc\r\n");
    assert_eq!(world.upstreams.len(), 1, "nothing has been copied");
    world.send(client, "0\r\nT: u\r\n\r\n");
    let [endpoint, copies] = both(&world);
    let arrived = world.read(endpoint);
    assert!(arrived.ends_with("\r\n\r\n3\r\nabc\r\n0\r\nT: u\r\n\r\n"));
    assert_eq!(world.read(copies), marked(&arrived));
}

#[test]
fn a_mirror_that_is_slow_broken_or_gone_is_nobody_elses_matter() {
    let refuses = Connects::Fail(ConnectFault::Endpoint);
    for (fares, expected) in [
        (Connects::Hang, [0, 1, 0]),
        (refuses, [0, 1, 0]),
        (Connects::Fail(ConnectFault::Host), [0, 0, 1]),
    ] {
        let mut world = world();
        world.connects_of.insert(COPIES, fares);
        let client = world.client();
        world.send(client, get("/"));
        world.answer(&ok("x"));
        assert_eq!(world.read(client), ok("x"));
        world.advance(seconds(5));
        assert_eq!(outcomes(&world), expected, "{fares:?}");
        assert_eq!(world.outcomes(), [1, 0, 0]);
        assert!(world.is_open(client));
    }
    for response in [
        "nonsense\r\n\r\n",
        "HTTP/1.1 500 No\r\nContent-Length: 0\r\n\r\n",
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nz",
    ] {
        let mut world = world();
        let client = world.client();
        world.send(client, get("/"));
        let [endpoint, copies] = both(&world);
        world.send(copies, response);
        world.send(endpoint, ok("x"));
        assert_eq!(world.read(client), ok("x"));
        assert_eq!(outcomes(&world), [0, 1, 0], "{response}");
    }
}

#[test]
fn a_client_that_leaves_does_not_take_a_copy_along_that_was_sent() {
    let mut world = world();
    let client = world.client();
    world.send(client, get("/"));
    let [_, copies] = both(&world);
    world.finish(client);
    world.send(copies, ok("x"));
    assert_eq!(outcomes(&world), [1, 0, 0]);
    assert!(world.is_open(copies));
}

#[test]
fn a_copy_that_is_not_answered_in_time_is_given_up() {
    let mut world = world();
    let client = world.client();
    world.send(client, get("/"));
    let [_, copies] = both(&world);
    world.advance(seconds(59));
    assert_eq!(world.ending(copies), Ending::No);
    world.advance(seconds(1));
    assert_eq!(world.ending(copies), Ending::Abort);
    assert_eq!(outcomes(&world), [0, 1, 0]);
}

#[test]
fn a_response_without_end_is_cut_off_and_was_good() {
    let mut world = world();
    let client = world.client();
    world.send(client, get("/"));
    let [_, copies] = both(&world);
    world.send(copies, "HTTP/1.1 200 OK\r\n\r\n");
    for _ in 0..3 {
        world.advance(millis(600));
        world.send(copies, "data: x\n\n");
    }
    assert!(world.is_open(copies));
    world.advance(millis(200));
    assert_eq!(world.ending(copies), Ending::Abort);
    assert_eq!(outcomes(&world), [1, 0, 0]);
}

#[test]
fn a_long_response_is_cut_off_and_was_good() {
    let mut world = world();
    let client = world.client();
    world.send(client, get("/"));
    let [_, copies] = both(&world);
    world.send(copies, "HTTP/1.1 200 OK\r\n\r\n");
    for _ in 0..4 {
        assert!(world.is_open(copies));
        world.send(copies, "x".repeat(65 * 1024));
    }
    assert_eq!(world.ending(copies), Ending::Abort);
    assert_eq!(outcomes(&world), [1, 0, 0]);
}

#[test]
fn a_copy_is_not_copied_again() {
    let mut world = world();
    let client = world.client();
    let request = "GET / HTTP/1.1\r\nHost: a\r\nX-Weir-Mirror: 1\r\n\r\n";
    world.send(client, request);
    assert_eq!(world.read(world.endpoint()), forwarded(request));
    assert_eq!(world.upstreams.len(), 1);
    assert_eq!(dropped(&world, Unmirrored::Copy), 1);
}

#[test]
fn a_drain_waits_for_clients_and_not_for_copies() {
    let mut world = world();
    let client = world.client();
    world.send(client, get("/"));
    let [endpoint, copies] = both(&world);
    world.drain();
    assert!(world.is_open(copies), "its request is under way");
    world.send(endpoint, ok("x"));
    world.finish(client);
    assert_eq!(world.ending(copies), Ending::Abort);
    assert_eq!(outcomes(&world), [0, 0, 1]);
    assert!(world.proxy.is_drained());
}

#[test]
fn a_copy_has_no_more_time_than_the_rule_gives_a_try() {
    let mut setup = setup(Fraction::ALL);
    setup.rules = Rules::always(Handling {
        filters: filters(vec![mirror(Fraction::ALL)]),
        timeouts: Timeouts {
            request: None,
            backend_request: Some(seconds(3)),
        },
        ..Split::one(0).into()
    });
    let mut world = World::of(setup);
    let client = world.client();
    world.send(client, get("/"));
    let [endpoint, copies] = both(&world);
    world.send(endpoint, ok("x"));
    world.advance(seconds(3));
    assert_eq!(world.ending(copies), Ending::Abort);
}

#[test]
fn bodies_too_large_to_keep_are_not_copied() {
    let mut world = world();
    let client = world.client();
    let large = with_body("PUT", &"x".repeat(65 * 1024));
    world.send(client, &large);
    world.answer(&ok("x"));
    assert_eq!(world.read(client), ok("x"));
    assert_eq!(dropped(&world, Unmirrored::TooLarge), 1);
    // Nor if that shows only as it comes.
    let chunk = format!("8000\r\n{}\r\n", "y".repeat(0x8000));
    let head = "PUT / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n";
    world.send(client, format!("{head}{chunk}{chunk}"));
    world.send(client, "0\r\n\r\n");
    world.answer(&ok("x"));
    assert_eq!(world.read(client), ok("x"));
    assert_eq!(dropped(&world, Unmirrored::TooLarge), 2);
    assert_eq!(world.upstreams.len(), 1);
}

#[test]
fn a_request_that_does_not_come_whole_is_not_copied() {
    let mut world = world();
    let client = world.client();
    world.send(
        client,
        "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\nab",
    );
    world.reset(client);
    assert_eq!(dropped(&world, Unmirrored::Incomplete), 1);
    assert_eq!(world.upstreams.len(), 1);
}

#[test]
fn what_names_no_host_is_not_copied() {
    let mut world = world();
    let client = world.client();
    world.send(client, "GET / HTTP/1.0\r\n\r\n");
    assert_eq!(dropped(&world, Unmirrored::NoHost), 1);
    world.answer(&ok("x"));
    assert!(world.read(client).ends_with("\r\n\r\nx"));
}

#[test]
fn copies_on_their_way_are_bounded() {
    let mut setup = setup(Fraction::ALL);
    setup.settings.max_mirrored = 2;
    let mut world = World::of(setup);
    world.connects_of.insert(COPIES, Connects::Hang);
    for _ in 0..3 {
        let client = world.client();
        world.send(client, get("/"));
        world.answer(&ok("x"));
        assert_eq!(world.read(client), ok("x"));
    }
    assert_eq!(world.counters.mirrored.value(), 2);
    assert_eq!(dropped(&world, Unmirrored::TooMany), 1);
}

#[test]
fn copies_take_no_connection_a_client_may_need() {
    let mut setup = setup(Fraction::ALL);
    setup.settings.max_upstreams = 2;
    setup.settings.max_downstreams = 2;
    let mut world = World::of(setup);
    let first = world.client();
    world.send(first, get("/"));
    assert_eq!(world.counters.mirrored.value(), 1);
    let second = world.client();
    world.send(second, get("/"));
    assert_eq!(world.counters.mirrored.value(), 1);
    assert_eq!(dropped(&world, Unmirrored::TooMany), 1);
}

#[test]
fn an_idle_connection_that_turns_out_dead_costs_the_copy_and_no_health() {
    let mut world = world();
    let client = world.client();
    world.send(client, get("/"));
    let [endpoint, copies] = both(&world);
    world.send(copies, ok("x"));
    world.send(endpoint, ok("x"));
    world.send(client, get("/"));
    world.finish(copies);
    assert_eq!(outcomes(&world), [1, 0, 1]);
    assert_eq!(dropped(&world, Unmirrored::StaleConnection), 1);
    world.send(endpoint, ok("x"));
}

#[test]
fn a_part_of_the_requests_is_mirrored_and_to_several() {
    let four = NonZeroU32::new(4).expect("not zero");
    let quarter = Fraction::new(1, four).expect("less than all");
    let mut world = World::of(Setup {
        rules: Rules::always(Handling {
            filters: filters(vec![mirror(quarter), mirror(Fraction::ALL)]),
            ..Split::one(0).into()
        }),
        ..setup(Fraction::ALL)
    });
    let client = world.client();
    for _ in 0..200 {
        world.send(client, get("/"));
        for conn in world.upstreams.clone() {
            if !world.read(conn).is_empty() {
                world.send(conn, ok("x"));
            }
        }
    }
    let mirrored = world.counters.mirrored.value();
    assert!((230..270).contains(&mirrored), "{mirrored}");
    assert_eq!(world.outcomes(), [200, 0, 0]);
}

#[test]
fn a_copy_has_the_edits_of_who_asked_for_it() {
    let edits = |value: &str| {
        let mut request = FieldEdits::default();
        assert_eq!(request.set("X-For", value), Ok(()));
        Filters {
            request,
            ..Filters::default()
        }
    };
    let (rule, share) = (edits("rule"), edits("share"));
    let asked_by = |filters: &Filters| Mirror {
        filters: Some(Arc::new(filters.clone())),
        ..mirror(Fraction::ALL)
    };
    let of_share = Filters {
        mirrors: vec![asked_by(&rule), asked_by(&share)],
        ..share.clone()
    };
    let portion = Portion {
        backend: 0,
        weight: 1,
        filters: Some(Arc::new(of_share)),
    };
    let mut world = World::of(Setup {
        rules: Rules::always(Split::of([portion])),
        ..setup(Fraction::ALL)
    });
    let client = world.client();
    world.send(client, "GET / HTTP/1.1\r\nHost: a\r\nX-For: client\r\n\r\n");
    let arrived = |value: &str| {
        forwarded(&format!(
            "GET / HTTP/1.1\r\nHost: a\r\nX-For: {value}\r\n\r\n"
        ))
    };
    let got: Vec<String> = world
        .upstreams
        .clone()
        .into_iter()
        .map(|conn| world.read(conn))
        .collect();
    let [first, copies @ ..] = ["share", "rule", "share"].map(arrived);
    assert_eq!(got[0], first);
    assert_eq!(got[1..], copies.map(|copy| marked(&copy)));
}
