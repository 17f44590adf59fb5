//! What the kernel programs make of packets. The packets go through `BPF_PROG_TEST_RUN`, so that each test decides what
//! the kernel sees and when; others, as for programs the kernel offers no test run of, send real traffic over a loopback of
//! their own.

mod by_hand;
mod denied;
mod first_byte;
mod fixtures;
mod foreign;
mod handshake;
mod icmp;
mod killed;
mod namespace;
mod packet;
mod refusal;
mod registration;
mod rig;
mod sealed;
mod services;
mod steering;
mod sweep;
mod tables;
mod traffic;
mod tunnel;
mod vips;
mod world;
mod xdp_hook;

use std::time::Duration;

/// The programs read the kernel's clock, which cannot be turned by hand: what must be told apart by time is that far
/// apart.
const PAUSE: Duration = Duration::from_millis(20);
