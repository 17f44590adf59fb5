//! Devices without a link header.

use std::fs::File;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::os::fd::AsRawFd;
use std::thread;
use std::time::{Duration, Instant};

use crate::namespace::{ip, on_a_loopback_of_its_own};
use crate::packet::{ACK, Packet, SYN};
use crate::rig::{Ends, Rig, skip};

const DEVICE: &str = "tunnel";

#[test]
fn a_handshake_is_timed_on_a_device_without_a_link_header() {
    on_a_loopback_of_its_own(|| {
        let Some(mut tunnel) = open_tunnel() else {
            return skip("/dev/net/tun");
        };
        assert!(ip("address add 10.9.0.1/24 dev tunnel"));
        assert!(ip("link set tunnel up"));
        let Some(rig) = Rig::open(16, vec![DEVICE.to_owned()]) else {
            return;
        };
        let endpoint = Ends::v4().endpoint;
        rig.dataplane.identify(Ends::v4().peer());

        // Nobody answers as TCP would: the checksum of what comes back is wrong, and the attempt fails.
        let client = thread::spawn(move || TcpStream::connect_timeout(&endpoint, TIMEOUT));
        let (client_address, sequence) = next_syn(&mut tunnel);
        let answer = Packet::new(endpoint, client_address, SYN | ACK);
        let frame = answer.acknowledgment(sequence.wrapping_add(1)).bytes();
        tunnel
            .write_all(&frame[ETHERNET..])
            .expect("the device takes packets");

        let deadline = Instant::now() + TIMEOUT * 10;
        while rig.wire().opened == 0 {
            assert!(Instant::now() < deadline, "{:?}", rig.dataplane.reasons());
            thread::sleep(Duration::from_millis(1));
        }
        assert_eq!(rig.wire().connect_count, 1);
        let _ = client.join().expect("the client has no reason to panic");
    });
}

const TIMEOUT: Duration = Duration::from_millis(500);
const ETHERNET: usize = 14;

/// Source and sequence number of the next SYN that leaves by the device. The stack sends other packets, too.
fn next_syn(tunnel: &mut File) -> (SocketAddr, u32) {
    let mut packet = [0; 1500];
    loop {
        let length = tunnel.read(&mut packet).expect("the device gives packets");
        if let [0x45, .., _] = packet[..length]
            && packet[9] == 6
        {
            let tcp = &packet[20..length];
            let source = <[u8; 4]>::try_from(&packet[12..16]).expect("four bytes");
            let port = u16::from_be_bytes([tcp[0], tcp[1]]);
            let sequence = u32::from_be_bytes([tcp[4], tcp[5], tcp[6], tcp[7]]);
            return (SocketAddr::from((source, port)), sequence);
        }
    }
}

/// A tunnel whose packets this process writes and reads. It ends with the file.
fn open_tunnel() -> Option<File> {
    let mut options = File::options();
    let file = options.read(true).write(true).open("/dev/net/tun").ok()?;
    let mut request = Request {
        name: [0; libc::IF_NAMESIZE],
        flags: libc::IFF_TUN as u16 | libc::IFF_NO_PI as u16,
        rest: [0; 22],
    };
    request.name[..DEVICE.len()].copy_from_slice(DEVICE.as_bytes());
    // SAFETY: the call reads and writes one `struct ifreq`, 40 bytes, which `request` is and which outlives it.
    let made = unsafe { libc::ioctl(file.as_raw_fd(), libc::TUNSETIFF, &mut request) };
    (made == 0).then_some(file)
}

/// `struct ifreq` with flags.
#[repr(C)]
struct Request {
    name: [u8; libc::IF_NAMESIZE],
    flags: u16,
    rest: [u8; 22],
}

const _: () = assert!(size_of::<Request>() == size_of::<libc::ifreq>());
