//! What waits to be sent on one connection, in order, and the memory of the send in flight.
//!
//! Small pieces are copied together, so that a head and a small body leave in one plain send. Larger received pieces
//! stay in their receive buffer and are sent from there.

use std::collections::VecDeque;
use std::ptr;

use super::buffers::Slice;

/// A copied piece grows up to this size before the next one is begun.
const BLOCK: usize = 16 * 1024;
/// Pieces of one `sendmsg`.
const MAX_PIECES: usize = 16;

enum Piece {
    Copied(Vec<u8>),
    Held(Slice),
}

impl Piece {
    fn bytes(&self) -> &[u8] {
        match self {
            Piece::Copied(bytes) => bytes,
            Piece::Held(slice) => slice,
        }
    }
}

/// Bytes queued to one connection. The first `in_flight` pieces belong to the kernel until the send completes.
pub struct SendQueue {
    pieces: VecDeque<Piece>,
    /// Bytes of the first piece that were sent already.
    sent_of_first: usize,
    in_flight: usize,
    message: libc::msghdr,
    vectors: [libc::iovec; MAX_PIECES],
}

/// Memory of the next send; valid until the queue hears of its completion.
pub enum NextSend {
    Bytes { start: *const u8, length: u32 },
    Message(*const libc::msghdr),
}

impl SendQueue {
    /// Boxed, so that what the kernel reads does not move.
    pub fn boxed() -> Box<Self> {
        Box::new(Self {
            pieces: VecDeque::new(),
            sent_of_first: 0,
            in_flight: 0,
            message: empty_message(),
            vectors: [libc::iovec {
                iov_base: ptr::null_mut(),
                iov_len: 0,
            }; MAX_PIECES],
        })
    }

    pub fn is_empty(&self) -> bool {
        self.pieces.is_empty()
    }

    /// Queues a copy of `bytes`; `spare` gives and takes emptied blocks.
    pub fn push_copy(&mut self, bytes: &[u8], spare: &mut Vec<Vec<u8>>) {
        let last_is_ours = self.pieces.len() > self.in_flight;
        if let Some(Piece::Copied(last)) = self.pieces.back_mut().filter(|_| last_is_ours)
            && last.len() + bytes.len() <= BLOCK
        {
            last.extend_from_slice(bytes);
            return;
        }
        let mut block = spare.pop().unwrap_or_default();
        block.extend_from_slice(bytes);
        self.pieces.push_back(Piece::Copied(block));
    }

    /// Queues received bytes in their buffer.
    pub fn push_received(&mut self, slice: Slice) {
        self.pieces.push_back(Piece::Held(slice));
    }

    /// Hands as many pieces to the kernel as one send takes; `None` if nothing is queued.
    pub fn next_send(&mut self) -> Option<NextSend> {
        debug_assert_eq!(self.in_flight, 0, "one send at a time keeps the order");
        let count = self.pieces.len().min(MAX_PIECES);
        self.in_flight = count;
        let mut skip = self.sent_of_first;
        for (vector, piece) in self.vectors.iter_mut().zip(&self.pieces) {
            let bytes = &piece.bytes()[skip..];
            *vector = libc::iovec {
                iov_base: bytes.as_ptr().cast_mut().cast(),
                iov_len: bytes.len(),
            };
            skip = 0;
        }
        match count {
            0 => None,
            1 => {
                let only = self.vectors[0];
                let length = u32::try_from(only.iov_len).unwrap_or(u32::MAX);
                Some(NextSend::Bytes {
                    start: only.iov_base.cast_const().cast(),
                    length,
                })
            }
            _ => {
                self.message.msg_iov = self.vectors.as_mut_ptr();
                self.message.msg_iovlen = count;
                Some(NextSend::Message(&raw const self.message))
            }
        }
    }

    /// The send in flight is over and took `sent` bytes, maybe fewer than it was given.
    pub fn on_sent(&mut self, sent: usize, spare: &mut Vec<Vec<u8>>) {
        self.in_flight = 0;
        let mut left = self.sent_of_first + sent;
        while let Some(first) = self.pieces.front() {
            let length = first.bytes().len();
            if left < length {
                break;
            }
            left -= length;
            if let Some(Piece::Copied(block)) = self.pieces.pop_front() {
                recycle(block, spare);
            }
        }
        self.sent_of_first = left;
    }

    /// Forgets everything that is not with the kernel.
    pub fn clear(&mut self, spare: &mut Vec<Vec<u8>>) {
        for piece in self.pieces.drain(self.in_flight..) {
            if let Piece::Copied(block) = piece {
                recycle(block, spare);
            }
        }
        if self.in_flight == 0 {
            self.sent_of_first = 0;
        }
    }
}

fn recycle(mut block: Vec<u8>, spare: &mut Vec<Vec<u8>>) {
    const SPARE_BLOCKS: usize = 64;
    if spare.len() < SPARE_BLOCKS && block.capacity() <= BLOCK {
        block.clear();
        spare.push(block);
    }
}

fn empty_message() -> libc::msghdr {
    // SAFETY: `msghdr` is plain data for which all zero means: no name, no vectors, no control data.
    unsafe { std::mem::zeroed() }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn next_bytes(queue: &mut SendQueue) -> usize {
        match queue.next_send() {
            None => 0,
            Some(NextSend::Bytes { length, .. }) => length as usize,
            Some(NextSend::Message(_)) => queue.vectors[..queue.in_flight]
                .iter()
                .map(|v| v.iov_len)
                .sum(),
        }
    }

    #[test]
    fn copies_join_until_the_block_is_with_the_kernel() {
        let (mut queue, mut spare) = (SendQueue::boxed(), Vec::new());
        queue.push_copy(b"head", &mut spare);
        queue.push_copy(b"body", &mut spare);
        assert_eq!(next_bytes(&mut queue), 8);
        queue.push_copy(b"later", &mut spare);
        queue.on_sent(8, &mut spare);
        assert_eq!(next_bytes(&mut queue), 5);
        queue.on_sent(5, &mut spare);
        assert!(queue.is_empty());
        assert_eq!(spare.len(), 2);
    }

    #[test]
    fn a_short_send_continues_where_it_stopped() {
        let (mut queue, mut spare) = (SendQueue::boxed(), Vec::new());
        queue.push_copy(&[1; BLOCK], &mut spare);
        queue.push_copy(&[2; 100], &mut spare);
        assert_eq!(next_bytes(&mut queue), BLOCK + 100);
        queue.on_sent(10, &mut spare);
        assert_eq!(next_bytes(&mut queue), BLOCK + 90);
        queue.on_sent(BLOCK, &mut spare);
        assert_eq!(next_bytes(&mut queue), 90);
        queue.on_sent(90, &mut spare);
        assert!(queue.is_empty());
    }
}
