//! How links end: in order, by a reset, by silence. Each has exactly one outcome, and one name in the counters.

use std::time::Duration;

use super::link::{LinkId, Phase};
use super::{ConnIds, Relay, Role};
use crate::balance::{LatencySample, LatencySource, Lease, Outcome, Verdict};
use crate::metrics::{Label, LinkEnd};
use crate::moment::Moment;
use crate::seam::{Action, ConnId};

impl Relay {
    /// The endpoint has done its part: what is queued is still sent, then both sides are closed.
    pub(super) fn complete(&mut self, id: LinkId, now: Moment) {
        self.close(id, LinkEnd::Finished);
        let outcome = self.success(id);
        self.settle_link(id, outcome, now);
        self.set_deadline(id, now + self.settings.flush);
    }

    /// An endpoint that has sent something has served; one that has not, has not.
    pub(super) fn on_endpoint_reset(&mut self, id: LinkId, now: Moment) {
        let endpoint = self.links.get(id).and_then(|link| link.endpoint.as_ref());
        let outcome = match endpoint.is_some_and(|endpoint| endpoint.has_sent) {
            true => self.success(id),
            false => Outcome::Failure,
        };
        self.give_up(id, outcome, LinkEnd::EndpointReset, now);
    }

    /// It cannot go on: both sides learn of it by a reset.
    pub(super) fn give_up(&mut self, id: LinkId, outcome: Outcome, why: LinkEnd, now: Moment) {
        let Some(link) = self.links.get_mut(id) else {
            return;
        };
        link.phase = Phase::Closing;
        link.deadline.clear();
        if let Some(record) = &mut link.record {
            record.error = Some(why.name());
        }
        self.counters.l4_endings.of(why).increment();
        for conn in link.left().map(|end| end.conn) {
            self.out.push(Action::Abort { conn });
        }
        self.settle_link(id, outcome, now);
    }

    /// Nothing moves, and a stop waits: both sides are ended in order.
    fn hang_up(&mut self, id: LinkId, now: Moment) {
        self.close(id, LinkEnd::Drained);
        let endpoint = self.links.get(id).and_then(|link| link.endpoint.as_ref());
        let outcome = match endpoint.is_some_and(|endpoint| endpoint.has_sent) {
            true => self.success(id),
            false => Outcome::Neutral,
        };
        self.settle_link(id, outcome, now);
        self.set_deadline(id, now + self.settings.flush);
    }

    fn close(&mut self, id: LinkId, why: LinkEnd) {
        let Some(link) = self.links.get_mut(id) else {
            return;
        };
        link.phase = Phase::Closing;
        if let Some(record) = &mut link.record {
            record.error = (why != LinkEnd::Finished).then(|| why.name());
        }
        self.counters.l4_endings.of(why).increment();
        for conn in link.left().map(|end| end.conn) {
            self.out.push(Action::Close { conn });
        }
    }

    /// Nothing moved for too long. If bytes are queued, whoever does not take them is to blame.
    fn on_idle(&mut self, id: LinkId, now: Moment) {
        let Some(link) = self.links.get(id) else {
            return;
        };
        let endpoint = link.endpoint.as_ref();
        let outcome = if endpoint.is_some_and(|endpoint| endpoint.queued > 0) {
            Outcome::Failure
        } else if link.client.queued == 0 && endpoint.is_some_and(|endpoint| endpoint.has_sent) {
            self.success(id)
        } else {
            Outcome::Neutral
        };
        self.give_up(id, outcome, LinkEnd::Idle, now);
    }

    fn success(&self, id: LinkId) -> Outcome {
        let connect = self.links.get(id).and_then(|link| link.connect);
        Outcome::Success {
            latency: connect.map(|length| LatencySample {
                length,
                source: LatencySource::Worker,
                self_delay: Duration::ZERO,
            }),
        }
    }

    fn settle_link(&mut self, id: LinkId, outcome: Outcome, now: Moment) {
        let Some(link) = self.links.get_mut(id) else {
            return;
        };
        let (lease, hold) = (link.lease.take(), link.hold.take());
        link.early = Vec::new();
        self.settle(lease, outcome, now);
        if let Some(hold) = hold {
            self.snapshots.release(hold);
        }
    }

    pub(super) fn settle(&mut self, lease: Option<Lease>, outcome: Outcome, now: Moment) {
        let Some(lease) = lease else { return };
        match self.balancer.finish(lease, outcome, now) {
            Some(Verdict::Ejected(ejection)) => self.snapshots.log_ejection(&ejection),
            Some(Verdict::Spared) => self.counters.ejections_prevented.increment(),
            Some(Verdict::TooLate) => self.counters.late_outcomes.increment(),
            None => {}
        }
    }

    /// Nothing is left of a connection; with the last one its link is forgotten.
    pub(super) fn on_closed(&mut self, conn: ConnId, now: Moment, ids: &mut impl ConnIds) {
        let Some(owner) = self.ends.remove(conn) else {
            return;
        };
        ids.give_back(conn, owner.role);
        match owner.role {
            Role::Client => self.counters.l4_active.lower(),
            Role::Endpoint => self.counters.upstream_active.lower(),
        }
        let Some(link) = self.links.get_mut(owner.link) else {
            return;
        };
        if link.client.conn == conn {
            link.client.is_gone = true;
        }
        let endpoint = link.endpoint.as_mut().filter(|end| end.conn == conn);
        if let Some(endpoint) = endpoint {
            endpoint.is_gone = true;
        }
        if link.phase == Phase::Closing && link.left().next().is_none() {
            let link = self.links.remove(owner.link);
            if let Some(record) = link.and_then(|link| link.record) {
                ids.end_record(record, now);
            }
            self.forget_old_deadlines();
        } else if link.phase != Phase::Closing && link.client.is_gone {
            self.give_up(owner.link, Outcome::Neutral, LinkEnd::ClientReset, now);
        }
    }

    pub(super) fn set_deadline(&mut self, id: LinkId, due: Moment) {
        if let Some(link) = self.links.get_mut(id) {
            self.deadlines.set(&mut link.deadline, id, due);
        }
    }

    /// As of connections that carry requests: entries of links that are gone must not fill the memory.
    fn forget_old_deadlines(&mut self) {
        const FEW: usize = 1024;
        if self.deadlines.entries() > FEW + 4 * self.links.len() {
            let links = &self.links;
            self.deadlines.retain(|id, moment| {
                let link = links.get(id);
                link.is_some_and(|link| link.deadline.is_queued_at(moment))
            });
        }
    }

    pub(super) fn on_tick(&mut self, now: Moment, ids: &mut impl ConnIds) {
        let is_draining = self.is_draining();
        while let Some((id, entry)) = self.deadlines.pop(now) {
            let Some(link) = self.links.get_mut(id) else {
                continue;
            };
            if !self.deadlines.is_due(&mut link.deadline, id, entry, now) {
                continue;
            }
            match link.phase {
                Phase::Preamble => self.give_up(id, Outcome::Neutral, LinkEnd::NoHeader, now),
                Phase::Connecting => self.on_connect_due(id, now, ids),
                Phase::Open if is_draining && !link.is_busy() => self.hang_up(id, now),
                Phase::Open => self.on_idle(id, now),
                Phase::Closing => {
                    for conn in link.left().map(|end| end.conn) {
                        self.out.push(Action::Abort { conn });
                    }
                }
            }
        }
        let gone: Vec<_> = self
            .leaving
            .extract_if(.., |(_, until)| *until <= now)
            .collect();
        for (hold, _) in gone {
            self.snapshots.release(hold);
        }
    }
}
