//! What Weir says of itself at its admin address and by its commands.

use serde::Deserialize;

/// One row of `weir proxy config backends -o json`.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct EndpointRow {
    pub endpoint: String,
    pub health: String,
    pub health_score: f64,
    /// Missing without a sample.
    pub latency_ms: Option<f64>,
    pub latency_source: Option<String>,
    pub pending: u64,
    pub weight: u64,
    pub ejected: bool,
}

/// The part of `/config_dump` that scenarios look at.
#[derive(Clone, Debug, Deserialize)]
pub(super) struct ConfigDump {
    pub revision: u64,
    pub backends: Vec<BackendDump>,
}

#[derive(Clone, Debug, Deserialize)]
pub(super) struct BackendDump {
    pub endpoints: Vec<EndpointDump>,
}

/// What the dump says of an endpoint.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct EndpointDump {
    pub endpoint: String,
    pub health_score: f64,
    /// Missing without a sample.
    pub latency_ms: Option<f64>,
    pub latency_source: Option<String>,
    pub self_delay_ms: Option<f64>,
    pub pending: u64,
    pub attempts: Attempts,
    pub ejected: bool,
    pub ejections: u64,
    pub wire: Wire,
}

/// How attempts ended.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct Attempts {
    pub started: u64,
    pub succeeded: u64,
    pub failed: u64,
    pub neutral: u64,
}

/// What kernel programs counted.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Wire {
    pub started: u64,
    pub finished: u64,
    pub opened: u64,
    pub first_byte: Timed,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Timed {
    pub count: u64,
    pub mean_ms: Option<f64>,
}
