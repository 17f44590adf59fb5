//! What a world starts with.

use std::net::SocketAddr;

use crate::balance::shared::{SharedTables, Sizes};
use crate::balance::{BackendKind, Weight};
use crate::exchange::Settings;
use crate::route::{Rules, Split};
use crate::seam::ConnectFault;
use crate::snapshot::{BackendPlan, BackendPolicy, Plan, Target};

/// Upstream connections the kernel can measure.
pub const FLOWS: usize = 64;

/// Endpoints that may come later.
const SPARE_ROWS: usize = 4;

#[derive(Clone, Debug)]
pub struct Setup {
    /// Of the endpoints of the only backend.
    pub weights: Vec<u16>,
    /// Endpoints of another backend, in place 1, which rules may mirror to. Their places follow those of the first.
    pub mirrors: u8,
    /// Where requests go.
    pub rules: Rules,
    pub policy: BackendPolicy,
    pub settings: Settings,
    pub connects: Connects,
    /// Whether the kernel measures upstream connections.
    pub is_measured: bool,
    pub seed: u64,
}

/// What becomes of attempts to connect to an endpoint.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Connects {
    Succeed,
    Fail(ConnectFault),
    Hang,
}

impl Default for Setup {
    fn default() -> Self {
        Self {
            weights: vec![1],
            mirrors: 0,
            rules: Rules::always(Split::one(0)),
            policy: BackendPolicy::default(),
            settings: Settings::default(),
            connects: Connects::Succeed,
            is_measured: false,
            seed: 0x5eed,
        }
    }
}

impl Setup {
    pub fn tables(&self) -> SharedTables {
        SharedTables::anonymous(Sizes {
            capacity: self.weights.len() + usize::from(self.mirrors) + SPARE_ROWS,
            workers: 1,
            cpus: 1,
            flows: FLOWS,
        })
    }

    pub fn plan(&self) -> Plan {
        let targets: Vec<Target> = (1..)
            .zip(&self.weights)
            .map(|(host, weight)| {
                let address = SocketAddr::from(([10, 0, 0, host], 8080));
                Target::at(address, Weight::new(*weight))
            })
            .collect();
        let listen = [SocketAddr::from(([0, 0, 0, 0], 80))];
        let mut plan = Plan::quick(&listen, &targets);
        plan.backends[0].policy = self.policy.clone();
        plan.listeners[0].rules = self.rules.clone();
        if self.mirrors > 0 {
            let address = |host| SocketAddr::from(([10, 0, 1, host], 8080));
            let targets = (1..=self.mirrors).map(|host| Target::at(address(host), Weight::ONE));
            plan.backends.push(BackendPlan {
                kind: BackendKind::Service,
                namespace: "default".to_owned(),
                name: "mirror".to_owned(),
                policy: BackendPolicy::default(),
                targets: targets.collect(),
            });
        }
        plan
    }
}
