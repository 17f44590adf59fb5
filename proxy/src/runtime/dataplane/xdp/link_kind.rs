//! What an interface is, as far as XDP is concerned: asked by rtnetlink(7).

use std::io;

use super::super::netlink::{Question, attribute};

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LinkKind {
    Hardware,
    Loopback,
    /// By software, of the kind ip-link(8) calls so.
    Made(String),
}

// Of linux/if_link.h and linux/if_arp.h.
const LINK_HEADER: usize = 16;
const IFLA_LINKINFO: u16 = 18;
const IFLA_INFO_KIND: u16 = 1;
const ARPHRD_LOOPBACK: u16 = 772;

impl LinkKind {
    /// # Errors
    /// What the kernel says, such as `ENODEV`.
    pub fn of(index: u32) -> io::Result<Self> {
        let mut header = vec![0; LINK_HEADER];
        header[4..8].copy_from_slice(&index.to_ne_bytes());
        let question = Question {
            kind: libc::RTM_GETLINK,
            flags: 0,
            header,
            attributes: Vec::new(),
        };
        kind_in(&question.ask()?).ok_or(io::ErrorKind::InvalidData.into())
    }

    pub fn is_veth(&self) -> bool {
        matches!(self, Self::Made(kind) if kind == "veth")
    }

    /// Whether a driver's program of another interface can send frames by it. Of hardware that is taken for granted.
    pub fn takes_frames(&self) -> bool {
        match self {
            Self::Hardware => true,
            Self::Loopback => false,
            Self::Made(kind) => matches!(kind.as_str(), "veth" | "bond" | "tun"),
        }
    }

    /// Whether frames may be sent by it all the same. By a dummy goes nobody's, though it carries addresses.
    pub fn loses_frames(&self) -> bool {
        match self {
            Self::Made(kind) => !self.takes_frames() && kind != "dummy",
            _ => false,
        }
    }
}

fn kind_in(answer: &[u8]) -> Option<LinkKind> {
    let hardware = u16::from_ne_bytes(answer.get(2..4)?.try_into().ok()?);
    if hardware == ARPHRD_LOOPBACK {
        return Some(LinkKind::Loopback);
    }
    let info = attribute(answer.get(LINK_HEADER..)?, IFLA_LINKINFO);
    let kind = info.and_then(|info| attribute(info, IFLA_INFO_KIND)?.strip_suffix(&[0]));
    Some(match kind {
        Some(kind) => LinkKind::Made(String::from_utf8_lossy(kind).into_owned()),
        None => LinkKind::Hardware,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kind_of_an_interface_is_read_off_the_answer_and_its_absence_too() {
        let mut answer = vec![0; LINK_HEADER];
        answer.extend([8, 0, 4, 0, 9, 9, 9, 9]);
        assert_eq!(kind_in(&answer), Some(LinkKind::Hardware));
        answer.extend([16, 0, 18, 0, 9, 0, 1, 0]);
        answer.extend(b"veth\0\0\0\0");
        assert_eq!(kind_in(&answer), Some(LinkKind::Made("veth".into())));
        for length in 0..answer.len() {
            assert!(kind_in(&answer[..length]).is_none_or(|kind| kind == LinkKind::Hardware));
        }
    }

    #[test]
    fn loopback_is_told_from_hardware() {
        let loopback = super::super::super::interfaces::Interface::named("lo");
        let loopback = loopback.expect("every host has one");
        let kind = LinkKind::of(loopback.index).expect("an answer");
        assert_eq!(kind, LinkKind::Loopback);
    }
}
