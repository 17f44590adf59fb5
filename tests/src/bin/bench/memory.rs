//! User memory of idle clients: how much a contender grows by connections that have made one request and stay open.

use anyhow::{Result, ensure};
use serde::Serialize;
use weir_tests::client::Client;
use weir_tests::origin::Origin;
use weir_tests::process::Place;

use crate::contender::{Contender, Programs, Running};

#[derive(Clone, Copy, Debug, Serialize)]
pub struct Memory {
    /// Resident bytes before the first client.
    pub at_start: f64,
    /// Bytes a further idle client adds.
    pub per_client: f64,
}

/// Connections that let pools grow to their usual size before anything is compared.
const FIRST: usize = 500;

/// Connections whose cost is compared; with all ends of all connections they stay below 20,000 descriptors.
const FURTHER: usize = 4000;

pub fn measure(contender: Contender, programs: &Programs) -> Result<Memory> {
    let place = Place::default();
    let origin = Origin::start(&place, &["127.0.0.1:0".parse()?; 2])?;
    let running = contender.start(programs, origin.addresses(), &place.clone().on_core(1))?;
    let at_start = running.process.memory()? as f64;

    let _first = connect(&running, FIRST)?;
    let before = running.process.memory()? as f64;
    let _further = connect(&running, FURTHER)?;
    let after = running.process.memory()? as f64;
    Ok(Memory {
        at_start,
        per_client: (after - before) / FURTHER as f64,
    })
}

fn connect(running: &Running, count: usize) -> Result<Vec<Client>> {
    let one = || {
        let mut client = Client::connect_here(running.address)?;
        let response = client.get("/small")?;
        ensure!(response.status() == 200, "status {}", response.status());
        Ok(client)
    };
    (0..count).map(|_| one()).collect()
}
