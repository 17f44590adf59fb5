//! What idle clients cost a proxy in user memory: how much it grows by connections that have made a request and stay.
//!
//! A proxy takes some memory once, when it is first needed, however many clients come after: receive buffers that are
//! mapped and not touched yet, tables and free lists that grow to the size of the load. The first clients make requests
//! enough for all of that, a few MiB to and fro, before anything is compared. Otherwise it would be charged to whoever
//! happens to come next, and proxies that take it at their start would look better than those that do not.

use std::net::SocketAddr;

use anyhow::{Result, ensure};

use crate::client::Client;
use crate::process::{Place, Process};

/// Resident bytes of a proxy.
#[derive(Clone, Copy, Debug, serde::Serialize)]
pub struct Memory {
    /// Before the first client.
    pub at_start: f64,
    /// Once it has worked, with the first clients still there.
    pub at_work: f64,
    /// What a further idle client adds.
    pub per_client: f64,
}

const FIRST: usize = 500;
const REQUESTS_OF_FIRST: usize = 16;

/// Connections whose cost is compared; with all ends of all connections they stay below 20,000 descriptors.
const FURTHER: usize = 4000;

/// Has clients come to the proxy that listens at `address`, from `place`, and looks at `process` meanwhile.
pub fn cost(process: &Process, address: SocketAddr, place: &Place) -> Result<Memory> {
    let visit = |clients, requests| {
        let one = || visit(address, requests);
        place.run(|| (0..clients).map(|_| one()).collect::<Result<Vec<Client>>>())
    };
    let at_start = process.memory()? as f64;
    let _first = visit(FIRST, REQUESTS_OF_FIRST)?;
    let at_work = process.memory()? as f64;
    let _further = visit(FURTHER, 1)?;
    let after = process.memory()? as f64;
    Ok(Memory {
        at_start,
        at_work,
        per_client: (after - at_work) / FURTHER as f64,
    })
}

/// A client that has made some requests and stays.
fn visit(address: SocketAddr, requests: usize) -> Result<Client> {
    let mut client = Client::connect_here(address)?;
    for _ in 0..requests {
        let response = client.get("/small")?;
        ensure!(response.status() == 200, "status {}", response.status());
    }
    Ok(client)
}
