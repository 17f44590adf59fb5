//! Connections in the table: two elements each, one for packets of either side. The one for answers is made first, with a
//! port of ours nobody else has towards that endpoint; then the other; only then is a packet changed.

use aya_ebpf::bindings::{BPF_ANY, BPF_NOEXIST};
use aya_ebpf::helpers::generated::{
    bpf_get_prandom_u32, bpf_ktime_get_coarse_ns, bpf_ktime_get_ns,
};
use weir_common::{Connection, ConnectionKey, Progress, Reason, SEEN_SHIFT, ServiceEndpoint, TCP};

use super::packet::{FIN, Packet, RST};
use super::score::Score;
use super::scratch;
use crate::tables::{CONNECTION, nat_ports};

/// Ports tried before a connection is given up.
const TRIES: u32 = 16;
/// How long the port of a connection that has ended is left alone: the endpoint may still be sending.
const LINGER_NS: u64 = 2_000_000_000;
/// A SYN sent again after so long has not been answered: TCP waits a second.
const UNANSWERED_NS: u64 = 900_000_000;

/// Makes it what packets to the endpoint go out with, but for the port.
#[inline(always)]
pub fn aim(to: &mut Connection, endpoint: &ServiceEndpoint) {
    let now = now_ns();
    *to = Connection {
        source: endpoint.source,
        destination: endpoint.address,
        source_port: 0,
        destination_port: endpoint.port,
        endpoint: endpoint.endpoint,
        generation: endpoint.generation,
        since_ns: now,
        progress: Progress::TO_ENDPOINT,
        seen: (now >> SEEN_SHIFT) as u32,
    };
}

/// Claims a port and remembers both directions.
#[inline(always)]
pub fn open(packet: &Packet, to: &mut Connection) -> Result<(), Reason> {
    let back = scratch::to_client()?;
    *back = Connection {
        source: packet.key.destination,
        destination: packet.key.source,
        source_port: packet.key.destination_port,
        destination_port: packet.key.source_port,
        progress: 0,
        ..*to
    };
    claim_port(packet.key.protocol, to, back)?;
    if CONNECTION
        .insert(&packet.key, &*to, BPF_ANY as u64)
        .is_err()
    {
        let key = scratch::key()?;
        *key = to.answer_key(packet.key.protocol);
        let _ = CONNECTION.remove(&*key);
        return Err(Reason::ConnectionTableFull);
    }
    // Nothing tells of the end of what goes by datagrams: counted as open it would be so for good.
    if packet.key.protocol == TCP
        && let Some(score) = Score::of(to)
    {
        score.opened();
    }
    Ok(())
}

#[inline(always)]
fn claim_port(protocol: u8, to: &mut Connection, back: &Connection) -> Result<(), Reason> {
    let ports = nat_ports();
    // SAFETY: the helper takes nothing.
    let random = unsafe { bpf_get_prandom_u32() };
    let start = ((random as u64 * ports.count as u64) >> 32) as u32;
    let key = scratch::key()?;
    for number in 0..TRIES {
        let beyond = start + number >= ports.count;
        let offset = start + number - if beyond { ports.count } else { 0 };
        let port = ports.first + offset;
        to.source_port = (port as u16).to_be();
        *key = to.answer_key(protocol);
        if CONNECTION.insert(&*key, back, BPF_NOEXIST as u64).is_ok() {
            return Ok(());
        }
        let Some(holder) = CONNECTION.get_ptr(&*key) else {
            continue;
        };
        // SAFETY: elements of the table stay in place while a program runs; of one that has ended nothing changes.
        let holder = unsafe { &*holder };
        if is_over(holder) && to.since_ns.wrapping_sub(holder.since_ns) > LINGER_NS {
            forget_client(holder, key)?;
            if CONNECTION.insert(&*key, back, BPF_ANY as u64).is_ok() {
                return Ok(());
            }
        }
    }
    Err(Reason::NoPort)
}

/// Late packets of a connection that has ended must not meet the one that gets its port. The client may have begun anew
/// from the same port of its own, and have another of ours by now.
#[inline(always)]
fn forget_client(ended: &Connection, port: &ConnectionKey) -> Result<(), Reason> {
    let key = scratch::other_key()?;
    *key = ended.answer_key(port.protocol);
    if let Some(client) = CONNECTION.get_ptr(&*key) {
        // SAFETY: elements of the table stay in place while a program runs, and ends are never rewritten.
        let source_port = unsafe { (*client).source_port };
        if source_port == port.destination_port {
            let _ = CONNECTION.remove(&*key);
        }
    }
    Ok(())
}

/// Notes that a packet goes out: user space forgets what stays unused. About once a second there is something to write.
#[inline(always)]
pub fn touch(element: *mut Connection, was: &Connection) {
    // SAFETY: the helper takes nothing.
    let now = (unsafe { bpf_ktime_get_coarse_ns() } >> SEEN_SHIFT) as u32;
    if was.seen != now {
        // SAFETY: elements of the table stay in place while a program runs.
        let seen = unsafe { &raw mut (*element).seen };
        // SAFETY: an aligned u32 of the element.
        unsafe { seen.write_volatile(now) };
    }
}

#[inline(always)]
pub fn is_over(connection: &Connection) -> bool {
    connection.progress & Progress::CLOSED != 0
}

#[inline(always)]
pub fn is_to_endpoint(connection: &Connection) -> bool {
    connection.progress & Progress::TO_ENDPOINT != 0
}

/// Takes into account what TCP says of the connection. `was` is the element as it was found.
#[inline(always)]
pub fn follow(element: *mut Connection, was: &Connection, packet: &Packet) {
    let is_to_endpoint = is_to_endpoint(was);
    let is_news = packet.flags & (FIN | RST) != 0
        || (packet.is_syn_ack() && was.progress & Progress::ACCEPTED == 0)
        || (packet.is_syn() && was.progress & Progress::UNANSWERED == 0);
    if !is_news || is_over(was) {
        return;
    }
    let Ok(key) = scratch::key() else { return };
    *key = was.answer_key(packet.key.protocol);
    let Some(partner) = CONNECTION.get_ptr_mut(&*key) else {
        return;
    };
    let score = Score::of(was);
    if packet.is_syn() {
        let waited = now_ns().wrapping_sub(was.since_ns);
        if is_to_endpoint && was.progress & Progress::ACCEPTED == 0 && waited > UNANSWERED_NS {
            mark(element, partner, Progress::UNANSWERED, Progress::UNANSWERED);
            if let Some(score) = score {
                score.unanswered();
            }
        }
    } else if packet.is_syn_ack() {
        mark(element, partner, Progress::ACCEPTED, Progress::ACCEPTED);
        if let Some(score) = score.filter(|_| !is_to_endpoint) {
            score.accepted(now_ns().wrapping_sub(was.since_ns));
        }
    } else {
        mark(element, partner, Progress::ENDED, Progress::ANSWER_ENDED);
        let is_reset = packet.flags & RST != 0;
        if is_reset || was.progress & Progress::ANSWER_ENDED != 0 {
            // Counted before it is marked: whoever counts those that stand never misses one that is not counted as closed.
            if let Some(score) = score {
                score.closed();
                if is_reset && !is_to_endpoint && was.progress & Progress::ACCEPTED == 0 {
                    score.refused();
                }
            }
            mark(element, partner, Progress::CLOSED, Progress::CLOSED);
            end_now(element);
            end_now(partner);
        }
    }
}

/// Both elements learn of it. Two CPUs at once may lose one bit, which the next packet brings again, or LRU mends.
#[inline(always)]
fn mark(element: *mut Connection, partner: *mut Connection, own: u32, other: u32) {
    for (element, bits) in [(element, own), (partner, other)] {
        // SAFETY: elements of the table stay in place while a program runs.
        let progress = unsafe { &raw mut (*element).progress };
        // SAFETY: an aligned u32 of the element.
        let before = unsafe { progress.read_volatile() };
        // SAFETY: as above.
        unsafe { progress.write_volatile(before | bits) };
    }
}

#[inline(always)]
fn end_now(element: *mut Connection) {
    // SAFETY: elements of the table stay in place while a program runs.
    let since = unsafe { &raw mut (*element).since_ns };
    // SAFETY: an aligned u64 of the element.
    unsafe { since.write_volatile(now_ns()) };
}

#[inline(always)]
fn now_ns() -> u64 {
    // SAFETY: the helper takes nothing.
    unsafe { bpf_ktime_get_ns() }
}
