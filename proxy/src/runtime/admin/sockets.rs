//! Binds the addresses before anything else starts, so that a port in use is the first thing one hears of.

use std::io;
use std::net::{SocketAddr, TcpListener};
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;

use axum::Router;

use super::{Control, routes};
use crate::runtime::words;

/// Where to listen; `None` switches off.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AdminAddresses {
    pub admin: Option<SocketAddr>,
    pub metrics: Option<SocketAddr>,
    pub readiness: Option<SocketAddr>,
}

/// An address that cannot be listened on.
#[derive(Debug, thiserror::Error)]
#[error("{flag} {address}: {}; give another address, or `{flag} off`", describe(.source))]
pub struct BindError {
    /// As it is spelt on the command line.
    pub flag: &'static str,
    pub address: SocketAddr,
    pub source: io::Error,
}

fn describe(error: &io::Error) -> String {
    match error.kind() {
        io::ErrorKind::AddrInUse => {
            "the address is in use; several Weirs on a host need --admin, --metrics and --readiness of their own".to_owned()
        }
        _ => words::of(error),
    }
}

/// Bound and waiting to be served.
#[derive(Debug)]
pub struct AdminSockets {
    admin: Option<TcpListener>,
    metrics: Option<TcpListener>,
    readiness: Option<TcpListener>,
}

impl AdminSockets {
    /// `inherited` gives the sockets another process has bound.
    pub fn bind(
        addresses: &AdminAddresses,
        mut inherited: impl FnMut(SocketAddr) -> Option<TcpListener>,
    ) -> Result<Self, BindError> {
        let mut bind = |flag, address: Option<SocketAddr>| match address.and_then(&mut inherited) {
            Some(socket) => Ok(Some(socket)),
            None => bind(flag, address),
        };
        Ok(Self {
            admin: bind("--admin", addresses.admin)?,
            metrics: bind("--metrics", addresses.metrics)?,
            readiness: bind("--readiness", addresses.readiness)?,
        })
    }

    /// All of them, for another process.
    pub fn duplicate(&self) -> io::Result<Vec<OwnedFd>> {
        let all = [&self.admin, &self.metrics, &self.readiness];
        let sockets = all.into_iter().flatten();
        sockets
            .map(|socket| socket.as_fd().try_clone_to_owned())
            .collect()
    }

    /// Where they really listen: differs from what was asked for where that was port 0.
    pub fn addresses(&self) -> AdminAddresses {
        let address = |socket: &Option<TcpListener>| socket.as_ref()?.local_addr().ok();
        AdminAddresses {
            admin: address(&self.admin),
            metrics: address(&self.metrics),
            readiness: address(&self.readiness),
        }
    }

    /// What each address answers with. Called where a tokio runtime is entered.
    pub(super) fn with_routers(
        self,
        control: Arc<Control>,
    ) -> io::Result<Vec<(tokio::net::TcpListener, Router)>> {
        let surfaces = [
            (self.admin, routes::admin(control.clone())),
            (self.metrics, routes::metrics(control.clone())),
            (self.readiness, routes::readiness(control)),
        ];
        let on = surfaces.into_iter();
        on.filter_map(|(socket, router)| Some((socket?, router)))
            .map(|(socket, router)| Ok((tokio::net::TcpListener::from_std(socket)?, router)))
            .collect()
    }
}

fn bind(flag: &'static str, address: Option<SocketAddr>) -> Result<Option<TcpListener>, BindError> {
    let Some(address) = address else {
        return Ok(None);
    };
    let listen = || {
        let socket = TcpListener::bind(address)?;
        socket.set_nonblocking(true)?;
        Ok(socket)
    };
    listen().map(Some).map_err(|source| BindError {
        flag,
        address,
        source,
    })
}
