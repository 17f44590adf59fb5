//! `weir detach`: takes away what proxies leave in the kernel.

use std::io;
use std::path::Path;

use clap::Args;
use thiserror::Error;

use super::value;
use crate::runtime::dataplane::{self, MOUNT_POINT, Removed};

/// Take kernel programs off all interfaces and forget what was learnt of endpoints.
///
/// A proxy that ends in order leaves what it learnt, for the next one of its instance; one that was killed leaves its
/// programs, too. Both are removed. It does no harm to do it twice.
#[derive(Clone, Debug, Args)]
pub struct DetachOptions {
    /// Whose programs and tables
    #[arg(
        long,
        value_name = "NAME",
        env = "WEIR_INSTANCE",
        default_value = "default",
        value_parser = value::instance
    )]
    instance: String,

    /// Those of all instances
    #[arg(long)]
    all: bool,

    /// Also from under a proxy that runs: it goes on without measuring, until it is started again
    #[arg(long)]
    force: bool,
}

#[derive(Debug, Error)]
pub enum DetachError {
    #[error("cannot look into {MOUNT_POINT}/weir: {0}")]
    Unreadable(io::Error),
    /// What stood in the way, by instance.
    #[error("{}", .0.join("\nweir: "))]
    Incomplete(Vec<String>),
}

impl DetachOptions {
    /// Does what can be done, and says a line of each instance.
    pub fn run(&self, mut say: impl FnMut(&str)) -> Result<(), DetachError> {
        let bpffs = Path::new(MOUNT_POINT);
        let instances = match self.all {
            true => dataplane::instances(bpffs).map_err(DetachError::Unreadable)?,
            false => vec![self.instance.clone()],
        };
        let mut problems = Vec::new();
        for instance in &instances {
            match dataplane::detach(bpffs, instance, self.force) {
                Ok(removed) => say(&describe(instance, &removed)),
                Err(problem) => problems.push(problem.to_string()),
            }
        }
        if instances.is_empty() {
            say("no instance has left anything");
        }
        match problems.is_empty() {
            true => Ok(()),
            false => Err(DetachError::Incomplete(problems)),
        }
    }
}

fn describe(instance: &str, removed: &Removed) -> String {
    let tables = removed.tables;
    match removed.interfaces.join(", ").as_str() {
        "" if tables == 0 => format!("instance {instance}: nothing was left"),
        "" => format!("instance {instance}: removed {tables} tables; no programs were attached"),
        names => {
            format!("instance {instance}: took programs off {names}, and removed {tables} tables")
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_removed_is_said_in_words() {
        let said = |interfaces: &[&str], tables| {
            let interfaces = interfaces.iter().map(|name| (*name).to_owned()).collect();
            describe("blue", &Removed { interfaces, tables })
        };
        assert_eq!(said(&[], 0), "instance blue: nothing was left");
        assert_eq!(
            said(&[], 6),
            "instance blue: removed 6 tables; no programs were attached"
        );
        assert_eq!(
            said(&["eth0", "eth1"], 6),
            "instance blue: took programs off eth0, eth1, and removed 6 tables"
        );
    }
}
