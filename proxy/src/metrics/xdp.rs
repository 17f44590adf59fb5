//! What the program that sees frames before the host does hangs on, and whom it denies.

use serde::{Deserialize, Serialize};

use super::text::{Kind, Text};

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct XdpReport {
    /// As it was asked for: auto, native, generic or off.
    pub mode: String,
    /// Prefixes whose packets the kernel drops.
    pub denied_prefixes: u64,
    /// L4 services it serves, as address and transport.
    #[serde(default)]
    pub services: Vec<String>,
    /// Where it is wanted; none while there is nothing to do.
    pub interfaces: Vec<XdpInterface>,
}

/// One interface XDP is wanted on.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct XdpInterface {
    pub name: String,
    /// Who runs the program, native (the driver) or generic (the network stack); `None` if nobody does.
    pub hook: Option<String>,
    /// Why nobody does.
    pub error: Option<String>,
    /// Why it is generic, though native was to be tried.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fallback: Option<String>,
}

impl XdpReport {
    pub(super) fn write(&self, text: &mut Text) {
        text.family(
            Kind::Gauge,
            "weir_denied_prefixes",
            "Prefixes of the deny list whose packets kernel programs drop.",
        )
        .sample(&[], self.denied_prefixes);
        text.family(
            Kind::Gauge,
            "weir_xdp_services",
            "Services of TCPRoutes and UDPRoutes that kernel programs serve.",
        )
        .sample(&[], self.services.len() as u64);
        let mut attached = text.family(
            Kind::Gauge,
            "weir_xdp_attached",
            "1 if XDP is attached to the interface, 0 if it is wanted there and is not.",
        );
        for interface in &self.interfaces {
            attached.sample(
                &[("interface", &interface.name)],
                u8::from(interface.hook.is_some()),
            );
        }
        let mut hooks = text.family(
            Kind::Gauge,
            "weir_xdp_hook",
            "Constant 1 for interfaces with XDP, labelled by who runs it, native (the driver) or generic (the network \
             stack), and whether the latter is a fallback.",
        );
        for interface in &self.interfaces {
            if let Some(hook) = &interface.hook {
                let fallback = interface.fallback.is_some().to_string();
                hooks.sample(
                    &[
                        ("interface", &interface.name),
                        ("hook", hook),
                        ("fallback", &fallback),
                    ],
                    1,
                );
            }
        }
    }
}
