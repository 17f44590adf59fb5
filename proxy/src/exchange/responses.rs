//! Response heads: interim ones are passed on, the final one is judged and, unless another endpoint is asked instead,
//! passed on with what its rule edits; its body begins.

use super::state::{Exchange, Response};
use super::{Failure, Proxy};
use crate::conn::ExchangeId;
use crate::http::h1::{BodyDecoder, HeadError, ResponseEncoding, encode};
use crate::http::{FieldEdits, Persistence, Version};
use crate::metrics::ResponseClass;
use crate::moment::Moment;
use crate::seam::ConnId;

/// Interim responses passed on before the final one; an endpoint that sends more is broken.
pub const MAX_INTERIM: u8 = 16;

impl Proxy {
    /// A response head has come whole and was read, `head`, and `rest` behind it: the final one is passed on and its body
    /// begins.
    pub(super) fn on_response_head(
        &mut self,
        id: ExchangeId,
        upstream: ConnId,
        head: &[u8],
        rest: &[u8],
        now: Moment,
    ) -> Result<(), Failure> {
        if self.response_head.is_interim() {
            return self.on_interim_head(id, head, now);
        }
        let status = self.response_head.status();
        let is_switch = self.response_head.is_switch();
        if is_switch && !self.is_asked_switch(id, head) {
            return Err(Failure::ResponseHead(HeadError::UnaskedSwitch));
        }
        let Some(verdict) = self.judge(id, head, now) else {
            return Ok(());
        };
        if self.takes_retry_for_status(id, status, now) {
            self.fail_attempt_by_status(id, upstream, verdict, now);
            return Ok(());
        }
        let Some(downstream) = self.exchanges.get(id).map(|exchange| exchange.downstream) else {
            return Ok(());
        };
        let is_last = self.is_parting(downstream);
        let Some(exchange) = self.exchanges.get_mut(id) else {
            return Ok(());
        };
        let persistence = if is_last {
            Persistence::Close
        } else {
            exchange.persistence
        };
        let encoding = ResponseEncoding::new(&self.response_head, exchange.version, persistence);
        let body = match is_switch {
            true => BodyDecoder::of_tunnel(),
            false => BodyDecoder::of_response(self.response_head.framing(), encoding.body_form()),
        };
        // As long as nothing was handed on, the client can be told that the response is broken.
        body.check(rest).map_err(Failure::ResponseBody)?;
        // What is left of the request and of its response would look like exchanges of their own.
        let is_early = !exchange.request_body.is_complete();
        exchange.persistence = encoding.persistence();
        exchange.response = Response::Relaying {
            verdict,
            body,
            upstream_persistence: self.response_head.persistence(),
        };
        // Whatever comes now, no other endpoint will be asked: a long response must not keep the snapshot.
        if let Some(hold) = exchange.hold.take() {
            self.snapshots.release(hold);
        }

        self.take_latency(id, upstream, now);
        if is_early {
            self.stop_measuring(upstream);
        }
        self.counters
            .responses
            .of(ResponseClass::of_status(status.code()))
            .increment();
        let start = self.out.made_length();
        self.write_response_head(id, head, encoding);
        self.record_head(id, start);
        self.send_made(downstream, start);
        self.touch(downstream, now);
        self.touch(upstream, now);
        if is_switch {
            self.open_tunnel(id, now);
        }
        Ok(())
    }

    fn write_response_head(&mut self, id: ExchangeId, head: &[u8], encoding: ResponseEncoding) {
        let filters = self.exchanges.get(id).and_then(Exchange::filters);
        let edits = filters.map(|filters| &filters.response);
        if let Some(edits) = edits {
            self.response_head.edit(head, edits);
        }
        let lines = edits.map_or(&b""[..], FieldEdits::lines);
        encode::write_response(
            self.out.made_mut(),
            head,
            &self.response_head,
            encoding,
            lines,
        );
    }

    fn on_interim_head(&mut self, id: ExchangeId, head: &[u8], now: Moment) -> Result<(), Failure> {
        let Some(exchange) = self.exchanges.get_mut(id) else {
            return Ok(());
        };
        let Response::Awaited { interim } = &mut exchange.response else {
            return Ok(());
        };
        *interim += 1;
        if *interim > MAX_INTERIM {
            return Err(Failure::TooManyInterim);
        }
        let (downstream, version) = (exchange.downstream, exchange.version);
        if version == Version::Http11 {
            let encoding =
                ResponseEncoding::new(&self.response_head, version, Persistence::KeepAlive);
            let start = self.out.made_length();
            encode::write_response(
                self.out.made_mut(),
                head,
                &self.response_head,
                encoding,
                b"",
            );
            self.record_head(id, start);
            self.send_made(downstream, start);
            self.touch(downstream, now);
        }
        Ok(())
    }
}
