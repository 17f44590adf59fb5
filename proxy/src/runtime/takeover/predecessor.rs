//! The newer process: finds the one whose place it takes, and gets what it has.

use std::io;
use std::net::{SocketAddr, TcpListener};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::Duration;

use rustix::net::sockopt::{Timeout, set_socket_timeout, socket_peercred};
use rustix::net::{AddressFamily, SocketFlags, SocketType, connect, socket_with};

use super::message::{self, Message};
use super::{GREETING, Pinned, Taken, address_of, is_trusted};
use crate::snapshot::Reach;

/// A process answers at once, unless it is busy taking over itself.
const PATIENCE: Duration = Duration::from_secs(30);

/// The process whose place we take.
#[derive(Debug)]
pub struct Predecessor {
    socket: OwnedFd,
    pub pid: u32,
    door: Option<OwnedFd>,
    lock: Option<OwnedFd>,
    admin: Vec<TcpListener>,
    listeners: Vec<OfferedListener>,
}

/// The sockets of one of its listeners.
#[derive(Debug)]
pub struct OfferedListener {
    pub address: SocketAddr,
    pub reach: Option<Reach>,
    sockets: Vec<OwnedFd>,
    taken: Taken,
}

#[derive(Debug, thiserror::Error)]
pub enum TakeoverError {
    #[error(
        "instance {instance} does not answer as expected: {source}; is it being taken over already, or of another version?"
    )]
    Misunderstood { instance: String, source: io::Error },
    #[error("process {pid} did not give way: {source}; it goes on serving")]
    Stays { pid: u32, source: io::Error },
}

impl Predecessor {
    /// The process that serves as this instance, if there is one. Anybody may have its name: another user's is none of
    /// ours, and must not keep us from starting.
    pub fn find(instance: &str) -> Result<Option<Self>, TakeoverError> {
        let misunderstood = |source| TakeoverError::Misunderstood {
            instance: instance.to_owned(),
            source,
        };
        let Some(socket) = reach(instance).map_err(misunderstood)? else {
            return Ok(None);
        };
        let peer = socket_peercred(&socket).map_err(|error| misunderstood(error.into()))?;
        if !is_trusted(peer.uid.as_raw()) {
            tracing::warn!(
                instance,
                "process {} of user {} has the name of this instance: nothing is taken over from it",
                peer.pid.as_raw_nonzero(),
                peer.uid.as_raw(),
            );
            return Ok(None);
        }
        let mut found = Self {
            pid: peer.pid.as_raw_nonzero().get().cast_unsigned(),
            socket,
            door: None,
            lock: None,
            admin: Vec::new(),
            listeners: Vec::new(),
        };
        found.look_around().map_err(misunderstood)?;
        Ok(Some(found))
    }

    /// Receives what it offers.
    fn look_around(&mut self) -> io::Result<()> {
        if self.hear()?.words != GREETING {
            return Err(io::ErrorKind::InvalidData.into());
        }
        loop {
            let Message {
                words,
                mut descriptors,
            } = self.hear()?;
            match words.as_str() {
                "that is all" => return Ok(()),
                "door" => self.door = descriptors.pop(),
                "lock" => self.lock = descriptors.pop(),
                "admin" => self
                    .admin
                    .extend(descriptors.into_iter().map(TcpListener::from)),
                words => {
                    let (address, reach) = parse_listener(words)
                        .ok_or_else(|| io::Error::from(io::ErrorKind::InvalidData))?;
                    self.add_listener(address, reach, descriptors);
                }
            }
        }
    }

    fn add_listener(&mut self, address: SocketAddr, reach: Option<Reach>, sockets: Vec<OwnedFd>) {
        let known = self.listeners.iter_mut();
        match known
            .into_iter()
            .find(|known| (known.address, known.reach) == (address, reach))
        {
            Some(known) => known.sockets.extend(sockets),
            None => self.listeners.push(OfferedListener {
                address,
                reach,
                sockets,
                taken: Taken::default(),
            }),
        }
    }

    pub fn take_lock(&mut self) -> Option<OwnedFd> {
        self.lock.take()
    }

    pub fn take_door(&mut self) -> Option<OwnedFd> {
        self.door.take()
    }

    /// Its socket on this address of an admin surface.
    pub fn take_admin(&mut self, address: SocketAddr) -> Option<TcpListener> {
        let is_it = |socket: &TcpListener| socket.local_addr().is_ok_and(|local| local == address);
        let place = self.admin.iter().position(is_it)?;
        Some(self.admin.swap_remove(place))
    }

    pub fn take_listeners(&mut self) -> Vec<OfferedListener> {
        std::mem::take(&mut self.listeners)
    }

    /// Tells it that we could start at once, and waits until it has let go. Blocks.
    pub fn ask_for_the_place(&self, pinned: Pinned) -> Result<(), TakeoverError> {
        let asked = message::send(self.socket.as_fd(), &format!("ready {pinned}"), &[]);
        let answer = asked.and_then(|()| self.hear());
        let answer = answer.and_then(|answer| match answer.words.as_str() {
            "yours" => Ok(()),
            _ => Err(io::ErrorKind::InvalidData.into()),
        });
        answer.map_err(|source| TakeoverError::Stays {
            pid: self.pid,
            source,
        })
    }

    /// Tells it what of each listener it offered is ours from now on.
    pub fn tell_serving(&self, taken: &[Taken]) -> io::Result<()> {
        let taken = taken.iter().map(|taken| format!(" {taken}"));
        let words = format!("serving{}", taken.collect::<String>());
        message::send(self.socket.as_fd(), &words, &[])
    }

    fn hear(&self) -> io::Result<Message> {
        message::receive(self.socket.as_fd())
    }
}

impl OfferedListener {
    /// One more of its sockets, if there is one left.
    pub fn take(&mut self) -> Option<OwnedFd> {
        // The first first: which were taken is told by their number.
        (!self.sockets.is_empty()).then(|| {
            self.taken.sockets += 1;
            self.sockets.remove(0)
        })
    }

    /// Those that are left: nobody is to connect to them any more.
    pub fn left(&self) -> impl Iterator<Item = BorrowedFd<'_>> {
        self.sockets.iter().map(AsFd::as_fd)
    }

    /// Who would have connected to those that are left is given to one that was taken.
    pub fn lead_away(&mut self) {
        self.taken.are_others_left_alone = true;
    }

    pub fn taken(&self) -> Taken {
        self.taken
    }
}

/// A connection to whoever serves as this instance; None if nobody does.
fn reach(instance: &str) -> io::Result<Option<OwnedFd>> {
    let socket = socket_with(
        AddressFamily::UNIX,
        SocketType::SEQPACKET,
        SocketFlags::CLOEXEC,
        None,
    )?;
    for direction in [Timeout::Send, Timeout::Recv] {
        set_socket_timeout(&socket, direction, Some(PATIENCE))?;
    }
    match connect(&socket, &address_of(instance)?) {
        Err(rustix::io::Errno::CONNREFUSED) => Ok(None),
        Err(error) => Err(error.into()),
        Ok(()) => Ok(Some(socket)),
    }
}

fn parse_listener(words: &str) -> Option<(SocketAddr, Option<Reach>)> {
    let mut words = words.strip_prefix("listener ")?.split(' ');
    let address = words.next()?.parse().ok()?;
    let Some(prefix_len) = words.next() else {
        return Some((address, None));
    };
    let reach = Reach {
        prefix_len: prefix_len.parse().ok()?,
        last_port: words.next()?.parse().ok()?,
    };
    Some((address, Some(reach)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn listeners_are_told_with_their_prefix_and_ports() {
        let address = "10.0.0.0:80".parse().expect("an address");
        assert_eq!(
            parse_listener("listener 10.0.0.0:80"),
            Some((address, None))
        );
        let reach = Reach {
            prefix_len: 24,
            last_port: 90,
        };
        assert_eq!(
            parse_listener("listener 10.0.0.0:80 24 90"),
            Some((address, Some(reach)))
        );
        for wrong in [
            "listener",
            "listener 10.0.0.0",
            "listener 10.0.0.0:80 24",
            "x",
        ] {
            assert_eq!(parse_listener(wrong), None, "{wrong}");
        }
    }
}
