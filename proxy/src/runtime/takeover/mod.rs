//! One process takes the place of another of the same instance while both run: the newer one gets the sockets, the lock
//! on what is pinned and the admin addresses of the older one, which then drains. No connection is refused or reset on
//! the way, since no socket anybody listens on is ever closed.
//!
//! ```text
//! newer                               older
//!   connect ────────────────────────►  at its door
//!           ◄──────────────────────── lock, door, admin and listening sockets
//!   load and prove its programs        serves
//!   ready ──────────────────────────►  counts apart, leaves links and lock where they are, or detaches where the newer
//!                                      one has no use for them
//!           ◄─────────────────── yours
//!   attach, start its workers          still accepts
//!   serving ────────────────────────►  drains, and ends
//! ```
//!
//! Until `ready` the older one has changed nothing; if the newer one ends before `serving`, it goes on serving.

mod door;
mod message;
mod predecessor;

use std::fmt;
use std::io;
use std::num::ParseIntError;
use std::str::FromStr;

use rustix::net::SocketAddrUnix;
use rustix::process::geteuid;

pub use door::{Door, Heir, Offer};
pub use predecessor::{OfferedListener, Predecessor, TakeoverError};

/// What becomes of what the older process has pinned, and of the programs attached by it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pinned {
    Taken,
    /// The newer one has no kernel programs, or no place to pin them.
    Left,
}

impl fmt::Display for Pinned {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(match self {
            Self::Taken => "taken",
            Self::Left => "left",
        })
    }
}

impl FromStr for Pinned {
    type Err = ();

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        match text {
            "taken" => Ok(Self::Taken),
            "left" => Ok(Self::Left),
            _ => Err(()),
        }
    }
}

/// What the newer process uses of one listener of the older one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Taken {
    /// So many, the first first.
    pub sockets: usize,
    /// A kernel program gives no connection to the others.
    pub are_others_left_alone: bool,
}

impl fmt::Display for Taken {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let alone = if self.are_others_left_alone { "+" } else { "" };
        write!(out, "{}{alone}", self.sockets)
    }
}

impl FromStr for Taken {
    type Err = ParseIntError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let count = text.strip_suffix('+');
        Ok(Self {
            sockets: count.unwrap_or(text).parse()?,
            are_others_left_alone: count.is_some(),
        })
    }
}

/// Of what the two say to each other. Others are not understood.
const GREETING: &str = "weir takeover 1";

/// Where an instance can be reached: a name of the network namespace, which ends with whoever has it.
fn address_of(instance: &str) -> io::Result<SocketAddrUnix> {
    let name = format!("weir/{instance}");
    Ok(SocketAddrUnix::new_abstract_name(name.as_bytes())?)
}

/// Whether it is of our own user, or root's: others may have the name, or know it.
fn is_trusted(uid: u32) -> bool {
    uid == 0 || uid == geteuid().as_raw()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_taken_reads_as_it_was_written() {
        for (sockets, are_others_left_alone) in [(0, false), (2, true)] {
            let taken = Taken {
                sockets,
                are_others_left_alone,
            };
            assert_eq!(taken.to_string().parse(), Ok(taken));
        }
        for pinned in [Pinned::Taken, Pinned::Left] {
            assert_eq!(pinned.to_string().parse(), Ok(pinned));
        }
        assert!("+".parse::<Taken>().is_err());
    }
}
