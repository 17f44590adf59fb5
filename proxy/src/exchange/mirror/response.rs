//! What becomes of a copy at its endpoint: the head of the response says how that fares, the rest is read only so that
//! the connection can be used again, and neither for long nor without end.

use super::{Place, Proxy};
use crate::balance::{BackendId, LatencySpan, Outcome};
use crate::conn::{Input, MirrorId};
use crate::exchange::Failure;
use crate::exchange::responses::MAX_INTERIM;
use crate::exchange::state::Response;
use crate::http::h1::{BodyDecoder, BodyError, BodyForm, HeadError};
use crate::metrics::Unmirrored;
use crate::moment::Moment;
use crate::seam::{ConnId, End};

impl Proxy {
    pub(in crate::exchange) fn on_mirror_connected(
        &mut self,
        conn: ConnId,
        id: MirrorId,
        now: Moment,
    ) {
        let sample_before = self.sample_number(conn);
        let mirrored = self.mirrored.get_mut(id);
        if let Some(attempt) = mirrored.and_then(|it| it.attempt.as_mut()) {
            attempt.place = Place::Fresh;
            attempt.request_sent_at = now;
            attempt.sample_before = sample_before;
        }
        self.limit_mirrored(id, conn, self.settings.first_byte, now);
    }

    /// Reads what came. Tells how many bytes were of the response.
    pub(in crate::exchange) fn read_mirrored(
        &mut self,
        conn: ConnId,
        id: MirrorId,
        input: Input<'_>,
        now: Moment,
    ) -> Result<usize, Failure> {
        let Some(mirrored) = self.mirrored.get_mut(id) else {
            return Ok(input.bytes().len());
        };
        let method = mirrored.method;
        let Some(attempt) = &mut mirrored.attempt else {
            return Ok(input.bytes().len());
        };
        let consumed = match &mut attempt.response {
            Response::Awaited { .. } => {
                self.collect_head(conn, method, input, |proxy, head, rest| {
                    proxy.on_mirrored_head(id, head, rest, now)
                })?
            }
            Response::Relaying { body, .. } => {
                let step = body.next(input.bytes());
                let consumed = step.map_err(Failure::ResponseBody)?.consumed;
                attempt.body_length += consumed;
                consumed
            }
        };
        let mirrored = self.mirrored.get(id);
        let is_complete = mirrored.and_then(|it| it.attempt.as_ref()).is_some_and(
            |it| matches!(&it.response, Response::Relaying { body, .. } if body.is_complete()),
        );
        if is_complete {
            self.finish_mirrored(id, now);
        } else if self.is_too_long(id) {
            self.on_mirror_due(id, now);
        }
        Ok(consumed)
    }

    /// A new connection costs less than reading on.
    fn is_too_long(&self, id: MirrorId) -> bool {
        const MAX_BODY: usize = 256 * 1024;
        let mirrored = self.mirrored.get(id);
        let attempt = mirrored.and_then(|it| it.attempt.as_ref());
        attempt.is_some_and(|attempt| attempt.body_length > MAX_BODY)
    }

    fn on_mirrored_head(
        &mut self,
        id: MirrorId,
        head: &[u8],
        rest: &[u8],
        now: Moment,
    ) -> Result<(), Failure> {
        let Some(mirrored) = self.mirrored.get_mut(id) else {
            return Ok(());
        };
        let Some(attempt) = &mut mirrored.attempt else {
            return Ok(());
        };
        if self.response_head.is_interim() {
            if let Response::Awaited { interim } = &mut attempt.response {
                *interim += 1;
                if *interim > MAX_INTERIM {
                    return Err(Failure::TooManyInterim);
                }
            }
            return Ok(());
        }
        if self.response_head.is_switch() {
            return Err(Failure::ResponseHead(HeadError::UnaskedSwitch));
        }
        let (conn, sent_at) = (attempt.upstream, attempt.request_sent_at);
        let sample_before = attempt.sample_before;
        let (backend, source) = (mirrored.backend, mirrored.source);
        let (kept_head, hold) = (mirrored.kept_head.take(), mirrored.hold.take());
        let request = kept_head.as_deref().map(|bytes| (bytes, source));
        let verdict = self.judge_for(backend, request, head, now);
        let span = self.latency_span(backend);
        if let Some(hold) = hold {
            self.snapshots.release(hold);
        }
        let body = BodyDecoder::of_response(self.response_head.framing(), BodyForm::Framed);
        body.check(rest).map_err(Failure::ResponseBody)?;
        let first_byte = self.first_byte(conn, sent_at, sample_before, now);
        let upstream_persistence = self.response_head.persistence();
        let attempt = self.mirrored.get_mut(id).and_then(|it| it.attempt.as_mut());
        if let Some(attempt) = attempt {
            attempt.timing.span = span;
            attempt.timing.first_byte = Some(first_byte);
            attempt.response = Response::Relaying {
                verdict,
                body,
                upstream_persistence,
            };
        }
        // What the whole attempt takes is to be known where it counts.
        if span == LatencySpan::FirstByte {
            self.limit_mirrored(id, conn, self.settings.linger, now);
        }
        Ok(())
    }

    fn latency_span(&self, backend: BackendId) -> LatencySpan {
        let backend = self.snapshots.backend(backend);
        let policy = backend.and_then(|backend| self.snapshots.policy_of(backend));
        policy.map(|policy| policy.latency).unwrap_or_default()
    }

    pub(in crate::exchange) fn on_mirror_ended(
        &mut self,
        conn: ConnId,
        id: MirrorId,
        end: End,
        now: Moment,
    ) {
        let has_partial_head = self
            .conns
            .get(conn)
            .is_some_and(|conn| conn.inbox.is_some());
        let attempt = self.mirrored.get_mut(id).and_then(|it| it.attempt.as_mut());
        let Some(attempt) = attempt else { return };
        let is_unanswered =
            matches!(attempt.response, Response::Awaited { interim: 0 }) && !has_partial_head;
        match (&mut attempt.response, attempt.place) {
            // Its endpoint may have closed it before it saw the copy, which is sent once only.
            (_, Place::Reused) if is_unanswered => {
                self.counters
                    .unmirrored
                    .of(Unmirrored::StaleConnection)
                    .increment();
                self.settle_mirrored(id, Outcome::Neutral, now);
                self.close(conn, now);
            }
            (_, Place::Connecting) => self.fail_mirrored(id, Failure::ConnectFailed, now),
            (Response::Awaited { .. }, _) => self.fail_mirrored(id, Failure::UpstreamClosed, now),
            (Response::Relaying { body, .. }, _) => {
                let ended = match end {
                    End::Finished => body.on_end(),
                    End::Broken => Err(BodyError::Truncated),
                };
                match ended {
                    Ok(()) => self.finish_mirrored(id, now),
                    Err(error) => self.fail_mirrored(id, Failure::ResponseBody(error), now),
                }
            }
        }
    }

    /// Its time is over.
    pub(in crate::exchange) fn on_mirror_due(&mut self, id: MirrorId, now: Moment) {
        let mirrored = self.mirrored.get(id);
        let Some(attempt) = mirrored.and_then(|it| it.attempt.as_ref()) else {
            return;
        };
        match (&attempt.response, attempt.place) {
            (_, Place::Connecting) => {
                self.counters.upstream_connect_failed.increment();
                self.fail_mirrored(id, Failure::ConnectTimeout, now);
            }
            (Response::Awaited { .. }, _) => self.fail_mirrored(id, Failure::FirstByteTimeout, now),
            // It has answered; nobody wants more of it.
            (Response::Relaying { verdict, .. }, _) => {
                let outcome = verdict.outcome(&attempt.timing, now);
                if let Some(attempt) = self.settle_mirrored(id, outcome, now) {
                    self.abort(attempt.upstream, now);
                }
            }
        }
    }

    pub(in crate::exchange) fn fail_mirrored(
        &mut self,
        id: MirrorId,
        failure: Failure,
        now: Moment,
    ) {
        if let Some(attempt) = self.settle_mirrored(id, failure.outcome(), now) {
            self.abort(attempt.upstream, now);
        }
    }

    fn finish_mirrored(&mut self, id: MirrorId, now: Moment) {
        let mirrored = self.mirrored.get(id);
        let Some(attempt) = mirrored.and_then(|it| it.attempt.as_ref()) else {
            return;
        };
        let Response::Relaying {
            verdict,
            upstream_persistence,
            ..
        } = &attempt.response
        else {
            return;
        };
        let outcome = verdict.outcome(&attempt.timing, now);
        let keeps = upstream_persistence.is_keep_alive() && !self.is_draining;
        if let Some(attempt) = self.settle_mirrored(id, outcome, now) {
            self.after_exchange_upstream(attempt.upstream, keeps, now);
        }
    }
}
