//! Listeners that come and go.

use std::fs;
use std::net::SocketAddr;

use anyhow::Result;
use weir_tests::client::Client;
use weir_tests::scenario::PORT;
use weir_tests::skip::can_run;

use crate::NEEDS;
use crate::edited::{Edited, FILE, quick};

#[test]
fn listeners_come_and_go_and_one_that_cannot_be_had_changes_nothing() -> Result<()> {
    if !can_run(NEEDS) {
        return Ok(());
    }
    let edited = Edited::start(vec![quick(), quick()], &[])?;
    let weir = &edited.scenario.weir;
    let place = edited.scenario.star.client.namespace.place();
    let (first, second) = (weir.listen, SocketAddr::new(weir.listen.ip(), PORT + 1));
    let mut early = Client::connect(&place, first)?;
    assert_eq!(early.get("/")?.status(), 200);

    let mut service = edited.service(&[0]);
    service.listen = vec![first, second];
    edited.write(&service)?;
    edited.wait_for_revision(2)?;
    let mut other = Client::connect(&place, second)?;
    assert_eq!(other.get("/")?.status(), 200);

    // An address of nobody's: the endpoint that would have come does not come either.
    let nowhere: SocketAddr = "192.0.2.1:80".parse()?;
    let mut impossible = edited.service(&[0, 1]);
    impossible.listen = vec![first, second, nowhere];
    fs::write(edited.folder.path().join(FILE), impossible.to_yaml())?;
    let answer = weir.reload("")?;
    assert_eq!(answer.status(), 422);
    let text = answer.text();
    assert!(
        text.contains("cannot listen on 192.0.2.1:80: no interface"),
        "{text}"
    );
    assert_eq!(weir.revision()?, 2);
    assert_eq!(weir.dump()?.len(), 1);

    let mut idle = Client::connect(&place, first)?;
    assert_eq!(idle.get("/")?.status(), 200);
    service.listen = vec![second];
    edited.write(&service)?;
    edited.wait_for_revision(3)?;
    let last = early.get("/")?;
    assert_eq!(last.status(), 200, "one more answer");
    assert_eq!(last.head.field("connection"), Some("close"));
    assert!(idle.is_closed());
    assert!(Client::connect(&place, first).is_err(), "nobody listens");
    assert_eq!(other.get("/")?.status(), 200, "the other was not touched");

    service.listen = vec![first, second];
    edited.write(&service)?;
    edited.wait_for_revision(4)?;
    assert_eq!(Client::connect(&place, first)?.get("/")?.status(), 200);
    Ok(())
}
