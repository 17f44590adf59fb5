//! What one packet costs in the kernel programs: `cargo xtask bench kernel`. The packets are those of the tests' tables; each
//! is written anew before every run by a program of a few instructions, since a program that counts is to be shown new
//! bytes, and one that rewrites is not to be shown its own work. What that and the empty program behind it take is the
//! floor, printed and subtracted.
//!
//! Rounds of all paths alternate, so that a change of the machine's mood meets all of them.

use std::io;
use std::net::IpAddr;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use weir::runtime::dataplane::Direction;
use weir::snapshot::{DenyList, Prefix, Transport};

use by_hand::{EMPTY, Prelude, SCHED_CLS, Varying, XDP, load};
use fixtures::wire::{self, EGRESS, INGRESS};
use fixtures::xdp::{self, DENIED, FRAMES};
use packet::{ACK, FIN, Packet, SYN};
use rig::{Ends, Rig};
use sealed::{datagram, ends, sealed};
use world::{World, know_endpoints, on_a_router};

#[path = "../tests/kernel_programs/by_hand.rs"]
mod by_hand;
#[path = "../tests/kernel_programs/fixtures/mod.rs"]
#[expect(
    dead_code,
    reason = "only the packets are used here, not what is to become of them"
)]
mod fixtures;
#[path = "../tests/kernel_programs/namespace.rs"]
mod namespace;
#[path = "../tests/kernel_programs/packet.rs"]
mod packet;
#[path = "../tests/kernel_programs/rig.rs"]
#[expect(dead_code, reason = "tests look at more")]
mod rig;
#[path = "../tests/kernel_programs/sealed.rs"]
#[expect(dead_code, reason = "nobody looks at what is left of a packet here")]
mod sealed;
#[path = "../tests/kernel_programs/world.rs"]
#[expect(dead_code, reason = "all services are of one kind here")]
mod world;

const ROUNDS: usize = 15;
const RUNS_PER_ROUND: u32 = 100_000;
/// Connections that can be made in a round, so that those of all rounds have their port and their place.
const OPENED_PER_ROUND: u32 = 500;
const CONNECTIONS: u32 = 1 << 17;

/// Rows of `wire_egress` and `wire_ingress` that are timed; of the first, whether every run is shown new bytes.
const LEAVING: [(&str, bool); 8] = [
    ("UDP", false),
    ("request of nobody's connection", false),
    ("bare acknowledgment", false),
    ("request", true),
    ("request sent again", false),
    ("request with timestamps", true),
    ("first fragment", false),
    ("SYN to an endpoint", true),
];
const COMING: [(&str, bool); 5] = [
    ("UDP", false),
    ("response of nobody's connection", false),
    ("bare acknowledgment", false),
    ("more of a response", true),
    ("response sent again", false),
];
/// Rows of `xdp_ingress`, with a deny list and no L4 service.
const ARRIVING: [&str; 7] = [
    "segment",
    "segment from a denied source",
    "VLAN",
    "first fragment",
    "half an IP header",
    "jumbo frame",
    "ARP",
];

fn main() {
    // L4 services ask for the way of each packet: there is to be one.
    on_a_router(|| {
        let Some(mut rig) = Rig::with_connections(256, CONNECTIONS) else {
            return;
        };
        match measure(&mut rig) {
            Ok(paths) => print(&rig, &paths),
            Err(error) => eprintln!("the kernel runs no program by test: {error}"),
        }
    });
}

fn measure(rig: &mut Rig) -> io::Result<Vec<Path>> {
    let deny: DenyList = DENIED.iter().map(|text| prefix(text)).collect();
    rig.dataplane.deny(&Arc::new(deny))?;
    let mut paths = paths(rig)?;
    for _ in 0..ROUNDS {
        for path in &mut paths {
            rig.tables.meta[0].has_l4.store(path.has_l4.into(), Relaxed);
            path.round()?;
        }
    }
    Ok(paths)
}

fn prefix(text: &str) -> Prefix {
    let (address, length) = text.split_once('/').expect("a prefix");
    let address: IpAddr = address.parse().expect("an address");
    Prefix::around(address, length.parse().expect("a number")).expect("short enough")
}

/// One packet through one program, and what that took in each round.
struct Path {
    program: &'static str,
    name: String,
    prelude: Prelude,
    /// The same before the empty program.
    floor: Prelude,
    packet: Vec<u8>,
    runs: u32,
    /// Whether there are L4 services.
    has_l4: bool,
    rounds: Vec<(Duration, Duration)>,
}

/// A program, and how it is loaded.
struct Program {
    name: &'static str,
    kind: u32,
    fd: OwnedFd,
    empty: OwnedFd,
}

impl Program {
    fn of(rig: &Rig, direction: Option<Direction>) -> io::Result<Self> {
        let (name, kind) = match direction {
            Some(Direction::Egress) => ("wire_egress", SCHED_CLS),
            Some(Direction::Ingress) => ("wire_ingress", SCHED_CLS),
            None => ("xdp_ingress", XDP),
        };
        Ok(Self {
            name,
            kind,
            fd: rig.dataplane.program(direction)?,
            empty: load(kind, &EMPTY, c"empty")?,
        })
    }

    fn path(&self, name: String, packet: Vec<u8>, varying: Option<Varying>) -> io::Result<Path> {
        let headers = &packet[..packet.len().min(HEADERS)];
        let before = |next: &OwnedFd| Prelude::new(self.kind, headers, varying, next.as_fd());
        Ok(Path {
            program: self.name,
            name,
            prelude: before(&self.fd)?,
            floor: before(&self.empty)?,
            packet,
            runs: RUNS_PER_ROUND,
            has_l4: false,
            rounds: Vec::with_capacity(ROUNDS),
        })
    }
}

/// What a program may write anew: Ethernet, IPv6 and TCP.
const HEADERS: usize = 14 + 40 + 20;

fn paths(rig: &mut Rig) -> io::Result<Vec<Path>> {
    let mut paths = Vec::new();
    for (direction, table, names) in [
        (Direction::Egress, EGRESS, &LEAVING[..]),
        (Direction::Ingress, INGRESS, &COMING[..]),
    ] {
        let program = Program::of(rig, Some(direction))?;
        for (name, is_new) in names {
            let row = table.iter().find(|row| row.name == *name);
            let row = row.expect("the table has such a row");
            for mut ends in row.family.ends() {
                // Rounds of all paths alternate: each has a connection of its own.
                ends.proxy.set_port(1024 + paths.len() as u16);
                paths.push(wire_path(rig, &program, row, ends, *is_new)?);
            }
        }
    }
    let program = Program::of(rig, None)?;
    for name in ARRIVING {
        let row = FRAMES.iter().find(|row| row.name == name);
        let row = row.expect("the table has such a row");
        paths.extend(frame_paths(&program, row)?);
    }
    let services = World::both().into_iter().flat_map(|world| {
        [Transport::Tcp, Transport::Udp].map(|transport| world.service(transport, &[0, 1]))
    });
    know_endpoints(rig);
    rig.dataplane.serve(&services.collect::<Vec<_>>())?;
    for world in World::both() {
        paths.extend(service_paths(rig, &program, world)?);
    }
    Ok(paths)
}

/// L4 services: one connection that stands, and what else comes to a VIP.
fn service_paths(rig: &Rig, program: &Program, world: World) -> io::Result<Vec<Path>> {
    let forwarded = |frame: Vec<u8>| {
        let run = rig.dataplane.run_xdp(&sealed(frame), 1)?;
        match run.action {
            REDIRECT => Ok(ends(&run.frame)),
            action => Err(io::Error::other(format!("a service answers {action}"))),
        }
    };
    let (ours, endpoint) = forwarded(world.to_vip(SYN).bytes())?;
    forwarded(
        Packet::new(endpoint, ours, SYN | ACK)
            .acknowledgment(1001)
            .bytes(),
    )?;
    let exchange = datagram(world.client, world.vip, 100);
    forwarded(exchange.clone())?;
    let mut stranger = world;
    stranger.client.set_port(39_999);
    let data = |packet: Packet| packet.payload(1000).tcp_options(12).bytes();
    let mut elsewhere = stranger;
    elsewhere.vip.set_port(81);
    let frames = [
        ("nobody's", data(elsewhere.to_vip(ACK))),
        ("data to the endpoint", data(world.to_vip(ACK))),
        ("data to the client", data(Packet::new(endpoint, ours, ACK))),
        ("datagram", exchange),
        ("malformed", world.to_vip(SYN | FIN).bytes()),
        ("no connection", stranger.to_vip(ACK).bytes()),
    ];
    let named = |name: &str| of_version(&format!("service: {name}"), world.vip.ip());
    let mut paths = Vec::new();
    for (name, frame) in frames {
        let mut path = program.path(named(name), sealed(frame), None)?;
        path.has_l4 = true;
        paths.push(path);
    }
    // Clients differ in the last bytes of their address; checksums are changed, not checked.
    let client = Varying {
        at: if world.vip.is_ipv4() { 26 } else { 22 + 12 },
        first: 0x0a08_1000,
        step: 1,
    };
    let syn = sealed(stranger.to_vip(SYN).bytes());
    let mut opening = program.path(named("new connection"), syn, Some(client))?;
    opening.runs = OPENED_PER_ROUND;
    opening.has_l4 = true;
    paths.push(opening);
    Ok(paths)
}

/// Of the kernel's `enum xdp_action`.
const REDIRECT: u32 = 4;

fn wire_path(
    rig: &mut Rig,
    program: &Program,
    row: &wire::Row,
    ends: Ends,
    is_new: bool,
) -> io::Result<Path> {
    row.before.happens(rig, ends);
    let packet = (row.packet)(ends);
    let bytes = packet.bytes();
    let sequence_at = packet.tcp_at() + 4;
    let sequence = bytes[sequence_at..].first_chunk().copied();
    let varying = sequence.filter(|_| is_new).map(|sequence| Varying {
        at: sequence_at,
        first: u32::from_be_bytes(sequence),
        step: 1448,
    });
    program.path(of_version(row.name, ends.proxy.ip()), bytes, varying)
}

fn frame_paths(program: &Program, row: &xdp::Row) -> io::Result<Vec<Path>> {
    let versions = row.family.ends().into_iter().map(|ends| ends.proxy.ip());
    let frames = versions.zip(row.frames());
    frames
        .map(|(version, frame)| program.path(of_version(row.name, version), frame, None))
        .collect()
}

fn of_version(name: &str, address: IpAddr) -> String {
    let version = if address.is_ipv4() { 4 } else { 6 };
    format!("{name}, IPv{version}")
}

impl Path {
    fn round(&mut self) -> io::Result<()> {
        let (_, floor) = self.floor.run(&self.packet, self.runs)?;
        let (_, whole) = self.prelude.run(&self.packet, self.runs)?;
        self.rounds.push((floor, whole));
        Ok(())
    }

    /// Best and middle of what `of` makes of the rounds, in nanoseconds.
    fn best_and_middle(&self, of: impl Fn(&(Duration, Duration)) -> u128) -> (u128, u128) {
        let mut all: Vec<u128> = self.rounds.iter().map(of).collect();
        all.sort_unstable();
        (all[0], all[all.len() / 2])
    }
}

fn print(rig: &Rig, paths: &[Path]) {
    for direction in Direction::BOTH {
        match rig.dataplane.verified_instructions(direction) {
            Ok(count) => println!("{direction:?}: the verifier walked {count} instructions"),
            Err(error) => println!("{direction:?}: {error}"),
        }
    }
    println!(
        "ns per packet above the floor, best and middle of {ROUNDS} rounds of {RUNS_PER_ROUND} (new connections: \
         {OPENED_PER_ROUND})\n"
    );
    println!(
        "{:<14}{:<40}{:>6}{:>8}{:>8}",
        "PROGRAM", "PACKET", "BEST", "MIDDLE", "FLOOR"
    );
    for path in paths {
        let floor = path.best_and_middle(|(floor, _)| floor.as_nanos());
        let whole = path.best_and_middle(|(_, whole)| whole.as_nanos());
        println!(
            "{:<14}{:<40}{:>6}{:>8}{:>8}",
            path.program,
            path.name,
            whole.0.saturating_sub(floor.0),
            whole.1.saturating_sub(floor.1),
            floor.0
        );
    }
}
