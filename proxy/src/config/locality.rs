//! Where endpoints stand, and how much a Service cares: Kubernetes' fields, and labels where it has none.

use super::reader::{Cursor, Object};
use crate::balance::{Locality, LocalityMode, LocalityPolicy, Scope};

pub const REGION_LABEL: &str = "topology.kubernetes.io/region";
pub const ZONE_LABEL: &str = "topology.kubernetes.io/zone";
pub const SUBZONE_LABEL: &str = "topology.istio.io/subzone";
pub const NETWORK_LABEL: &str = "topology.istio.io/network";
pub const CLUSTER_LABEL: &str = "topology.istio.io/cluster";

/// `internalTrafficPolicy: Local`.
const LOCAL: LocalityPolicy = LocalityPolicy {
    scopes: &[Scope::Node],
    mode: LocalityMode::Strict,
};
/// `trafficDistribution: PreferClose` and `PreferSameZone`, two names for the same.
const SAME_ZONE: LocalityPolicy = LocalityPolicy {
    scopes: &[Scope::Network, Scope::Region, Scope::Zone],
    mode: LocalityMode::Failover,
};
/// `trafficDistribution: PreferSameNode`.
const SAME_NODE: LocalityPolicy = LocalityPolicy {
    scopes: &[
        Scope::Network,
        Scope::Region,
        Scope::Zone,
        Scope::Subzone,
        Scope::Node,
    ],
    mode: LocalityMode::Failover,
};

/// What a Service says, with the place where it does.
pub struct Preference<'a> {
    pub policy: LocalityPolicy,
    pub cursor: Option<Cursor<'a>>,
}

/// How much a Service cares where its endpoints are. `Local` binds more than a distribution.
pub fn read_preference<'a>(spec: &mut Object<'a>) -> Preference<'a> {
    let internal = spec.optional("internalTrafficPolicy");
    let distribution = spec.optional("trafficDistribution");
    let none = LocalityPolicy::default();
    let local = internal
        .as_ref()
        .and_then(|internal| internal.choice(&[("Cluster", none), ("Local", LOCAL)]));
    let near = distribution.as_ref().and_then(|distribution| {
        distribution.choice(&[
            ("PreferClose", SAME_ZONE),
            ("PreferSameZone", SAME_ZONE),
            ("PreferSameNode", SAME_NODE),
        ])
    });
    match (local.filter(|local| *local != none), near) {
        (Some(policy), _) => Preference {
            policy,
            cursor: internal,
        },
        (None, Some(policy)) => Preference {
            policy,
            cursor: distribution,
        },
        (None, None) => Preference {
            policy: none,
            cursor: None,
        },
    }
}

/// What the labels of a slice say of all its endpoints.
pub fn read_labels(mut labels: Object<'_>) -> Locality {
    let mut label = |key| {
        let text = labels.optional(key).and_then(|label| label.text());
        text.unwrap_or_default().to_owned()
    };
    Locality {
        region: label(REGION_LABEL),
        zone: label(ZONE_LABEL),
        subzone: label(SUBZONE_LABEL),
        cluster: label(CLUSTER_LABEL),
        network: label(NETWORK_LABEL),
        node: String::new(),
    }
}

/// Fills in what documents leave unsaid. Endpoints are taken to be in the proxy's own region, cluster and network; one on
/// the proxy's node is in its zone and subzone too. Another zone or subzone cannot be guessed.
pub fn completed(mut said: Locality, own: &Locality) -> Locality {
    let fill = |part: &mut String, own: &str| {
        if part.is_empty() {
            own.clone_into(part);
        }
    };
    fill(&mut said.region, &own.region);
    fill(&mut said.cluster, &own.cluster);
    fill(&mut said.network, &own.network);
    if !said.node.is_empty() && said.node == own.node {
        fill(&mut said.zone, &own.zone);
        fill(&mut said.subzone, &own.subzone);
    }
    said
}
