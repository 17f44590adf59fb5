//! Exports what workers count, summed over them.

use std::sync::Arc;
use std::time::Duration;

use super::counter::{Counter, CounterOf, Gauge, Label};
use super::durations::{BOUNDS, Durations};
use super::text::{Kind, Text};
use super::worker::WorkerCounters;

pub fn write(text: &mut Text, workers: &[Arc<WorkerCounters>]) {
    let mut sums = Sums { text, workers };
    sums.downstream();
    sums.upstream();
    sums.exchanges();
    sums.l4();
    sums.picks();
    sums.ring();
    sums.loops();
}

struct Sums<'a> {
    text: &'a mut Text,
    workers: &'a [Arc<WorkerCounters>],
}

impl Sums<'_> {
    fn downstream(&mut self) {
        self.counter(
            "weir_downstream_connections_total",
            "Client connections accepted.",
            |worker| &worker.downstream_accepted,
        );
        self.counter(
            "weir_downstream_refused_total",
            "Client connections turned away before a byte was read.",
            |worker| &worker.downstream_refused,
        );
        self.counter(
            "weir_downstream_shed_total",
            "Client connections beyond the budget of descriptors, accepted only to be told so.",
            |worker| &worker.downstream_shed,
        );
        self.counter(
            "weir_accept_rested_total",
            "Times accepting rested because there was no room for another client.",
            |worker| &worker.accept_rested,
        );
        self.gauge(
            "weir_downstream_connections",
            "Client connections open.",
            |worker| &worker.downstream_active,
        );
        self.directions(
            "weir_downstream_bytes_total",
            "Bytes received from (in) and sent to (out) clients.",
            |worker| &worker.downstream_bytes_in,
            |worker| &worker.downstream_bytes_out,
        );
    }

    fn upstream(&mut self) {
        self.counter(
            "weir_upstream_connections_total",
            "Connections to endpoints begun.",
            |worker| &worker.upstream_opened,
        );
        self.counter(
            "weir_upstream_connect_failed_total",
            "Connections to endpoints that never stood.",
            |worker| &worker.upstream_connect_failed,
        );
        self.counter(
            "weir_upstream_reused_total",
            "Attempts that found an idle connection.",
            |worker| &worker.upstream_reused,
        );
        self.counter(
            "weir_upstream_evicted_total",
            "Idle connections to endpoints closed to make room for others.",
            |worker| &worker.upstream_evicted,
        );
        self.counter(
            "weir_upstream_surplus_total",
            "Connections to endpoints closed after use because enough idle ones were kept.",
            |worker| &worker.upstream_surplus,
        );
        self.gauge(
            "weir_upstream_connections",
            "Connections to endpoints open, idle ones included.",
            |worker| &worker.upstream_active,
        );
        self.directions(
            "weir_upstream_bytes_total",
            "Bytes received from (in) and sent to (out) endpoints.",
            |worker| &worker.upstream_bytes_in,
            |worker| &worker.upstream_bytes_out,
        );
        self.counter(
            "weir_stale_retries_total",
            "Requests sent again because the idle connection they were put on had died.",
            |worker| &worker.stale_retries,
        );
        self.labelled(
            "weir_retries_total",
            "Further attempts at requests, by what became of the one before.",
            "reason",
            |worker| &worker.retries,
        );
        self.counter(
            "weir_retry_budget_exhausted_total",
            "Requests not tried again because the retry budget was spent.",
            |worker| &worker.retries_over_budget,
        );
        self.labelled(
            "weir_retries_impossible_total",
            "Requests not tried again, though their rule wants it, because they cannot be repeated, by why not.",
            "reason",
            |worker| &worker.unrepeatable,
        );
        self.counter(
            "weir_retries_at_same_endpoint_total",
            "Further attempts at an endpoint that had had the request, because there was no other.",
            |worker| &worker.retries_at_same,
        );
        self.counter(
            "weir_mirrored_requests_total",
            "Copies of requests sent to the mirrors of their rules.",
            |worker| &worker.mirrored,
        );
        self.labelled(
            "weir_mirrored_requests_dropped_total",
            "Copies of requests that were to be sent to a mirror and were not.",
            "reason",
            |worker| &worker.unmirrored,
        );
    }

    fn exchanges(&mut self) {
        self.counter(
            "weir_requests_total",
            "Requests whose head was read.",
            |worker| &worker.requests,
        );
        self.labelled(
            "weir_responses_total",
            "Final responses sent, by first digit of the status.",
            "class",
            |worker| &worker.responses,
        );
        self.labelled(
            "weir_local_replies_total",
            "Responses made by the proxy itself, by cause.",
            "reason",
            |worker| &worker.local_replies,
        );
        self.counter(
            "weir_tunnels_total",
            "Connections that became tunnels by an upgrade, such as to WebSocket.",
            |worker| &worker.tunnels,
        );
        self.counter(
            "weir_client_cancelled_total",
            "Requests whose client went away before the response ended.",
            |worker| &worker.client_cancelled,
        );
    }

    fn l4(&mut self) {
        self.counter(
            "weir_l4_connections_total",
            "Clients of L4 services taken in by the relay.",
            |worker| &worker.l4_accepted,
        );
        self.counter(
            "weir_l4_refused_total",
            "Clients of L4 services turned away before an endpoint was picked.",
            |worker| &worker.l4_refused,
        );
        self.gauge(
            "weir_l4_connections",
            "Clients of L4 services the relay has.",
            |worker| &worker.l4_active,
        );
        self.labelled(
            "weir_l4_endings_total",
            "Relayed connections, by how they ended.",
            "result",
            |worker| &worker.l4_endings,
        );
        self.counter(
            "weir_l4_retries_total",
            "Further endpoints tried because no connection to the one before came to stand.",
            |worker| &worker.l4_retries,
        );
        self.directions(
            "weir_l4_bytes_total",
            "Bytes the relay received from clients (in) and from endpoints (out).",
            |worker| &worker.l4_bytes_in,
            |worker| &worker.l4_bytes_out,
        );
    }

    fn picks(&mut self) {
        self.labelled(
            "weir_selections_total",
            "Endpoints picked, by how the pick was decided.",
            "method",
            |worker| &worker.selections,
        );
        self.labelled(
            "weir_affinity_total",
            "Requests balanced without the affinity asked for, by what their value was.",
            "result",
            |worker| &worker.unbound,
        );
        self.labelled(
            "weir_affinity_detours_total",
            "Bound requests whose endpoint carried more than its bounded load, or who got an ejected one for want of others.",
            "reason",
            |worker| &worker.detours,
        );
        self.counter(
            "weir_failover_picks_total",
            "Endpoints picked from another bucket than the first, 0.",
            |worker| &worker.failovers,
        );
        self.labelled(
            "weir_unhealthy_condition_total",
            "Responses judged by their status because the condition had no value, by why not.",
            "result",
            |worker| &worker.undecided,
        );
        self.counter(
            "weir_ejections_prevented_total",
            "Ejections that did not happen because too many of the backend were out already.",
            |worker| &worker.ejections_prevented,
        );
        self.labelled(
            "weir_rate_limit_hints_total",
            "Unhealthy responses of status 429, by what they say of how long to leave their endpoint alone.",
            "result",
            |worker| &worker.rate_limit_hints,
        );
        self.counter(
            "weir_late_outcomes_total",
            "Outcomes nobody learned from, because their endpoint was gone before its attempt ended.",
            |worker| &worker.late_outcomes,
        );
        self.counter(
            "weir_no_endpoint_total",
            "Picks that found nothing to pick.",
            |worker| &worker.no_endpoint,
        );
        let mut samples = self.text.family(
            Kind::Counter,
            "weir_latency_samples_total",
            "Response heads timed, by whose clock.",
        );
        let total = |read| total(self.workers, read);
        samples.sample(
            &[("source", "kernel")],
            total(|worker| &worker.kernel_samples),
        );
        samples.sample(
            &[("source", "worker")],
            total(|worker| &worker.worker_samples),
        );
    }

    fn ring(&mut self) {
        self.gauge(
            "weir_ring_connections",
            "Connections the rings hold, those being closed included.",
            |worker| &worker.ring_connections,
        );
        self.gauge("weir_ring_buffers", "Receive buffers in use.", |worker| {
            &worker.ring_buffers
        });
        self.counter(
            "weir_ring_buffers_exhausted_total",
            "Receives that found no buffer.",
            |worker| &worker.buffers_exhausted,
        );
        self.counter(
            "weir_ring_overflows_total",
            "Turns that brought more completions than fit their queue.",
            |worker| &worker.ring_overflows,
        );
        self.counter(
            "weir_accept_failed_total",
            "Connections not accepted for want of descriptors or memory.",
            |worker| &worker.accept_failed,
        );
    }

    fn loops(&mut self) {
        self.histogram(
            "weir_worker_turn_seconds",
            "How long turns of the workers' loops took, from waking up to going to sleep again.",
            |worker| &worker.turns,
        );
        self.histogram(
            "weir_worker_wake_late_seconds",
            "By how much workers woke up after the moment they had meant to, those times they did.",
            |worker| &worker.wakes_late,
        );
        self.gauge(
            "weir_workers_unpinned",
            "Workers that were to be on one CPU only, and are not.",
            |worker| &worker.unpinned,
        );
    }

    fn counter(&mut self, name: &'static str, help: &str, read: fn(&WorkerCounters) -> &Counter) {
        self.text
            .family(Kind::Counter, name, help)
            .sample(&[], total(self.workers, read));
    }

    fn gauge(&mut self, name: &'static str, help: &str, read: fn(&WorkerCounters) -> &Gauge) {
        let levels = self.workers.iter().map(|worker| read(worker).value());
        self.text
            .family(Kind::Gauge, name, help)
            .sample(&[], levels.sum::<u64>());
    }

    fn histogram(
        &mut self,
        name: &'static str,
        help: &str,
        read: fn(&WorkerCounters) -> &Durations,
    ) {
        let mut counts = [0; BOUNDS.len() + 1];
        let mut sum = Duration::ZERO;
        for durations in self.workers.iter().map(|worker| read(worker)) {
            for (count, of_worker) in counts.iter_mut().zip(durations.cumulative()) {
                *count += of_worker;
            }
            sum += durations.sum();
        }
        let mut family = self.text.family(Kind::Histogram, name, help);
        let bounds = BOUNDS.iter().map(|bound| Some(bound.as_secs_f64()));
        for (bound, count) in bounds.chain([None]).zip(counts) {
            family.bucket(bound, count);
        }
        family.sum_and_count(&[], sum.as_secs_f64(), counts[BOUNDS.len()]);
    }

    fn directions(
        &mut self,
        name: &'static str,
        help: &str,
        inward: fn(&WorkerCounters) -> &Counter,
        outward: fn(&WorkerCounters) -> &Counter,
    ) {
        let mut family = self.text.family(Kind::Counter, name, help);
        family.sample(&[("direction", "in")], total(self.workers, inward));
        family.sample(&[("direction", "out")], total(self.workers, outward));
    }

    fn labelled<L: Label>(
        &mut self,
        name: &'static str,
        help: &str,
        label: &str,
        read: fn(&WorkerCounters) -> &CounterOf<L>,
    ) {
        let mut family = self.text.family(Kind::Counter, name, help);
        for value in L::ALL {
            let counts = self
                .workers
                .iter()
                .map(|worker| read(worker).of(*value).value());
            family.sample(&[(label, value.name())], counts.sum::<u64>());
        }
    }
}

fn total(workers: &[Arc<WorkerCounters>], read: fn(&WorkerCounters) -> &Counter) -> u64 {
    workers.iter().map(|worker| read(worker).value()).sum()
}
