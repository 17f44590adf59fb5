//! Flags of the program that sees frames before the host does, and of the list of those it drops.

use std::path::{Path, PathBuf};

use clap::Args;

use super::value;
use crate::config::{Problem, read_deny_list};
use crate::runtime::config_files;
use crate::runtime::dataplane::XdpMode;
use crate::runtime::reload::{ConfigError, Refusal};
use crate::snapshot::DenyList;

#[derive(Clone, Debug, Default, Args)]
pub struct XdpArguments {
    /// Drop packets from these sources before the host sees them: a file with a prefix or an address a line
    ///
    /// What follows a # is a comment. It is read again as the files of --config are; a list with a mistake is refused
    /// whole.
    #[arg(long, value_name = "FILE", env = "WEIR_DENY_FILE")]
    deny_file: Option<PathBuf>,

    /// When and how the XDP program is attached, which costs something on every packet
    #[arg(
        id = "xdp_mode",
        long = "xdp",
        value_name = "MODE",
        value_enum,
        default_value_t,
        env = "WEIR_XDP"
    )]
    pub mode: XdpMode,

    /// Interface to attach XDP to; may be given several times [default: those that carry an address clients connect to]
    #[arg(
        id = "xdp_interfaces",
        long = "xdp-interface",
        value_name = "IF",
        env = "WEIR_XDP_INTERFACE",
        value_delimiter = ',',
        value_parser = value::interface
    )]
    pub interfaces: Vec<String>,
}

impl XdpArguments {
    /// The file of the deny list, if there is one.
    pub fn file(&self) -> Option<&Path> {
        self.deny_file.as_deref()
    }

    /// Whom to deny; nobody without a file.
    pub fn deny_list(&self) -> Result<DenyList, ConfigError> {
        let Some(file) = &self.deny_file else {
            return Ok(DenyList::default());
        };
        let source = config_files::read(file).map_err(ConfigError::DenyFile)?;
        let refused = |problems: Vec<Problem>| ConfigError::Refused(Refusal(problems));
        read_deny_list(&source).map_err(refused)
    }

    /// What contradicts itself, and what to do.
    pub fn check(&self) -> Result<(), String> {
        match (&self.deny_file, self.mode) {
            (Some(_), XdpMode::Off) => {
                Err("--deny-file takes XDP, and --xdp off forbids it: leave either out".to_owned())
            }
            _ => Ok(()),
        }
    }
}
