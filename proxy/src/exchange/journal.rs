//! What the access log is told of an exchange, from its head to its end. Without a log there is no record, and each step
//! here is a look at an empty place.

use std::net::IpAddr;

use super::state::{Exchange, Response};
use super::{Failure, Proxy};
use crate::access_log::{Record, Sink};
use crate::balance::BackendId;
use crate::conn::ExchangeId;
use crate::moment::Moment;
use crate::seam::ConnId;

/// Records on their way, and where they go.
#[derive(Default)]
pub struct Journal {
    sink: Option<Box<dyn Sink>>,
    /// Records that were handed on, kept for their memory.
    #[expect(
        clippy::vec_box,
        reason = "an exchange holds its record by a pointer, which is what is spared"
    )]
    spare: Vec<Box<Record>>,
}

/// Kept memory, in records.
const SPARE: usize = 256;

impl Journal {
    pub fn to(sink: Box<dyn Sink>) -> Self {
        Self {
            sink: Some(sink),
            spare: Vec::new(),
        }
    }

    fn begin(&mut self, client: IpAddr, now: Moment) -> Option<Box<Record>> {
        self.sink.as_ref()?;
        let fresh = Record::new(client, now);
        Some(match self.spare.pop() {
            Some(mut record) => {
                *record = fresh;
                record
            }
            None => Box::new(fresh),
        })
    }

    fn end(&mut self, mut record: Box<Record>, now: Moment) {
        record.ended = now;
        if let Some(sink) = &mut self.sink {
            sink.put(&record);
        }
        if self.spare.len() < SPARE {
            self.spare.push(record);
        }
    }
}

impl Proxy {
    /// Tells this sink of every exchange.
    pub fn log_to(&mut self, sink: Box<dyn Sink>) {
        self.journal = Journal::to(sink);
    }

    /// For whoever else serves on this worker; `None` without a log.
    pub fn begin_record_of(&mut self, client: IpAddr, now: Moment) -> Option<Box<Record>> {
        self.journal.begin(client, now)
    }

    pub fn end_record_of(&mut self, record: Box<Record>, now: Moment) {
        self.journal.end(record, now);
    }

    /// The head of an exchange has come, and stands in the request head kept.
    pub(super) fn begin_record(
        &mut self,
        id: ExchangeId,
        client: IpAddr,
        head: &[u8],
        now: Moment,
    ) {
        let Some(mut record) = self.journal.begin(client, now) else {
            return;
        };
        let request = &self.request_head;
        record.method.set(request.method_name(head));
        record.host.set(request.host(head).unwrap_or_default());
        record.path.set(request.path(head));
        let request_id = request.fields().values(head, b"x-request-id").next();
        record.request_id.set(request_id.unwrap_or_default());
        record.bytes_in = head.len() as u64;
        if let Some(exchange) = self.exchanges.get_mut(id) {
            exchange.record = Some(record);
        }
    }

    /// It is known where the request goes.
    pub(super) fn record_backend(&mut self, id: ExchangeId, backend: BackendId) {
        let record = self.exchanges.get_mut(id).and_then(|it| it.record.as_mut());
        let Some(record) = record else { return };
        if let Some(backend) = self.snapshots.backend(backend) {
            record.backend.set(backend.namespace.as_bytes());
            record.backend.push(b"/");
            record.backend.push(backend.name.as_bytes());
        }
    }

    /// A head, or what else stands around a body, was made for the client: the bytes from `start` on.
    pub(super) fn record_head(&mut self, id: ExchangeId, start: usize) {
        let bytes = self.out.made_length() - start;
        let record = self.exchanges.get_mut(id).and_then(|it| it.record.as_mut());
        if let Some(record) = record {
            record.bytes_out += bytes as u64;
        }
    }

    /// The exchange is over: with a whole response, or with a failure the client was told in so many bytes.
    pub(super) fn end_record(
        &mut self,
        record: Option<Box<Record>>,
        failure: Option<(Failure, usize)>,
        now: Moment,
    ) {
        let Some(mut record) = record else { return };
        if let Some((failure, told)) = failure {
            record.error = Some(failure.cause());
            // A response that had begun keeps its status.
            record.status = record.status.or(Some(failure.status().code()));
            record.bytes_out += told as u64;
        }
        self.journal.end(record, now);
    }

    /// The client left before the end.
    pub(super) fn end_record_cancelled(&mut self, record: Option<Box<Record>>, now: Moment) {
        if let Some(mut record) = record {
            record.error = Some("client-cancelled");
            self.journal.end(record, now);
        }
    }

    /// What could not be read as a request was answered, in so many bytes.
    pub(super) fn record_rejected(
        &mut self,
        conn: ConnId,
        failure: Failure,
        told: usize,
        now: Moment,
    ) {
        let Some(client) = self.downstream(conn).map(|client| client.client) else {
            return;
        };
        let record = self.journal.begin(client, now);
        self.end_record(record, Some((failure, told)), now);
    }
}

impl Exchange {
    /// Takes its record, with what the exchange itself knows.
    pub fn take_record(&mut self) -> Option<Box<Record>> {
        let mut record = self.record.take()?;
        record.endpoint = self.lease.as_ref().map(|lease| lease.address());
        let attempts = self.extra_attempts() + usize::from(self.lease.is_some());
        record.attempts = u32::try_from(attempts).unwrap_or(u32::MAX);
        record.first_byte = self.timing.first_byte.map(|sample| sample.length);
        record.status = match &self.response {
            Response::Relaying { verdict, .. } => Some(verdict.status.code()),
            Response::Awaited { .. } => None,
        };
        Some(record)
    }
}
