//! A network namespace: a host of its own as far as the network goes.

use std::fs::File;
use std::io::Write;
use std::process::{Command, Stdio};
use std::sync::Arc;

use anyhow::{Context, Result, bail};

use crate::leftovers;
use crate::process::Place;

/// A namespace made by this run. Dropping it removes it with the interfaces in it.
#[derive(Debug)]
pub struct Namespace {
    name: String,
    handle: Arc<File>,
}

impl Namespace {
    /// `label` is for people who look at `ip netns list` meanwhile.
    pub fn new(label: &str) -> Result<Self> {
        let name = leftovers::claim(label);
        // From here on dropping removes it, also when the next step fails.
        let made = ip(Command::new("ip").args(["netns", "add", &name]), "");
        let handle = made.and_then(|()| {
            File::open(format!("/run/netns/{name}")).context("cannot open the namespace")
        });
        match handle {
            Ok(handle) => {
                let namespace = Self {
                    name,
                    handle: Arc::new(handle),
                };
                namespace.ip("link set lo up")?;
                Ok(namespace)
            }
            Err(error) => {
                leftovers::remove(&name);
                Err(error.context(format!("cannot make the namespace {name}")))
            }
        }
    }

    pub fn name(&self) -> &str {
        &self.name
    }

    /// Where its processes and threads run.
    pub fn place(&self) -> Place {
        Place::inside(self.handle.clone())
    }

    /// Runs lines of `ip` commands in it.
    pub fn ip(&self, lines: &str) -> Result<()> {
        ip(
            Command::new("ip").args(["-n", &self.name, "-batch", "-"]),
            lines,
        )
    }
}

impl Drop for Namespace {
    fn drop(&mut self) {
        leftovers::remove(&self.name);
    }
}

fn ip(command: &mut Command, input: &str) -> Result<()> {
    let mut child = command
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .context("cannot run ip, which Debian has in iproute2")?;
    let mut stdin = child.stdin.take().expect("piped just above");
    stdin
        .write_all(input.as_bytes())
        .context("ip ended early")?;
    drop(stdin);
    let output = child.wait_with_output().context("cannot wait for ip")?;
    if !output.status.success() {
        let said = String::from_utf8_lossy(&output.stderr);
        bail!("ip failed on {input:?}: {}", said.trim());
    }
    Ok(())
}
