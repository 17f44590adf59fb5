//! The older process: waits for one that is to take its place, shows it what there is, and lets go.

use std::io;
use std::net::SocketAddr;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::net;
use std::time::Duration;

use rustix::net::sockopt::socket_peercred;
use rustix::net::{AddressFamily, SocketFlags, SocketType, bind, listen, socket_with};
use tokio::io::Interest;
use tokio::net::{UnixListener, UnixStream};
use tokio::sync::mpsc;
use tokio::time::timeout;

use super::message::{self, MOST_DESCRIPTORS};
use super::{GREETING, Pinned, Taken, address_of, is_trusted};
use crate::snapshot::Reach;

/// How long whoever is to take over may keep us waiting for a word it has nothing to do before.
const MANNERS: Duration = Duration::from_secs(5);
/// How long loading and proving kernel programs may take, and how long starting workers may.
const PREPARATION: Duration = Duration::from_secs(120);
const START: Duration = Duration::from_secs(30);

/// Before another try to let somebody in.
const REST: Duration = Duration::from_secs(1);

/// Where whoever is to take over knocks.
#[derive(Debug)]
pub struct Door {
    socket: OwnedFd,
}

/// A process that wants our place.
#[derive(Debug)]
pub struct Heir {
    socket: UnixStream,
    pub pid: u32,
}

/// What is shown to it.
pub struct Offer<'a> {
    /// Of the folder of what is pinned.
    pub lock: Option<BorrowedFd<'a>>,
    pub admin: &'a [OwnedFd],
    pub listeners: Vec<(SocketAddr, Option<Reach>, Vec<OwnedFd>)>,
}

impl Door {
    /// Opens it, or goes on with the one of a predecessor.
    pub fn open(instance: &str, inherited: Option<OwnedFd>) -> io::Result<Self> {
        let socket = match inherited {
            Some(socket) => socket,
            None => {
                let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
                let socket = socket_with(AddressFamily::UNIX, SocketType::SEQPACKET, flags, None)?;
                bind(&socket, &address_of(instance)?)?;
                listen(&socket, 4)?;
                socket
            }
        };
        Ok(Self { socket })
    }

    /// Tells of each process that wants our place, as long as anybody listens. Others are turned away without a word.
    pub async fn attend<T>(&self, tell: mpsc::Sender<T>, news: fn(Heir) -> T) -> io::Result<()> {
        let socket = net::UnixListener::from(self.socket.try_clone()?);
        let socket = UnixListener::from_std(socket)?;
        let mut is_short = false;
        loop {
            let visitor = match socket.accept().await {
                Ok((visitor, _)) => visitor,
                Err(error) => {
                    // It waits, and so do we, for descriptors mostly.
                    if !std::mem::replace(&mut is_short, true) {
                        tracing::warn!(%error, "a process that may want to take over cannot be let in yet");
                    }
                    tokio::time::sleep(REST).await;
                    continue;
                }
            };
            is_short = false;
            // Who has gone again is as good as who never came.
            if let Ok(Some(heir)) = Heir::of(visitor)
                && tell.send(news(heir)).await.is_err()
            {
                return Ok(());
            }
        }
    }
}

impl Heir {
    fn of(socket: UnixStream) -> io::Result<Option<Self>> {
        let peer = socket_peercred(&socket)?;
        let pid = peer.pid.as_raw_nonzero().get().cast_unsigned();
        Ok(is_trusted(peer.uid.as_raw()).then_some(Self { socket, pid }))
    }

    /// Shows it all there is.
    pub async fn offer(&self, door: &Door, offer: &Offer<'_>) -> io::Result<()> {
        self.say(GREETING, &[]).await?;
        self.say("door", &[door.socket.as_fd()]).await?;
        if let Some(lock) = offer.lock {
            self.say("lock", &[lock]).await?;
        }
        for socket in offer.admin {
            self.say("admin", &[socket.as_fd()]).await?;
        }
        for (address, reach, sockets) in &offer.listeners {
            let words = match reach {
                None => format!("listener {address}"),
                Some(Reach {
                    prefix_len,
                    last_port,
                }) => format!("listener {address} {prefix_len} {last_port}"),
            };
            let sockets: Vec<BorrowedFd<'_>> = sockets.iter().map(AsFd::as_fd).collect();
            for some in sockets.chunks(MOST_DESCRIPTORS) {
                self.say(&words, some).await?;
            }
        }
        self.say("that is all", &[]).await
    }

    /// Waits until it could start at once; returns what will become of what is pinned.
    pub async fn wait_until_ready(&self) -> io::Result<Pinned> {
        let pinned = self.hear("ready", PREPARATION).await?;
        let pinned = pinned.trim_start().parse();
        pinned.map_err(|()| io::ErrorKind::InvalidData.into())
    }

    /// Tells it that nothing of what it was shown is used by us any more in a way that matters.
    pub async fn give_way(&self) -> io::Result<()> {
        self.say("yours", &[]).await
    }

    /// Waits until it serves; returns what it uses of each listener, in the order in which they were offered.
    pub async fn wait_until_serving(&self) -> io::Result<Vec<Taken>> {
        let taken = self.hear("serving", START).await?;
        let taken = taken.split_whitespace().map(str::parse);
        taken
            .collect::<Result<_, _>>()
            .map_err(|_| io::ErrorKind::InvalidData.into())
    }

    /// What follows this word.
    async fn hear(&self, word: &str, patience: Duration) -> io::Result<String> {
        let receive = || message::receive(self.socket.as_fd());
        let said = self.socket.async_io(Interest::READABLE, receive);
        let said = timeout(patience, said).await??.words;
        let rest = said.strip_prefix(word);
        rest.map(str::to_owned)
            .ok_or(io::ErrorKind::InvalidData.into())
    }

    async fn say(&self, words: &str, descriptors: &[BorrowedFd<'_>]) -> io::Result<()> {
        let send = || message::send(self.socket.as_fd(), words, descriptors);
        let said = self.socket.async_io(Interest::WRITABLE, send);
        timeout(MANNERS, said).await?
    }
}
