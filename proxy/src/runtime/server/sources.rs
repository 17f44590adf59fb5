//! The addresses of ours that packets to endpoints leave with. The kernel is asked for each once a second, and what it
//! said holds on while this host has nothing left to ask with.

use std::collections::HashMap;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};
use std::time::Duration;

use crate::moment::Moment;

#[derive(Default)]
pub struct Sources {
    known: HashMap<SocketAddr, Known>,
    has_failed: bool,
}

struct Known {
    /// None without a route.
    source: Option<IpAddr>,
    until: Moment,
}

const LIFETIME: Duration = Duration::from_secs(1);

impl Sources {
    /// None without a route to the endpoint, and as long as the kernel could not be asked yet.
    pub fn towards(&mut self, endpoint: SocketAddr, now: Moment) -> Option<IpAddr> {
        self.towards_by(endpoint, now, ask)
    }

    /// Forgets endpoints nobody asks for any more.
    pub fn tidy(&mut self, now: Moment) {
        self.known.retain(|_, known| known.until + LIFETIME > now);
    }

    fn towards_by(
        &mut self,
        endpoint: SocketAddr,
        now: Moment,
        ask: impl FnOnce(SocketAddr) -> io::Result<IpAddr>,
    ) -> Option<IpAddr> {
        let until = now + LIFETIME;
        let before = self.known.get_mut(&endpoint);
        if let Some(known) = before.as_ref().filter(|known| known.until > now) {
            return known.source;
        }
        let source = match ask(endpoint) {
            Ok(source) => Some(source),
            Err(error) if is_short(&error) => {
                if !std::mem::replace(&mut self.has_failed, true) {
                    tracing::warn!(
                        %error,
                        "ways to endpoints of L4 services cannot be looked for: those known are kept"
                    );
                }
                // What is not known yet is asked for again at the next opportunity.
                let known = before?;
                known.until = until;
                return known.source;
            }
            Err(_) => None,
        };
        self.has_failed = false;
        self.known.insert(endpoint, Known { source, until });
        source
    }
}

/// Whether it is this host that has no descriptor, port or memory left, and not the route that is missing.
fn is_short(error: &io::Error) -> bool {
    matches!(
        error.raw_os_error(),
        Some(
            libc::EMFILE
                | libc::ENFILE
                | libc::ENOBUFS
                | libc::ENOMEM
                | libc::EAGAIN
                | libc::EADDRINUSE
        )
    )
}

fn ask(endpoint: SocketAddr) -> io::Result<IpAddr> {
    let any: IpAddr = match endpoint.is_ipv4() {
        true => Ipv4Addr::UNSPECIFIED.into(),
        false => Ipv6Addr::UNSPECIFIED.into(),
    };
    // Connecting a datagram socket sends nothing: it looks for the route.
    let socket = UdpSocket::bind((any, 0))?;
    socket.connect(endpoint)?;
    Ok(socket.local_addr()?.ip())
}

#[cfg(test)]
mod tests {
    use super::*;

    const OURS: IpAddr = IpAddr::V4(Ipv4Addr::new(10, 0, 0, 9));

    fn endpoint() -> SocketAddr {
        ([10, 0, 0, 1], 80).into()
    }

    fn after(milliseconds: u64) -> Moment {
        Moment::from_nanos(0) + Duration::from_millis(milliseconds)
    }

    fn fails(code: i32) -> impl FnOnce(SocketAddr) -> io::Result<IpAddr> {
        move |_| Err(io::Error::from_raw_os_error(code))
    }

    #[test]
    fn the_kernel_is_asked_again_after_a_second() {
        let mut sources = Sources::default();
        let found = sources.towards_by(endpoint(), after(0), |_| Ok(OURS));
        assert_eq!(found, Some(OURS));
        let found = sources.towards_by(endpoint(), after(999), |_| panic!("it is known"));
        assert_eq!(found, Some(OURS));
        let found = sources.towards_by(endpoint(), after(1000), fails(libc::ENETUNREACH));
        assert_eq!(found, None, "the route is gone");
    }

    #[test]
    fn an_endpoint_stays_while_there_is_no_descriptor_to_look_for_its_way() {
        let mut sources = Sources::default();
        sources.towards_by(endpoint(), after(0), |_| Ok(OURS));
        for second in 1..5 {
            sources.tidy(after(second * 1000 - 100));
            let found = sources.towards_by(endpoint(), after(second * 1000), fails(libc::EMFILE));
            assert_eq!(found, Some(OURS), "after {second} s");
        }
    }

    #[test]
    fn what_nobody_asks_for_is_forgotten() {
        let mut sources = Sources::default();
        sources.towards_by(endpoint(), after(0), |_| Ok(OURS));
        sources.tidy(after(1999));
        assert_eq!(sources.known.len(), 1);
        sources.tidy(after(2000));
        assert_eq!(sources.known.len(), 0);
    }
}
