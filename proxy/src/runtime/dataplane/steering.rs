//! Which worker gets a new connection: hands the sockets of each listener to `pick_worker`, which gives connections to
//! the less loaded of two workers. What workers tell of themselves for that is in `runtime::pulse`.

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use aya::Ebpf;
use aya::programs::{ProgramError, SkReuseport};
use rustix::net::sockopt::socket_cookie;
use weir_common::{LISTENER_GROUPS, ListenerGroup};

use super::kernel::hash_table;
use super::syscall::HashTable;
use super::unavailable::Unavailable;

pub(super) const PROGRAM: &str = "pick_worker";

/// The sockets `pick_worker` chooses from.
pub struct Steering {
    /// By row: worker after worker of one listener, listener after listener.
    sockets: HashTable<u32, u32>,
    /// The same for listeners on virtual addresses.
    vip_sockets: HashTable<u32, u32>,
    groups: HashTable<u64, ListenerGroup>,
    workers: u32,
    taken: Mutex<Vec<bool>>,
}

/// The sockets of one listener, steered to. Dropping it lets the place go: do so when they are closed.
pub struct Steered {
    steering: Arc<Steering>,
    place: usize,
    group: ListenerGroup,
    cookies: Vec<u64>,
}

/// Why the connections of a listener are not steered.
#[derive(Debug, thiserror::Error)]
pub enum NotSteered {
    #[error("all {LISTENER_GROUPS} places for listeners are taken")]
    Full,
    #[error("the kernel refuses a socket: {0}")]
    Socket(#[from] io::Error),
    #[error("the kernel refuses the program: {0}")]
    Program(#[from] ProgramError),
}

impl Steering {
    /// Has the verifier look at the program.
    pub fn load(ebpf: &mut Ebpf, workers: usize) -> Result<Self, Unavailable> {
        let sockets = hash_table(ebpf, "LISTENER")?;
        let vip_sockets = hash_table(ebpf, "VIP_LISTENER")?;
        let groups = hash_table(ebpf, "LISTENER_GROUP")?;
        load_program(ebpf).map_err(|error| Unavailable::program(PROGRAM, error))?;
        Ok(Self {
            sockets,
            vip_sockets,
            groups,
            workers: u32::try_from(workers).unwrap_or(u32::MAX),
            taken: Mutex::new(vec![false; LISTENER_GROUPS as usize]),
        })
    }

    /// Steers connections to these sockets, which listen on one address by SO_REUSEPORT: one for each worker, in their
    /// order.
    pub fn steer(
        self: &Arc<Self>,
        program: &SkReuseport,
        is_vip: bool,
        sockets: &[BorrowedFd<'_>],
    ) -> Result<Steered, NotSteered> {
        let place = self.claim().ok_or(NotSteered::Full)?;
        let mut steered = Steered {
            steering: self.clone(),
            place,
            group: ListenerGroup {
                first: (place as u32).saturating_mul(self.workers),
                workers: (sockets.len() as u32).min(self.workers),
                is_vip: u32::from(is_vip),
                ..ListenerGroup::default()
            },
            cookies: Vec::with_capacity(sockets.len()),
        };
        let table = match is_vip {
            true => &self.vip_sockets,
            false => &self.sockets,
        };
        for (row, socket) in (steered.group.first..).zip(sockets) {
            table.insert(&row, &(socket.as_raw_fd() as u32))?;
            let cookie = socket_cookie(socket).map_err(io::Error::from)?;
            steered.cookies.push(cookie);
            self.groups.insert(&cookie, &steered.group)?;
        }
        if let Some(socket) = sockets.first() {
            // All sockets of the address get it.
            program.attach(socket)?;
        }
        Ok(steered)
    }

    fn claim(&self) -> Option<usize> {
        let mut taken = self.taken();
        let place = taken.iter().position(|taken| !taken)?;
        taken[place] = true;
        Some(place)
    }

    fn taken(&self) -> MutexGuard<'_, Vec<bool>> {
        self.taken.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn load_program(ebpf: &mut Ebpf) -> Result<(), ProgramError> {
    let program = ebpf.program_mut(PROGRAM).ok_or(ProgramError::NotLoaded)?;
    let program: &mut SkReuseport = program.try_into()?;
    program.load()
}

impl Steered {
    /// The row of its first socket in `VIP_LISTENER`, if that is where it is.
    pub fn vip_row(&self) -> Option<u32> {
        (self.group.is_vip != 0).then_some(self.group.first)
    }

    /// Steers to these sockets also who would connect to this one, which listens on the same address. Says whether that
    /// works.
    pub fn lead_from(&mut self, socket: BorrowedFd<'_>) -> bool {
        let Ok(cookie) = socket_cookie(socket) else {
            return false;
        };
        self.cookies.push(cookie);
        self.steering.groups.insert(&cookie, &self.group).is_ok()
    }

    /// Leaves the sockets to another process, whose program is to choose among them: until it does, the kernel's hash
    /// decides. Virtual ones are found by us until then.
    pub fn leave(self) {
        let rows = self.group.first..self.group.first.saturating_add(self.group.workers);
        if self.group.is_vip == 0 {
            for row in rows {
                // One that is not there is as good.
                let _ = self.steering.sockets.remove(&row);
            }
        }
    }

    /// From now on new clients are refused; who is half connected still comes in. Says whether the program will do so.
    pub fn turn_away(&self) -> bool {
        let closing = ListenerGroup {
            is_closing: 1,
            ..self.group
        };
        let groups = &self.steering.groups;
        let mut done = self.cookies.iter().map(|it| groups.insert(it, &closing));
        done.all(|done| done.is_ok())
    }
}

impl Drop for Steered {
    fn drop(&mut self) {
        for cookie in &self.cookies {
            // One that is gone is as good. The socket's row is emptied by the kernel when it closes.
            let _ = self.steering.groups.remove(cookie);
        }
        self.steering.taken()[self.place] = false;
    }
}
