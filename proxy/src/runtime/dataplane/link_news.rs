//! Tells when interfaces, addresses or routes of our network namespace have changed: a subscription by rtnetlink(7). What changed
//! is not read off the messages, of which some may be lost when there are many: whoever is told looks for himself.

use std::io::{self, Read};

use rustix::net::bind;
use rustix::net::netlink::SocketAddrNetlink;
use socket2::{Domain, Protocol, Socket, Type};
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;

pub struct LinkNews {
    socket: AsyncFd<Socket>,
}

impl LinkNews {
    /// To be called within a Tokio runtime.
    pub fn subscribe() -> io::Result<Self> {
        let socket = Socket::new(
            Domain::from(libc::AF_NETLINK),
            Type::RAW.cloexec().nonblocking(),
            Some(Protocol::from(libc::NETLINK_ROUTE)),
        )?;
        let groups = libc::RTMGRP_LINK
            | libc::RTMGRP_IPV4_IFADDR
            | libc::RTMGRP_IPV6_IFADDR
            | libc::RTMGRP_IPV4_ROUTE
            | libc::RTMGRP_IPV6_ROUTE;
        bind(&socket, &SocketAddrNetlink::new(0, groups as u32))?;
        // SAFETY: a socket's descriptor is the same one from its making to its end, and it goes with the `AsyncFd`.
        let socket = unsafe { AsyncFd::register_with_interest(socket, Interest::READABLE) }?;
        Ok(Self { socket })
    }

    /// Returns when something has changed since the last call returned.
    pub async fn changed(&self) -> io::Result<()> {
        let mut ready = self.socket.readable().await?;
        drain(self.socket.get_ref())?;
        ready.clear_ready();
        Ok(())
    }
}

/// Reads and forgets what has come.
fn drain(mut socket: &Socket) -> io::Result<()> {
    let mut message = [0; 8192];
    loop {
        match socket.read(&mut message) {
            Ok(_) => {}
            // More came than the socket has room for: it is news all the same.
            Err(error) if error.raw_os_error() == Some(libc::ENOBUFS) => {}
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(()),
            Err(error) => return Err(error),
        }
    }
}
