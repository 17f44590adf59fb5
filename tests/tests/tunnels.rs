//! Upgrades of a connection, as to WebSocket: the bytes of both sides, and their ends.

use std::time::Duration;

use anyhow::Result;
use weir_tests::client::Client;
use weir_tests::endpoint::scripts::script;
use weir_tests::endpoint::{Next, Script};
use weir_tests::message::Framing;
use weir_tests::scenario::Scenario;
use weir_tests::skip::{Need, can_run};
use weir_tests::wait::becomes_true;

const ASKS: &[u8] =
    b"GET /chat HTTP/1.1\r\nhost: a\r\nconnection: Upgrade\r\nupgrade: shout\r\n\r\n";
const SWITCHES: &[u8] =
    b"HTTP/1.1 101 Switching Protocols\r\nconnection: Upgrade\r\nupgrade: shout\r\n\r\n";

/// Switches, and gives back in capitals what it gets until the client's side ends; then it says goodbye.
fn shouts() -> Script {
    script(|exchange| {
        if exchange.head.field("upgrade") != Some("shout") {
            return exchange.respond(400, b"no upgrade");
        }
        exchange.send(SWITCHES)?;
        while let Some(byte) = exchange.next_byte()? {
            exchange.send(&[byte.to_ascii_uppercase()])?;
        }
        exchange.send(b"bye")?;
        Ok(Next::Close)
    })
}

fn read(client: &mut Client, framing: Framing) -> Result<String> {
    let mut bytes = Vec::new();
    client
        .wire
        .read_body(framing, |piece| bytes.extend_from_slice(piece))?;
    Ok(String::from_utf8(bytes)?)
}

#[test]
fn bytes_go_both_ways_and_a_side_that_ends_still_hears_the_other() -> Result<()> {
    if !can_run(&[Need::Root]) {
        return Ok(());
    }
    let scenario = Scenario::plain(vec![shouts()])?;
    let mut client = scenario.client()?;
    client.wire.send(ASKS)?;
    let (head, _) = client.response_head("GET")?;
    assert_eq!(head.status(), 101);
    assert_eq!(head.field("upgrade"), Some("shout"));
    for text in ["hello", "GET / HTTP/1.1\r\n\r\n"] {
        client.wire.send(text.as_bytes())?;
        let answer = read(&mut client, Framing::Length(text.len() as u64))?;
        assert_eq!(answer, text.to_uppercase());
    }
    assert_eq!(scenario.dump()?[0].pending, 1);
    client.wire.finish()?;
    assert_eq!(read(&mut client, Framing::UntilClose)?, "bye");
    let is_settled = || {
        scenario
            .dump()
            .is_ok_and(|dump| dump[0].attempts.succeeded == 1)
    };
    assert!(becomes_true(Duration::from_secs(5), is_settled));
    let tunnels = scenario.weir.metrics()?.sum("weir_tunnels_total", &[]);
    assert_eq!(tunnels, Some(1.0));

    // Who does not ask is not switched, and an endpoint that does not switch is an ordinary one.
    let answer = scenario.client()?.get("/")?;
    assert_eq!(answer.status(), 400);
    assert_eq!(answer.text(), "no upgrade");
    Ok(())
}
