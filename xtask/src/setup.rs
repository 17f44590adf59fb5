//! `setup`: everything the other verbs would install on the way, at once.

use anyhow::Result;

use crate::kernel::ensure_toolchain;
use crate::packages::{DEMO, PEERS, TESTS, install};

pub fn setup() -> Result<()> {
    ensure_toolchain()?;
    install(DEMO)?;
    install(TESTS)?;
    install(PEERS)?;
    eprintln!("set up: all verbs have what they need");
    Ok(())
}
