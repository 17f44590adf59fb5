//! Questions to rtnetlink(7), and the attributes of its answers.

use std::io::{self, Read, Write};

use socket2::{Domain, Protocol, Socket, Type};

pub const MESSAGE_HEADER: usize = 16;
/// More than one message of an answer to our questions takes.
const ANSWER: usize = 32 * 1024;

/// A question: the header that follows the message's own, and attributes.
pub struct Question {
    pub kind: u16,
    /// Beside `NLM_F_REQUEST`.
    pub flags: libc::c_int,
    pub header: Vec<u8>,
    /// Of lengths that are multiples of four.
    pub attributes: Vec<(u16, Vec<u8>)>,
}

impl Question {
    /// Asks, and returns what stands behind the message header of the one answer.
    ///
    /// # Errors
    /// What the kernel says, such as `ENODEV`.
    pub fn ask(&self) -> io::Result<Vec<u8>> {
        let mut answer = vec![0; ANSWER];
        let length = self.send()?.read(&mut answer)?;
        let (_, body, _) = message(&answer[..length])?;
        Ok(body.to_vec())
    }

    /// Asks for all there is of something, and returns what stands behind each message header.
    pub fn ask_for_all(&self) -> io::Result<Vec<Vec<u8>>> {
        let mut socket = self.send()?;
        let mut found = Vec::new();
        let mut answer = vec![0; ANSWER];
        loop {
            let length = socket.read(&mut answer)?;
            let mut rest = &answer[..length];
            while !rest.is_empty() {
                let (kind, body, behind) = message(rest)?;
                if kind == libc::NLMSG_DONE {
                    return Ok(found);
                }
                found.push(body.to_vec());
                rest = behind;
            }
        }
    }

    fn send(&self) -> io::Result<Socket> {
        let mut socket = Socket::new(
            Domain::from(libc::AF_NETLINK),
            Type::RAW.cloexec(),
            Some(Protocol::from(libc::NETLINK_ROUTE)),
        )?;
        socket.write_all(&self.bytes())?;
        Ok(socket)
    }

    fn bytes(&self) -> Vec<u8> {
        let mut body = self.header.clone();
        for (kind, value) in &self.attributes {
            body.extend((4 + value.len() as u16).to_ne_bytes());
            body.extend(kind.to_ne_bytes());
            body.extend(value);
        }
        let mut bytes = Vec::with_capacity(MESSAGE_HEADER + body.len());
        bytes.extend(((MESSAGE_HEADER + body.len()) as u32).to_ne_bytes());
        bytes.extend(self.kind.to_ne_bytes());
        bytes.extend(((libc::NLM_F_REQUEST | self.flags) as u16).to_ne_bytes());
        bytes.extend([0; 8]);
        bytes.extend(body);
        bytes
    }
}

/// Kind and body of the first message, and what stands behind it. One that says error is an error.
pub fn message(bytes: &[u8]) -> io::Result<(libc::c_int, &[u8], &[u8])> {
    let unreadable = || io::Error::from(io::ErrorKind::InvalidData);
    let length = u32_at(bytes, 0).ok_or_else(unreadable)? as usize;
    let kind = u16_at(bytes, 4).ok_or_else(unreadable)?.into();
    let body = bytes.get(MESSAGE_HEADER..length).ok_or_else(unreadable)?;
    if kind == libc::NLMSG_ERROR {
        let code = u32_at(body, 0).ok_or_else(unreadable)?;
        return Err(io::Error::from_raw_os_error(-(code as i32)));
    }
    let behind = bytes.get(length.next_multiple_of(4)..).unwrap_or_default();
    Ok((kind, body, behind))
}

/// Attributes in order, up to one that does not fit.
pub fn attributes(mut bytes: &[u8]) -> impl Iterator<Item = (u16, &[u8])> {
    std::iter::from_fn(move || {
        let length = usize::from(u16_at(bytes, 0)?);
        let kind = u16_at(bytes, 2)?;
        let value = bytes.get(4..length)?;
        bytes = bytes.get(length.next_multiple_of(4)..).unwrap_or_default();
        // The two highest bits say how the value is encoded.
        Some((kind & 0x3fff, value))
    })
}

/// The value of the first attribute of a kind.
pub fn attribute(bytes: &[u8], wanted: u16) -> Option<&[u8]> {
    attributes(bytes).find_map(|(kind, value)| (kind == wanted).then_some(value))
}

fn u16_at(bytes: &[u8], at: usize) -> Option<u16> {
    let bytes = bytes.get(at..at + 2)?;
    Some(u16::from_ne_bytes(bytes.try_into().ok()?))
}

pub fn u32_at(bytes: &[u8], at: usize) -> Option<u32> {
    let bytes = bytes.get(at..at + 4)?;
    Some(u32::from_ne_bytes(bytes.try_into().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn attributes_cut_short_end_the_list_and_do_not_panic() {
        let bytes = [8, 0, 4, 0, 7, 0, 0, 0, 5, 0, 43, 0x80, 1, 0, 0, 0];
        let all: Vec<_> = attributes(&bytes).collect();
        assert_eq!(all, [(4, &[7, 0, 0, 0][..]), (43, &[1][..])]);
        for length in 0..bytes.len() {
            assert!(attributes(&bytes[..length]).count() <= 2);
        }
        assert_eq!(
            attributes(&[0, 0, 1, 0]).count(),
            0,
            "shorter than its header"
        );
    }

    #[test]
    fn a_message_cut_short_is_an_error_and_not_a_panic() {
        let mut bytes = vec![20, 0, 0, 0, 16, 0];
        bytes.resize(20, 0);
        assert_eq!(message(&bytes).expect("whole").1.len(), 4);
        for length in 0..bytes.len() {
            assert!(message(&bytes[..length]).is_err(), "{length} bytes");
        }
        bytes[0] = 3;
        assert!(message(&bytes).is_err(), "shorter than its header");
    }
}
