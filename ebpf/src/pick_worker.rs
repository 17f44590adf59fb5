//! Which worker gets a new connection: of two workers drawn at random, the one that will sooner have time for it.
//!
//! `load = (1 + connections + 8 unseen) * (1 us + lag)`, the lower one wins. `unseen` are connections given to the worker
//! since it last looked for new ones; `lag` is the usual length of its turns, or by how much it is late with the news it
//! promised, whichever is more. Where nobody drawn has said anything lately, the kernel's hash decides as if there were no
//! program.

use aya_ebpf::EbpfContext;
use aya_ebpf::helpers::bpf_sk_select_reuseport;
use aya_ebpf::helpers::generated::{bpf_get_prandom_u32, bpf_get_socket_cookie, bpf_ktime_get_ns};
use aya_ebpf::programs::SkReuseportContext;
use weir_common::{ListenerGroup, Reason};

use crate::count::add;
use crate::tables::{LISTENER, LISTENER_GROUP, VIP_LISTENER, WORKER, WORKER_STEERED};

/// Who has said nothing for this long is not asked.
const STALE_NS: u64 = 1_000_000_000;
/// A connection that waits for a worker to look weighs as much as this many that it has.
const UNSEEN_WEIGHT: u64 = 8;
/// Bounds that keep the product within 64 bits, far above what a worker can have.
const MOST_BUSY: u64 = 1 << 24;
const MOST_LAG_NS: u64 = 1 << 34;

/// Gives the connection to a worker, or leaves it to the kernel.
///
/// # Errors
/// [`Reason::TurnedAway`] if the client is to be refused; for other reasons the kernel decides.
#[inline(always)]
pub fn pick(context: &SkReuseportContext) -> Result<Reason, Reason> {
    let group = group(context)?;
    let is_migrating = context.migrating_sk().is_some();
    if group.is_closing != 0 && !is_migrating {
        return Err(Reason::TurnedAway);
    }
    let (one, other) = draw_two(group.workers);
    // SAFETY: the helper takes nothing.
    let now = unsafe { bpf_ktime_get_ns() };
    let (first, second) = match (load(one, now), load(other, now)) {
        (None, None) => return Err(Reason::LoadStale),
        (Some(load), Some(others)) if others < load => (other, one),
        (None, Some(_)) => (other, one),
        _ => (one, other),
    };
    give(context, &group, first).or_else(|_| give(context, &group, second))?;
    Ok(if is_migrating {
        Reason::Migrated
    } else {
        Reason::SteeredByLoad
    })
}

#[inline(always)]
fn group(context: &SkReuseportContext) -> Result<ListenerGroup, Reason> {
    let socket = context.sk().sock;
    // SAFETY: the kernel calls us with a socket of the group.
    let cookie = unsafe { bpf_get_socket_cookie(socket.cast()) };
    let group = LISTENER_GROUP.get_ptr(&cookie).ok_or(Reason::NotSteered)?;
    // SAFETY: elements of the table stay readable while a program runs; user space replaces them whole.
    Ok(unsafe { *group })
}

/// Two different ones of so many, if there are two.
#[inline(always)]
fn draw_two(workers: u32) -> (u32, u32) {
    // SAFETY: the helper takes nothing.
    let chance = unsafe { bpf_get_prandom_u32() };
    let one = scaled(chance & 0xffff, workers);
    let step = 1 + scaled(chance >> 16, workers.saturating_sub(1));
    let other = one.wrapping_add(step);
    if other < workers {
        return (one, other);
    }
    (one, other.wrapping_sub(workers))
}

/// Of 16 bits of chance, a number below `bound`.
#[inline(always)]
fn scaled(chance: u32, bound: u32) -> u32 {
    chance.wrapping_mul(bound) >> 16
}

/// None if the worker takes no connections, or has not said for long how it is.
#[inline(always)]
fn load(worker: u32, now: u64) -> Option<u64> {
    let row = WORKER.get_ptr(worker)?;
    let steered = WORKER_STEERED.get_ptr(worker)?;
    // SAFETY: the row lives as long as the table; an aligned u64 the worker may write meanwhile, hence volatile.
    let read = |field: *const u64| unsafe { field.read_volatile() };
    // SAFETY: as above, for the row of the other table.
    let given = read(unsafe { &raw const (*steered).connections });
    // SAFETY: as above.
    let accepting = read(unsafe { &raw const (*row).accepting });
    // SAFETY: as above.
    let heartbeat = read(unsafe { &raw const (*row).heartbeat_ns });
    if accepting == 0 || now.saturating_sub(heartbeat) > STALE_NS {
        return None;
    }
    // SAFETY: as above.
    let due = read(unsafe { &raw const (*row).due_ns });
    // SAFETY: as above.
    let connections = read(unsafe { &raw const (*row).connections });
    // SAFETY: as above.
    let usual = read(unsafe { &raw const (*row).loop_lag_ns });
    // SAFETY: as above.
    let seen = read(unsafe { &raw const (*row).steered_seen });
    let unseen = given.saturating_sub(seen).min(MOST_BUSY);
    let busy = 1 + connections.min(MOST_BUSY) + UNSEEN_WEIGHT * unseen;
    let lag = usual.max(now.saturating_sub(due)).min(MOST_LAG_NS);
    Some(busy * (1_000 + lag))
}

#[inline(always)]
fn give(context: &SkReuseportContext, group: &ListenerGroup, worker: u32) -> Result<(), Reason> {
    let row = group.first.wrapping_add(worker);
    let selected = match group.is_vip {
        0 => LISTENER.select_reuseport(context, row).is_ok(),
        _ => select_vip(context, row),
    };
    if !selected {
        return Err(Reason::NotSteered);
    }
    if let Some(steered) = WORKER_STEERED.get_ptr_mut(worker) {
        // SAFETY: the pointer comes from the table's lookup, and rows live as long as the table.
        let counter = unsafe { &raw mut (*steered).connections };
        // SAFETY: as above; the field is an aligned u64.
        unsafe { add(counter, 1) };
    }
    Ok(())
}

/// The library offers this for the other kind of table alone.
#[inline(always)]
fn select_vip(context: &SkReuseportContext, mut row: u32) -> bool {
    let table = (&raw const VIP_LISTENER).cast_mut();
    let row = &raw mut row;
    // SAFETY: the context is the program's, the table a map of sockets, and the row a u32 that outlives the call.
    unsafe { bpf_sk_select_reuseport(context.as_ptr().cast(), table.cast(), row.cast(), 0) == 0 }
}
