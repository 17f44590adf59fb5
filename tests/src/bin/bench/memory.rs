//! User memory of idle clients: a contender afresh for each measurement.

use anyhow::Result;
use weir_tests::idle::{self, Memory};
use weir_tests::origin::Origin;
use weir_tests::process::Place;

use crate::contender::{Contender, Programs};

pub fn measure(contender: Contender, programs: &Programs) -> Result<Memory> {
    let place = Place::default();
    let origin = Origin::start(&place, &["127.0.0.1:0".parse()?; 2])?;
    let running = contender.start(programs, origin.addresses(), &place.clone().on_core(1))?;
    idle::cost(&running.process, running.address, &place)
}
