//! The network a round takes place in: loopback, or hosts of their own joined by veth pairs, where every packet passes
//! interfaces that kernel programs can hang on, as it does between machines.

use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};

use anyhow::{Context, Result};
use weir_tests::origin::Origin;
use weir_tests::process::Place;
use weir_tests::topology::Star;

pub enum Network {
    Loopback,
    /// Contender, client and each endpoint on a host of its own.
    Apart(Box<Star>),
}

/// Endpoints of a round.
const ENDPOINTS: usize = 2;
/// The contender's, where it has a host to itself.
const PORT: u16 = 8080;

impl Network {
    pub fn apart() -> Result<Self> {
        let star = Star::new(ENDPOINTS as u8)?;
        Ok(Self::Apart(Box::new(star)))
    }

    /// The contender's host.
    pub fn proxy(&self) -> Place {
        match self {
            Self::Loopback => Place::default(),
            Self::Apart(star) => star.proxy.place(),
        }
    }

    /// The client's host.
    pub fn client(&self) -> Place {
        match self {
            Self::Loopback => Place::default(),
            Self::Apart(star) => star.client.namespace.place(),
        }
    }

    /// Starts the endpoints, each on the host `settle` makes of its own.
    pub fn start_endpoints(&self, settle: impl Fn(Place) -> Place) -> Result<Vec<Origin>> {
        match self {
            Self::Loopback => {
                let any = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
                let origin = Origin::start(&settle(Place::default()), &[any; ENDPOINTS])?;
                Ok(vec![origin])
            }
            Self::Apart(star) => {
                let hosts = star.endpoints.iter();
                let origins = hosts.map(|host| {
                    let address = SocketAddr::new(host.address(), 0);
                    Ok(Origin::start(&settle(host.namespace.place()), &[address])?)
                });
                origins.collect()
            }
        }
    }

    /// Where the contender is to listen.
    pub fn listening_address(&self) -> Result<SocketAddr> {
        match self {
            Self::Loopback => {
                let probe = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).context("no free port")?;
                Ok(probe.local_addr()?)
            }
            Self::Apart(star) => Ok(SocketAddr::new(star.proxy_address(), PORT)),
        }
    }

    /// Whether somebody listens there.
    pub fn is_listened_on(&self, address: SocketAddr) -> bool {
        self.client().run(|| TcpStream::connect(address)).is_ok()
    }

    /// The interface kernel programs are to measure on; where there is more than one, whoever looks finds them.
    pub fn interface(&self) -> Option<&'static str> {
        match self {
            Self::Loopback => Some("lo"),
            Self::Apart(_) => None,
        }
    }
}
