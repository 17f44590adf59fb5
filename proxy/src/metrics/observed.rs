//! Where everything is that can be told about a running proxy: for scrapers and for `/config_dump`.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::counter::Counter;
use super::serving::Serving;
use super::steering::SteeringStatus;
use super::text::{Kind, Text};
use super::worker::WorkerCounters;
use super::xdp::XdpReport;
use crate::balance::shared::SharedTables;
use crate::moment::Moment;

/// Handles to all that is observed. Reading it disturbs nobody.
pub struct Observed {
    /// Tells the proxies of a host apart.
    pub instance: String,
    pub started: Moment,
    pub serving: Arc<Serving>,
    pub tables: SharedTables,
    pub workers: Vec<Arc<WorkerCounters>>,
    /// `None` where no access log is written.
    pub access_log: Option<Arc<LogCounters>>,
    pub ebpf: Box<dyn Fn() -> EbpfStatus + Send + Sync>,
}

/// What became of the access log. Written by its thread alone.
#[derive(Debug, Default)]
pub struct LogCounters {
    /// Lines in the file.
    pub written: Counter,
    /// Lines that could not be written.
    pub lost: Counter,
    /// Times the file could not be opened or written.
    pub errors: Counter,
}

/// What the kernel's side does.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct EbpfStatus {
    /// Whether kernel programs measure.
    pub active: bool,
    /// If not, why, in words.
    pub reason: Option<String>,
    /// Where tables and links are pinned; `None` if they end with the process.
    #[serde(default)]
    pub pins: Option<PathBuf>,
    pub interfaces: Vec<InterfaceStatus>,
    #[serde(default)]
    pub xdp: XdpReport,
    /// Packets the programs saw, by what they made of them.
    pub packets: BTreeMap<String, u64>,
    /// Upstream connections that go unmeasured, by what is missing.
    pub unmeasured: BTreeMap<String, u64>,
    /// Times an endpoint could not be made known to the kernel, which does not time its handshakes then.
    #[serde(default)]
    pub unidentified: u64,
    #[serde(default)]
    pub steering: SteeringStatus,
}

/// One interface programs are to be attached to.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct InterfaceStatus {
    pub name: String,
    /// How they are attached; `None` if they are not.
    pub hook: Option<String>,
    /// Why they are not.
    pub error: Option<String>,
    /// Why the hook is not the preferred one, tcx.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub second_choice: Option<String>,
}

impl Observed {
    /// Version of the running binary.
    pub const VERSION: &str = env!("CARGO_PKG_VERSION");

    pub(super) fn write_process(&self, text: &mut Text, now: Moment) {
        text.family(
            Kind::Gauge,
            "weir_info",
            "Constant 1, labelled by what runs.",
        )
        .sample(
            &[("version", Self::VERSION), ("instance", &self.instance)],
            1,
        );
        text.family(Kind::Gauge, "weir_uptime_seconds", "Time since the start.")
            .sample(&[], now.since(self.started).as_secs_f64());
        if let Some(log) = &self.access_log {
            self.write_access_log(text, log);
        }
    }

    fn write_access_log(&self, text: &mut Text, log: &LogCounters) {
        let mut counter = |name, help, count| {
            text.family(Kind::Counter, name, help).sample(&[], count);
        };
        counter(
            "weir_access_log_lines_total",
            "Lines of the access log written.",
            log.written.value(),
        );
        let dropped = self
            .workers
            .iter()
            .map(|worker| worker.access_log_dropped.value());
        counter(
            "weir_access_log_dropped_total",
            "Lines of the access log dropped, because there was no room or the file could not be written.",
            dropped.sum::<u64>() + log.lost.value(),
        );
        counter(
            "weir_access_log_errors_total",
            "Times the file of the access log could not be opened or written.",
            log.errors.value(),
        );
    }
}

impl EbpfStatus {
    pub(super) fn write(&self, text: &mut Text) {
        text.family(
            Kind::Gauge,
            "weir_ebpf_active",
            "1 if kernel programs measure, 0 if the workers' clocks do.",
        )
        .sample(&[], u8::from(self.active));
        let mut attached = text.family(
            Kind::Gauge,
            "weir_ebpf_attached",
            "1 if programs are attached to the interface.",
        );
        for interface in &self.interfaces {
            attached.sample(
                &[("interface", &interface.name)],
                u8::from(interface.hook.is_some()),
            );
        }
        let mut hooks = text.family(
            Kind::Gauge,
            "weir_ebpf_hook",
            "Constant 1 for interfaces with programs, labelled by how they are attached: tcx, or clsact on older kernels.",
        );
        for interface in &self.interfaces {
            if let Some(hook) = &interface.hook {
                hooks.sample(&[("interface", &interface.name), ("hook", hook)], 1);
            }
        }
        self.xdp.write(text);
        let mut packets = text.family(
            Kind::Counter,
            "weir_ebpf_packets_total",
            "Packets kernel programs saw, by what they made of them.",
        );
        for (reason, count) in &self.packets {
            packets.sample(&[("reason", reason)], count);
        }
        let mut unmeasured = text.family(
            Kind::Counter,
            "weir_ebpf_unmeasured_connections_total",
            "Upstream connections the kernel does not measure, by what is missing.",
        );
        for (reason, count) in &self.unmeasured {
            unmeasured.sample(&[("reason", reason)], count);
        }
        text.family(
            Kind::Counter,
            "weir_ebpf_unidentified_endpoints_total",
            "Times the kernel had no room for an endpoint, whose handshakes go untimed.",
        )
        .sample(&[], self.unidentified);
        text.family(
            Kind::Gauge,
            "weir_ebpf_pinned",
            "1 if what is learnt outlives the process, in the BPF file system.",
        )
        .sample(&[], u8::from(self.pins.is_some()));
        self.steering.write(text);
    }
}
