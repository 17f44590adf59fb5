//! Frames from denied sources, and frames that only look like it.

use std::net::IpAddr;
use std::sync::Arc;

use weir::snapshot::{DenyList, Prefix};
use weir_common::Reason;

use crate::packet::{ACK, Packet};
use crate::rig::Rig;

const DROP: u32 = 1;
const PASS: u32 = 2;

fn list(prefixes: &[&str]) -> Arc<DenyList> {
    let prefix = |text: &&str| {
        let (address, length) = text.split_once('/').expect("a prefix");
        let address: IpAddr = address.parse().expect("an address");
        Prefix::around(address, length.parse().expect("a number")).expect("short enough")
    };
    Arc::new(prefixes.iter().map(prefix).collect())
}

pub fn denying(prefixes: &[&str]) -> Option<Rig> {
    let rig = Rig::new()?;
    rig.dataplane.deny(&list(prefixes)).expect("there is room");
    Some(rig)
}

fn from(source: &str) -> Packet {
    let destination = match source.contains('.') {
        true => "10.9.0.1:80",
        false => "[2001:db8::1]:80",
    };
    let source = match source.contains('.') {
        true => format!("{source}:40000"),
        false => format!("[{source}]:40000"),
    };
    let address = |text: &str| text.parse().expect("an address");
    Packet::new(address(&source), address(destination), ACK).payload(100)
}

/// What became of the frame. Whatever it is, the frame is left as it came.
fn action(rig: &Rig, frame: &[u8]) -> u32 {
    let run = rig.dataplane.run_xdp(frame, 1).expect("the program runs");
    assert_eq!(run.frame, frame);
    run.action
}

#[test]
fn a_source_is_denied_if_a_prefix_of_its_own_family_holds_it() {
    let Some(rig) = denying(&[
        "192.0.2.0/24",
        "198.51.100.7/32",
        "2001:db8:bad::/48",
        "::/3",
    ]) else {
        return;
    };
    for (source, expected) in [
        ("192.0.2.0", DROP),
        ("192.0.2.255", DROP),
        ("192.0.3.0", PASS),
        ("192.0.1.255", PASS),
        ("198.51.100.7", DROP),
        ("198.51.100.6", PASS),
        ("2001:db8:bad::1", DROP),
        ("2001:db8:bad:ffff::1", DROP),
        ("2001:db8:bae::1", PASS),
        // Within ::/3, but for the family.
        ("1fff::1", DROP),
        ("10.0.0.1", PASS),
    ] {
        assert_eq!(action(&rig, &from(source).bytes()), expected, "{source}");
    }
    assert_eq!(rig.reason(Reason::Denied), 6);
    assert_eq!(rig.reason(Reason::Passed), 5);
}

#[test]
fn frames_without_a_whole_ip_header_are_passed() {
    let Some(rig) = denying(&["0.0.0.0/0", "::/0"]) else {
        return;
    };
    let (v4, v6) = (from("192.0.2.1"), from("2001:db8::7"));
    for length in 14..34 {
        assert_eq!(action(&rig, &v4.clone().cut(length).bytes()), PASS);
    }
    for length in 14..54 {
        assert_eq!(action(&rig, &v6.clone().cut(length).bytes()), PASS);
    }
    assert_eq!(action(&rig, &v4.bytes()), DROP);
}

#[test]
fn a_list_takes_the_place_of_the_one_before() {
    let Some(rig) = denying(&["192.0.2.0/24", "198.51.100.0/24"]) else {
        return;
    };
    let is_denied = |source: &str| action(&rig, &from(source).bytes()) == DROP;
    let next = list(&["192.0.2.0/25", "198.51.100.0/24", "2001:db8::/32"]);
    rig.dataplane.deny(&next).expect("there is room");
    assert_eq!(rig.dataplane.denied_prefixes(), 3);
    assert!(is_denied("192.0.2.1") && is_denied("198.51.100.1") && is_denied("2001:db8::9"));
    assert!(!is_denied("192.0.2.200"));
    rig.dataplane.deny(&list(&[])).expect("there is room");
    for source in ["192.0.2.1", "198.51.100.1", "2001:db8::9"] {
        assert!(!is_denied(source), "{source}");
    }
}
