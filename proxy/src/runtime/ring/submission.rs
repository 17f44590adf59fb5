//! The ring itself: set up for one thread, one `enter` a turn, and a backlog for the moment the queue is full, so that
//! no operation - a cancel least of all - is lost for want of space.

use std::collections::VecDeque;
use std::io;
use std::time::Duration;

use io_uring::{IoUring, cqueue, squeue, types};

use super::key::{OpKey, OpKind};
use super::probe::RingError;

/// Entries of the ring's two queues, each a power of two.
#[derive(Clone, Copy, Debug)]
pub struct QueueSizes {
    pub submissions: u32,
    pub completions: u32,
}

impl Default for QueueSizes {
    /// Room for many completions, since multishot operations complete many times for one submission. All of it is
    /// resident, 16 bytes each.
    fn default() -> Self {
        Self {
            submissions: 1024,
            completions: 4 * 1024,
        }
    }
}

pub struct Submission {
    pub uring: IoUring,
    backlog: VecDeque<squeue::Entry>,
    /// Enters after which there were more completions than their queue has room for.
    overflows: u64,
}

/// One completion, copied out of the ring.
#[derive(Clone, Copy)]
pub struct RawCompletion {
    pub key: OpKey,
    pub result: i32,
    flags: u32,
}

impl RawCompletion {
    /// Whether the multishot operation goes on.
    pub fn goes_on(self) -> bool {
        cqueue::more(self.flags)
    }

    /// The buffer the kernel chose, and whether it goes on filling it.
    pub fn buffer(self) -> Option<(u16, bool)> {
        Some((
            cqueue::buffer_select(self.flags)?,
            cqueue::buffer_more(self.flags),
        ))
    }
}

impl Submission {
    /// A ring for the calling thread alone.
    pub fn new(sizes: QueueSizes) -> Result<Self, RingError> {
        let uring = IoUring::builder()
            .setup_single_issuer()
            .setup_defer_taskrun()
            .setup_coop_taskrun()
            .setup_no_sqarray()
            .setup_submit_all()
            .setup_cqsize(sizes.completions)
            .build(sizes.submissions)
            .map_err(RingError::from_setup)?;
        // Only saves looking the descriptor up; a kernel that refuses costs a few nanoseconds an enter.
        if let Err(error) = uring.submitter().register_ring_fd() {
            tracing::debug!(%error, "the ring's descriptor is not registered");
        }
        Ok(Self {
            uring,
            backlog: VecDeque::new(),
            overflows: 0,
        })
    }

    /// Submits `entry` with the next enter.
    ///
    /// # Safety
    /// Memory the entry points to stays valid and unmoved until the operation's last completion.
    pub unsafe fn push(&mut self, entry: squeue::Entry, key: OpKey) {
        let entry = entry.user_data(key.encode());
        // SAFETY: passed on to the caller.
        let pushed =
            self.backlog.is_empty() && unsafe { self.uring.submission().push(&entry) }.is_ok();
        if !pushed {
            self.backlog.push_back(entry);
        }
    }

    /// Cancels the operation named `key`. Whether or not it still runs, its own last completion tells the end.
    pub fn cancel(&mut self, key: OpKey) {
        let entry = io_uring::opcode::AsyncCancel::new(key.encode()).build();
        // SAFETY: a cancel points to no memory.
        unsafe {
            self.push(
                entry,
                OpKey {
                    kind: OpKind::Cancel,
                    ..key
                },
            )
        };
    }

    /// Cancels all operations named `key`.
    pub fn cancel_named(&mut self, key: OpKey) {
        let named = types::CancelBuilder::user_data(key.encode()).all();
        let entry = io_uring::opcode::AsyncCancel2::new(named).build();
        // SAFETY: a cancel points to no memory.
        unsafe {
            self.push(
                entry,
                OpKey {
                    kind: OpKind::Cancel,
                    ..key
                },
            )
        };
    }

    /// Cancels all operations on `fd`.
    pub fn cancel_all(&mut self, fd: types::Fd, key: OpKey) {
        let entry = io_uring::opcode::AsyncCancel2::new(types::CancelBuilder::fd(fd).all()).build();
        // SAFETY: a cancel points to no memory.
        unsafe {
            self.push(
                entry,
                OpKey {
                    kind: OpKind::Cancel,
                    ..key
                },
            )
        };
    }

    /// Submits all there is and waits for a completion, at most `timeout` (`None`: for as long as it takes).
    pub fn enter(&mut self, timeout: Option<Duration>) -> io::Result<()> {
        self.push_backlog();
        // What did not fit goes with the next enter, which must then come at once.
        let timeout = if self.backlog.is_empty() {
            timeout
        } else {
            Some(Duration::ZERO)
        };
        let submitter = self.uring.submitter();
        let entered = match timeout {
            None => submitter.submit_and_wait(1),
            Some(length) => {
                let timespec = types::Timespec::from(length);
                submitter.submit_with_args(1, &types::SubmitArgs::new().timespec(&timespec))
            }
        };
        // The kernel keeps what does not fit, and hands it over with the next enter.
        self.overflows += u64::from(self.uring.submission().cq_overflow());
        match entered {
            Ok(_) => Ok(()),
            // ETIME: nothing completed in time. EINTR: a signal. EBUSY, EAGAIN: completions must be taken first, and
            // what was not submitted stays queued.
            Err(error) => match error.raw_os_error() {
                Some(libc::ETIME | libc::EINTR | libc::EBUSY | libc::EAGAIN) => Ok(()),
                _ => Err(error),
            },
        }
    }

    /// How often completions had to wait in the kernel for room in their queue, ever.
    pub fn overflows(&self) -> u64 {
        self.overflows
    }

    /// Moves all completions into `into`.
    pub fn take_completions(&mut self, into: &mut Vec<RawCompletion>) {
        into.extend(self.uring.completion().filter_map(|entry| {
            let key = OpKey::decode(entry.user_data())?;
            Some(RawCompletion {
                key,
                result: entry.result(),
                flags: entry.flags(),
            })
        }));
    }

    fn push_backlog(&mut self) {
        while let Some(entry) = self.backlog.front() {
            // SAFETY: whoever pushed the entry promised that its memory outlives the operation.
            if unsafe { self.uring.submission().push(entry) }.is_ok() {
                self.backlog.pop_front();
            } else if self.uring.submit().is_err() {
                return;
            }
        }
    }
}
