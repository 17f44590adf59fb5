//! The way of a copy to its endpoint: its head is written beside that of the request itself, its body is kept as it
//! comes, and it leaves when all of it is there.

use std::net::SocketAddr;
use std::time::Duration;

use super::{Attempt, Mirrored, Place, Proxy};
use crate::balance::{BackendId, LatencySpan, Lease, NoEndpoint};
use crate::condition::Condition;
use crate::conn::{ExchangeId, MirrorId, UpstreamState};
use crate::exchange::passing::Passing;
use crate::exchange::replay::MAX_BODY;
use crate::exchange::state::Response;
use crate::exchange::verdict::Timing;
use crate::http::RequestFraming;
use crate::metrics::Unmirrored;
use crate::moment::Moment;
use crate::route::Mirror;
use crate::seam::ConnId;

/// Copies have this field, and what has it is not copied: mirrors that lead back here, through whatever other proxies,
/// would multiply requests without end.
const MARK: &[u8] = b"x-weir-mirror";
const MARK_LINE: &[u8] = b"X-Weir-Mirror: 1\r\n";

/// The request to be copied.
struct Original<'a> {
    head: &'a [u8],
    source: SocketAddr,
    /// Of the snapshot it is served from.
    revision: u64,
    /// Length of the path's prefix by which its rule was found.
    matched: usize,
    limit: Option<Duration>,
}

impl Proxy {
    /// A request has been sent whose rule has mirrors.
    pub(in crate::exchange) fn mirror(
        &mut self,
        id: ExchangeId,
        source: SocketAddr,
        head: &[u8],
        now: Moment,
    ) {
        let attempts = self.exchanges.get(id).and_then(|it| it.attempts.as_ref());
        let Some(attempts) = attempts else { return };
        let Some(filters) = attempts.filters.clone() else {
            return;
        };
        let original = Original {
            head,
            source,
            revision: attempts.backend.revision,
            matched: attempts.matched,
            limit: attempts.timeouts.backend_request,
        };
        for mirror in &filters.mirrors {
            if !mirror
                .fraction
                .draw(|limit| self.balancer.draw_below(limit))
            {
                continue;
            }
            match self.collect(mirror, &original) {
                Ok(copy) => {
                    if let Some(exchange) = self.exchanges.get_mut(id) {
                        exchange.mirrored.push(copy);
                    }
                }
                Err(reason) => self.counters.unmirrored.of(reason).increment(),
            }
        }
        self.send_mirrored_if_whole(id, now);
    }

    /// Begins a copy.
    fn collect(
        &mut self,
        mirror: &Mirror,
        original: &Original<'_>,
    ) -> Result<MirrorId, Unmirrored> {
        let in_flight = self.mirrored.len();
        // Every client may need a connection to an endpoint, which must not be taken from it.
        let is_short = in_flight + self.downstreams >= self.settings.max_upstreams;
        if in_flight >= self.settings.max_mirrored || is_short {
            return Err(Unmirrored::TooMany);
        }
        let head = original.head;
        // Read once more, for the filters of another copy may have taken fields out. It could be read before.
        let is_read = self.request_head.parse(head, &self.settings.limits).is_ok();
        if !is_read || self.request_head.host(head).is_none() {
            return Err(Unmirrored::NoHost);
        }
        if self.request_head.upgrade(head).is_some() {
            return Err(Unmirrored::Upgrade);
        }
        let fields = self.request_head.fields();
        if fields.values(head, MARK).next().is_some() {
            return Err(Unmirrored::Copy);
        }
        if let RequestFraming::Length(length) = self.request_head.framing()
            && length > MAX_BODY as u64
        {
            return Err(Unmirrored::TooLarge);
        }
        let backend = BackendId {
            place: mirror.backend,
            revision: original.revision,
        };
        let Some(found) = self.snapshots.backend(backend) else {
            return Err(Unmirrored::NoEndpoint);
        };
        let key = self.affinity_key(found, original.source, head);
        let condition = self
            .snapshots
            .policy_of(found)
            .and_then(|policy| policy.condition.as_ref());
        let kept_head = condition
            .is_some_and(Condition::reads_request)
            .then(|| head.to_vec());
        let mut request = self.spare_memory.pop().unwrap_or_default();
        let passing = Passing {
            client: original.source.ip(),
            fallback_host: b"",
            filters: mirror.filters.as_deref(),
            matched: original.matched,
        };
        let (parsed, rewritten) = (&mut self.request_head, &mut self.rewritten);
        passing.write(&mut request, head, parsed, rewritten);
        // The empty line comes last.
        request.truncate(request.len() - b"\r\n".len());
        request.extend_from_slice(MARK_LINE);
        request.extend_from_slice(b"\r\n");
        Ok(self.mirrored.insert(Mirrored {
            backend,
            key,
            source: original.source,
            hold: Some(self.snapshots.hold_of(original.revision)),
            method: self.request_head.method(),
            limit: original.limit,
            kept_head,
            head_length: request.len(),
            request,
            attempt: None,
        }))
    }

    /// More of a request has come that is being copied.
    pub(in crate::exchange) fn mirror_body(&mut self, id: ExchangeId, bytes: &[u8], now: Moment) {
        let Some(exchange) = self.exchanges.get_mut(id) else {
            return;
        };
        let mut copies = std::mem::take(&mut exchange.mirrored);
        copies.retain(|copy| self.add_to_copy(*copy, bytes));
        if let Some(exchange) = self.exchanges.get_mut(id) {
            exchange.mirrored = copies;
        }
        self.send_mirrored_if_whole(id, now);
    }

    /// Whether there was room for them.
    fn add_to_copy(&mut self, id: MirrorId, bytes: &[u8]) -> bool {
        let Some(mirrored) = self.mirrored.get_mut(id) else {
            return false;
        };
        let body = mirrored.request.len() - mirrored.head_length + bytes.len();
        let fits = body <= MAX_BODY;
        if fits {
            mirrored.request.extend_from_slice(bytes);
        } else {
            self.drop_mirrored(id, Unmirrored::TooLarge);
        }
        fits
    }

    fn send_mirrored_if_whole(&mut self, id: ExchangeId, now: Moment) {
        let Some(exchange) = self.exchanges.get_mut(id) else {
            return;
        };
        if !exchange.request_body.is_complete() {
            return;
        }
        for copy in std::mem::take(&mut exchange.mirrored) {
            if let Err(reason) = self.send_mirrored(copy, now) {
                self.drop_mirrored(copy, reason);
            }
        }
    }

    /// All of it is there.
    fn send_mirrored(&mut self, id: MirrorId, now: Moment) -> Result<(), Unmirrored> {
        let lease = self.pick_for_mirrored(id, now)?;
        let idle = self.take_idle(&lease);
        let upstream =
            idle.unwrap_or_else(|| self.connect(&lease, UpstreamState::Mirroring(id), now));
        let sample_before = self.sample_number(upstream);
        let start = self.out.made_length();
        let Some(mirrored) = self.mirrored.get_mut(id) else {
            return Ok(());
        };
        self.out.made_mut().extend_from_slice(&mirrored.request);
        let memory = std::mem::take(&mut mirrored.request);
        let place = match idle {
            Some(_) => Place::Reused,
            None => Place::Connecting,
        };
        mirrored.attempt = Some(Attempt {
            upstream,
            lease: Some(lease),
            place,
            request_sent_at: now,
            sample_before,
            timing: Timing {
                span: LatencySpan::default(),
                attempt_began: now,
                first_byte: None,
            },
            response: Response::Awaited { interim: 0 },
            body_length: 0,
        });
        self.recycle([Some(memory), None]);
        self.send_made(upstream, start);
        self.counters.mirrored.increment();
        match place {
            Place::Connecting => {
                self.limit_mirrored(id, upstream, self.settings.connect, now);
            }
            Place::Fresh | Place::Reused => {
                self.counters.upstream_reused.increment();
                if let Some(upstream) = self.upstream(upstream) {
                    upstream.state = UpstreamState::Mirroring(id);
                }
                self.limit_mirrored(id, upstream, self.settings.first_byte, now);
            }
        }
        Ok(())
    }

    fn pick_for_mirrored(&mut self, id: MirrorId, now: Moment) -> Result<Lease, Unmirrored> {
        let mirrored = self.mirrored.get(id).ok_or(Unmirrored::NoEndpoint)?;
        let picked = match self.snapshots.backend(mirrored.backend) {
            Some(backend) => match mirrored.key {
                Some(key) => self.balancer.pick_bound(backend, key, &[], now),
                None => self.balancer.pick(backend, now),
            },
            None => Err(NoEndpoint),
        };
        self.count_pick(picked).map_err(|_| Unmirrored::NoEndpoint)
    }

    /// It has this long from now on, and no longer than its rule gives it.
    pub(super) fn limit_mirrored(
        &mut self,
        id: MirrorId,
        upstream: ConnId,
        length: Duration,
        now: Moment,
    ) {
        let limit = self.mirrored.get(id).and_then(|mirrored| {
            let began = mirrored.attempt.as_ref()?.timing.attempt_began;
            Some(began + mirrored.limit?)
        });
        let due = now + length;
        self.set_deadline(upstream, limit.map_or(due, |limit| limit.min(due)));
    }

    /// The exchange has ended while its request was being copied.
    pub(in crate::exchange) fn forget_copies(&mut self, copies: Vec<MirrorId>) {
        for copy in copies {
            self.drop_mirrored(copy, Unmirrored::Incomplete);
        }
    }
}
