//! A listening socket of one worker. Every worker binds the same address with SO_REUSEPORT and the kernel spreads new
//! connections over them.

use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd, RawFd};
use std::sync::{Arc, Weak};

use socket2::{Domain, Protocol, SockFilter, SockRef, Socket, Type};

/// Connections the kernel completes before they are accepted.
pub(super) const BACKLOG: i32 = 4096;

pub struct Listener {
    socket: Arc<Socket>,
    address: SocketAddr,
}

/// Tells whether a listener is still there, wherever it went.
pub struct ListenerWatch(Weak<Socket>);

impl ListenerWatch {
    pub fn is_open(&self) -> bool {
        self.0.strong_count() > 0
    }

    /// The socket, for another process; None if it is closed.
    pub fn duplicate(&self) -> Option<OwnedFd> {
        let socket = self.0.upgrade()?;
        socket.as_fd().try_clone_to_owned().ok()
    }
}

impl Listener {
    /// Binds and listens.
    pub fn bind(address: SocketAddr) -> io::Result<Self> {
        let socket = Socket::new(
            Domain::for_address(address),
            Type::STREAM.cloexec(),
            Some(Protocol::TCP),
        )?;
        socket.set_reuse_address(true)?;
        socket.set_reuse_port(true)?;
        if address.is_ipv6() {
            socket.set_only_v6(true)?;
        }
        // Accepted sockets inherit it.
        socket.set_tcp_nodelay(true)?;
        socket.bind(&address.into())?;
        socket.listen(BACKLOG)?;
        let address = socket.local_addr()?.as_socket().unwrap_or(address);
        Ok(Self {
            socket: Arc::new(socket),
            address,
        })
    }

    /// Goes on with a socket another process has bound.
    pub fn inherited(socket: OwnedFd) -> io::Result<Self> {
        let socket = Socket::from(socket);
        let address = socket.local_addr()?.as_socket();
        Ok(Self {
            address: address.ok_or(io::ErrorKind::InvalidInput)?,
            socket: Arc::new(socket),
        })
    }

    /// Fails if anyone listens on `address` already - which SO_REUSEPORT would hide from [`Listener::bind`].
    pub fn check_free(address: SocketAddr) -> io::Result<()> {
        if address.port() == 0 {
            return Ok(());
        }
        let socket = Socket::new(
            Domain::for_address(address),
            Type::STREAM.cloexec(),
            Some(Protocol::TCP),
        )?;
        socket.set_reuse_address(true)?;
        if address.is_ipv6() {
            socket.set_only_v6(true)?;
        }
        socket.bind(&address.into())?;
        socket.listen(1)
    }

    /// Where it listens; the port is the real one when 0 was asked for.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    pub fn watch(&self) -> ListenerWatch {
        ListenerWatch(Arc::downgrade(&self.socket))
    }

    /// Drops attempts to connect that are not half done yet. Whoever made one tries again, after a second, and then meets
    /// whoever listens there by then, or nobody.
    pub(super) fn turn_away(&self) -> io::Result<()> {
        const FLAGS_OF_TCP: u32 = 13;
        const SYN_AND_ACK: u32 = 0x12;
        const SYN: u32 = 0x02;
        const DROP: u32 = 0;
        const PASS: u32 = u32::MAX;
        let load_byte = (libc::BPF_LD | libc::BPF_B | libc::BPF_ABS) as u16;
        let mask = (libc::BPF_ALU | libc::BPF_AND | libc::BPF_K) as u16;
        let jump_if_equal = (libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K) as u16;
        let end = (libc::BPF_RET | libc::BPF_K) as u16;
        self.socket.attach_filter(&[
            SockFilter::new(load_byte, 0, 0, FLAGS_OF_TCP),
            SockFilter::new(mask, 0, 0, SYN_AND_ACK),
            SockFilter::new(jump_if_equal, 0, 1, SYN),
            SockFilter::new(end, 0, 0, DROP),
            SockFilter::new(end, 0, 0, PASS),
        ])
    }

    /// Connections the kernel has queued, until there is none or none can be taken.
    pub(super) fn accept_queued(&self) -> impl Iterator<Item = OwnedFd> {
        std::iter::from_fn(|| {
            self.socket.set_nonblocking(true).ok()?;
            let (socket, _) = self.socket.accept().ok()?;
            Some(socket.into())
        })
    }

    pub(super) fn fd(&self) -> RawFd {
        self.socket.as_raw_fd()
    }
}

impl AsFd for Listener {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

/// Address of the other end, or the unspecified one if it is gone already.
pub(super) fn peer_of(socket: &impl std::os::fd::AsFd) -> SocketAddr {
    let peer = SockRef::from(socket)
        .peer_addr()
        .ok()
        .and_then(|peer| peer.as_socket());
    peer.unwrap_or_else(|| SocketAddr::from((Ipv4Addr::UNSPECIFIED, 0)))
}
