//! User memory of idle clients: a contender afresh for each measurement.

use anyhow::Result;
use weir_tests::idle::{self, Memory};
use weir_tests::origin::Origin;
use weir_tests::process::Place;

use crate::contender::{Contender, Programs};
use crate::network::Network;

pub fn measure(contender: Contender, programs: &Programs) -> Result<Memory> {
    let place = Place::default();
    let network = Network::Loopback;
    let origins = network.start_endpoints(|host| host)?;
    let addresses = origins.iter().map(Origin::addresses).collect::<Vec<_>>();
    let proxy = place.clone().on_core(1);
    let running = contender.start(programs, &network, &addresses.concat(), &proxy)?;
    idle::cost(&running.process, running.address, &place)
}
