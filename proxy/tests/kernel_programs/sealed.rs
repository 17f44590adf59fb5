//! Frames with checksums, made and checked by summing everything up: what the kernel programs change a little, is here
//! computed whole.

use std::net::{IpAddr, SocketAddr};

use crate::packet::{ACK, Packet};

const TCP: u8 = 6;
const UDP: u8 = 17;

/// A datagram of this many bytes, without checksums.
pub fn datagram(source: SocketAddr, destination: SocketAddr, payload: usize) -> Vec<u8> {
    // The frame of a segment whose header is 12 bytes longer.
    let mut frame = Packet::new(source, destination, ACK)
        .payload(payload.saturating_sub(12))
        .bytes();
    let transport = transport_at(&frame);
    let length = (8 + payload) as u16;
    frame.truncate(transport);
    match source.ip() {
        IpAddr::V4(_) => {
            frame[16..18].copy_from_slice(&(20 + length).to_be_bytes());
            frame[23] = UDP;
        }
        IpAddr::V6(_) => {
            frame[18..20].copy_from_slice(&length.to_be_bytes());
            frame[20] = UDP;
        }
    }
    frame.extend(source.port().to_be_bytes());
    frame.extend(destination.port().to_be_bytes());
    frame.extend(length.to_be_bytes());
    frame.extend([0, 0]);
    frame.extend((0..payload).map(|byte| byte as u8));
    frame
}

/// Fills in all checksums.
pub fn sealed(mut frame: Vec<u8>) -> Vec<u8> {
    if is_v4(&frame) {
        frame[24..26].fill(0);
        let header = transport_at(&frame);
        let sum = !sum(&frame[14..header], 0);
        frame[24..26].copy_from_slice(&sum.to_be_bytes());
    }
    let at = checksum_at(&frame);
    frame[at..at + 2].fill(0);
    let mut checksum = !transport_sum(&frame);
    if protocol(&frame) == UDP && checksum == 0 {
        checksum = 0xffff;
    }
    frame[at..at + 2].copy_from_slice(&checksum.to_be_bytes());
    frame
}

/// Whether all checksums are those of the bytes.
pub fn is_sealed(frame: &[u8]) -> bool {
    let header = transport_at(frame);
    let is_ip_right = !is_v4(frame) || sum(&frame[14..header], 0) == 0xffff;
    is_ip_right && transport_sum(frame) == 0xffff
}

/// The ends a frame says it goes between.
pub fn ends(frame: &[u8]) -> (SocketAddr, SocketAddr) {
    let transport = transport_at(frame);
    let port = |at: usize| u16::from_be_bytes([frame[at], frame[at + 1]]);
    let address = |at: usize| -> IpAddr {
        match is_v4(frame) {
            true => <[u8; 4]>::try_from(&frame[at..at + 4])
                .expect("four")
                .into(),
            false => <[u8; 16]>::try_from(&frame[at..at + 16])
                .expect("all")
                .into(),
        }
    };
    let (source, destination) = match is_v4(frame) {
        true => (26, 30),
        false => (22, 38),
    };
    (
        SocketAddr::new(address(source), port(transport)),
        SocketAddr::new(address(destination), port(transport + 2)),
    )
}

/// How many more hops it may live.
pub fn hops(frame: &[u8]) -> u8 {
    frame[if is_v4(frame) { 22 } else { 21 }]
}

/// What TCP or UDP carries.
pub fn payload(frame: &[u8]) -> &[u8] {
    let at = transport_at(frame);
    match protocol(frame) {
        TCP => &frame[at + usize::from(frame[at + 12] >> 4) * 4..],
        _ => &frame[at + 8..],
    }
}

/// Where the checksum of TCP or UDP lies.
pub fn checksum_at(frame: &[u8]) -> usize {
    transport_at(frame) + if protocol(frame) == TCP { 16 } else { 6 }
}

pub fn is_v4(frame: &[u8]) -> bool {
    frame[12..14] == [0x08, 0x00]
}

fn protocol(frame: &[u8]) -> u8 {
    frame[if is_v4(frame) { 23 } else { 20 }]
}

fn transport_at(frame: &[u8]) -> usize {
    match is_v4(frame) {
        true => 14 + usize::from(frame[14] & 15) * 4,
        false => 54,
    }
}

/// Of TCP or UDP with its pseudo header.
fn transport_sum(frame: &[u8]) -> u16 {
    let transport = transport_at(frame);
    let length = (frame.len() - transport) as u32;
    let addresses = if is_v4(frame) { 26..34 } else { 22..54 };
    let pseudo = sum(&frame[addresses], length + u32::from(protocol(frame)));
    sum(&frame[transport..], pseudo.into())
}

/// Of 16-bit words in ones' complement (RFC 1071).
pub fn sum(bytes: &[u8], start: u32) -> u16 {
    let mut sum = start;
    for word in bytes.chunks(2) {
        let low = word.get(1).copied().unwrap_or(0);
        sum += u32::from(u16::from_be_bytes([word[0], low]));
    }
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    sum as u16
}
