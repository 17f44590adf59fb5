//! Messages between two processes: a line of words, and descriptors that come along.

use std::io::{self, IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{BorrowedFd, OwnedFd};

use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, ReturnFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, recvmsg, sendmsg,
};

/// Descriptors that go with one message; the kernel takes no more than 253.
pub const MOST_DESCRIPTORS: usize = 128;
/// Enough for a number for each listener there can be descriptors for.
const LONGEST: usize = 128 * 1024;

pub struct Message {
    pub words: String,
    pub descriptors: Vec<OwnedFd>,
}

/// At most [`MOST_DESCRIPTORS`] descriptors.
///
/// # Errors
/// `InvalidInput` for what the other end would not take, and what the kernel says.
pub fn send(to: BorrowedFd<'_>, words: &str, descriptors: &[BorrowedFd<'_>]) -> io::Result<()> {
    if words.len() > LONGEST {
        return Err(io::ErrorKind::InvalidInput.into());
    }
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(MOST_DESCRIPTORS))];
    let mut control = SendAncillaryBuffer::new(&mut space);
    if !descriptors.is_empty() && !control.push(SendAncillaryMessage::ScmRights(descriptors)) {
        return Err(io::ErrorKind::InvalidInput.into());
    }
    let words = [IoSlice::new(words.as_bytes())];
    sendmsg(to, &words, &mut control, SendFlags::NOSIGNAL)?;
    Ok(())
}

/// The next message.
///
/// # Errors
/// `UnexpectedEof` once the other end is gone, `InvalidData` for what is no message.
pub fn receive(from: BorrowedFd<'_>) -> io::Result<Message> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(MOST_DESCRIPTORS))];
    let mut control = RecvAncillaryBuffer::new(&mut space);
    let mut bytes = vec![0; LONGEST];
    let received = recvmsg(
        from,
        &mut [IoSliceMut::new(&mut bytes)],
        &mut control,
        RecvFlags::CMSG_CLOEXEC,
    )?;
    let descriptors = control
        .drain()
        .filter_map(|message| match message {
            RecvAncillaryMessage::ScmRights(descriptors) => Some(descriptors),
            _ => None,
        })
        .flatten()
        .collect();
    if received.bytes == 0 {
        return Err(io::ErrorKind::UnexpectedEof.into());
    }
    let is_cut = received
        .flags
        .intersects(ReturnFlags::TRUNC | ReturnFlags::CTRUNC);
    let words = std::str::from_utf8(&bytes[..received.bytes]).ok();
    match words {
        Some(words) if !is_cut => Ok(Message {
            words: words.to_owned(),
            descriptors,
        }),
        _ => Err(io::ErrorKind::InvalidData.into()),
    }
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Seek, Write};
    use std::os::fd::AsFd;

    use rustix::net::{AddressFamily, SocketFlags, SocketType, socketpair};

    use super::*;

    #[test]
    fn words_and_descriptors_arrive_message_by_message() {
        let (one, other) = socketpair(
            AddressFamily::UNIX,
            SocketType::SEQPACKET,
            SocketFlags::CLOEXEC,
            None,
        )
        .expect("a pair");
        let file = rustix::fs::memfd_create("sent", rustix::fs::MemfdFlags::CLOEXEC);
        let mut file = std::fs::File::from(file.expect("memory"));
        file.write_all(b"whole").expect("room");
        send(one.as_fd(), "first", &[file.as_fd(), one.as_fd()]).expect("there is room");
        send(one.as_fd(), "second", &[]).expect("there is room");
        let first = receive(other.as_fd()).expect("it was sent");
        assert_eq!(
            (first.words.as_str(), first.descriptors.len()),
            ("first", 2)
        );
        let [received, _] = first.descriptors.try_into().expect("two of them");
        let mut received = std::fs::File::from(received);
        received.rewind().expect("a file");
        let mut text = String::new();
        received.read_to_string(&mut text).expect("text");
        assert_eq!(text, "whole");
        let second = receive(other.as_fd()).expect("it was sent");
        assert_eq!(
            (second.words.as_str(), second.descriptors.len()),
            ("second", 0)
        );
        let many = " 1".repeat(20_000);
        send(one.as_fd(), &many, &[]).expect("a word for each listener");
        let received = receive(other.as_fd()).expect("it was sent");
        assert_eq!(received.words, many);
        let error = send(one.as_fd(), &"1".repeat(LONGEST + 1), &[]).err();
        let error = error.map(|error| error.kind());
        assert_eq!(error, Some(io::ErrorKind::InvalidInput));
        drop(one);
        let gone = receive(other.as_fd()).err().map(|error| error.kind());
        assert_eq!(gone, Some(io::ErrorKind::UnexpectedEof));
    }
}
