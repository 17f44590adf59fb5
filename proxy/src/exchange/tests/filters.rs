//! What rules do to what passes.

use std::sync::Arc;

use super::setup::Setup;
use super::world::World;
use super::*;
use crate::affinity::Affinity;
use crate::http::FieldEdits;
use crate::route::{
    Filters, Handling, Host, Match, Origin, PathMatch, PathRewrite, Portion, Retry, RetryOn,
    Rewrite, Rule, Rules, Split, StatusCodes,
};

fn edits(edit: impl FnOnce(&mut FieldEdits) -> Result<(), crate::http::EditError>) -> FieldEdits {
    let mut edits = FieldEdits::default();
    edit(&mut edits).expect("fields that may be edited");
    edits
}

fn setup(prefix: &str, filters: Filters) -> Setup {
    let mut codes = StatusCodes::default();
    assert!(codes.insert(503));
    let rule = Rule {
        host: Host::Any,
        matches: Match {
            path: PathMatch::prefix(prefix),
            ..Match::default()
        },
        origin: Origin::default(),
        handling: Arc::new(Handling {
            filters: Some(Arc::new(filters)),
            retry: Retry {
                attempts: 1,
                on: RetryOn::Failure(codes),
                backoff: Some(Duration::ZERO),
            },
            ..Split::one(0).into()
        }),
    };
    Setup {
        rules: Rules::new(vec![rule]),
        ..Setup::default()
    }
}

/// What an endpoint gets.
fn arrived(setup: Setup, request: &str) -> String {
    let mut world = World::of(setup);
    let client = world.client();
    world.send(client, request);
    world.busy_endpoint_read()
}

#[test]
fn fields_of_a_request_are_set_added_and_removed() {
    let request = edits(|fields| {
        fields.set("X-Tenant", "weir")?;
        fields.add("Via", "weir")?;
        fields.remove("Cookie")
    });
    let filters = Filters {
        request,
        ..Filters::default()
    };
    let asked = "GET /a HTTP/1.1\r\nHost: a\r\ncookie: s=1\r\nVIA: x\r\nx-tenant: me\r\nx-tenant: you\r\nAccept: b\r\n\r\n";
    let expected =
        "GET /a HTTP/1.1\r\nHost: a\r\nVIA: x\r\nAccept: b\r\nX-Tenant: weir\r\nVia: weir\r\n\r\n";
    assert_eq!(arrived(setup("/", filters), asked), forwarded(expected));
}

#[test]
fn fields_of_a_response_are_edited_and_those_of_interim_ones_not() {
    let response = edits(|fields| {
        fields.remove("Server")?;
        fields.set("X-Frame-Options", "DENY")
    });
    let mut world = World::of(setup(
        "/",
        Filters {
            response,
            ..Filters::default()
        },
    ));
    let client = world.client();
    world.send(client, get("/"));
    let hints = "HTTP/1.1 103 Early Hints\r\nServer: x\r\n\r\n";
    let endpoint = world.endpoint();
    world.read(endpoint);
    world.send(endpoint, hints);
    world.send(
        endpoint,
        "HTTP/1.1 200 OK\r\nServer: x\r\nx-frame-options: ALLOW\r\nContent-Length: 1\r\n\r\nx",
    );
    let expected =
        format!("{hints}HTTP/1.1 200 OK\r\nContent-Length: 1\r\nX-Frame-Options: DENY\r\n\r\nx");
    assert_eq!(world.read(client), expected);
    // Answers of our own are not the endpoint's.
    world.send(client, get("/"));
    world.reset(world.endpoint());
    world.reset(world.endpoint());
    assert!(!world.read(client).contains("X-Frame-Options"));
}

#[test]
fn host_and_path_are_rewritten_and_the_query_stays() {
    for (prefix, path, asked, expected) in [
        ("/", None, "GET /a?b HTTP/1.1", "GET /a?b HTTP/1.1"),
        (
            "/shop",
            Some(PathRewrite::prefix("/v2/")),
            "GET /shop/cart?id=/shop HTTP/1.1",
            "GET /v2/cart?id=/shop HTTP/1.1",
        ),
        (
            "/shop",
            Some(PathRewrite::Full("/gone".into())),
            "GET /shop/cart?id=1 HTTP/1.1",
            "GET /gone?id=1 HTTP/1.1",
        ),
        (
            "/",
            Some(PathRewrite::prefix("/v2")),
            "OPTIONS * HTTP/1.1",
            "OPTIONS * HTTP/1.1",
        ),
        (
            "/shop",
            Some(PathRewrite::prefix("/")),
            "GET http://a/shop HTTP/1.1",
            "GET / HTTP/1.1",
        ),
    ] {
        let filters = Filters {
            rewrite: Rewrite {
                host: Some("inner:81".into()),
                path,
            },
            ..Filters::default()
        };
        let got = arrived(
            setup(prefix, filters),
            &format!("{asked}\r\nHost: a\r\nA: b\r\n\r\n"),
        );
        let start = format!("{expected}\r\nHost: inner:81\r\nA: b\r\n");
        assert!(got.starts_with(&start), "{got}");
        assert!(got.contains("\r\nX-Forwarded-Host: a\r\n"), "{got}");
        assert_eq!(got.matches("Host: ").count(), 2, "{got}");
    }
}

#[test]
fn the_next_try_gets_the_same_request() {
    let filters = Filters {
        request: edits(|fields| fields.set("X-Tenant", "weir")),
        rewrite: Rewrite {
            host: None,
            path: Some(PathRewrite::prefix("/v2")),
        },
        ..Filters::default()
    };
    let mut world = World::of(setup("/", filters));
    let client = world.client();
    world.send(client, get("/a"));
    world.answer("HTTP/1.1 503 No\r\nContent-Length: 0\r\n\r\n");
    let again = world.busy_endpoint_read();
    assert!(again.starts_with("GET /v2/a HTTP/1.1\r\n"), "{again}");
    assert!(again.contains("\r\nX-Tenant: weir\r\n"), "{again}");
    assert!(again.contains("\r\nx-retry-attempt: 1\r\n"), "{again}");
}

#[test]
fn a_share_of_the_requests_is_edited_by_itself() {
    let filters = |value: &str| Filters {
        request: edits(|fields| fields.set("X-Share", value)),
        response: edits(|fields| fields.set("X-From", value)),
        ..Filters::default()
    };
    let portion = |filters: Option<Filters>| Portion {
        backend: 0,
        weight: 1,
        filters: filters.map(Arc::new),
    };
    let mut world = World::of(Setup {
        rules: Rules::always(Handling {
            filters: Some(Arc::new(filters("all"))),
            ..Split::of([portion(None), portion(Some(filters("own")))]).into()
        }),
        ..Setup::default()
    });
    let client = world.client();
    let mut counts = [0; 2];
    for _ in 0..100 {
        world.send(client, get("/"));
        let arrived = world.busy_endpoint_read();
        let is_own = arrived.contains("\r\nX-Share: own\r\n");
        assert_eq!(arrived.contains("\r\nX-Share: all\r\n"), !is_own);
        world.send(world.endpoint(), ok("x"));
        let from = if is_own { "own" } else { "all" };
        let line = format!("\r\nX-From: {from}\r\n");
        assert!(world.read(client).contains(&line), "{from}");
        counts[usize::from(is_own)] += 1;
    }
    assert!(counts.iter().all(|count| *count > 20), "{counts:?}");
}

#[test]
fn affinity_sees_the_request_as_the_client_sent_it() {
    let filters = Filters {
        request: edits(|fields| fields.remove("x-session")),
        ..Filters::default()
    };
    let mut setup = setup("/", filters);
    setup.policy.affinity = Affinity::compile(r#"request.headers["x-session"]"#).ok();
    let mut world = World::of(setup);
    let client = world.client();
    world.send(client, "GET / HTTP/1.1\r\nHost: a\r\nX-Session: 1\r\n\r\n");
    assert_eq!(world.busy_endpoint_read(), forwarded(&get("/")));
    let method = crate::balance::Method::Affinity;
    assert_eq!(world.counters.selections.of(method).value(), 1);
}
