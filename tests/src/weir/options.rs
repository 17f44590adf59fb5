//! What Weir is started with.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::Command;

use crate::instance::Instance;

/// Arguments of `weir run`.
#[derive(Clone, Debug)]
pub struct Options {
    pub listen: Vec<SocketAddr>,
    /// `ip:port` or `ip:port@weight`.
    pub to: Vec<String>,
    /// Resources to serve in place of `listen` and `to`; the first of `listen` must be an address they listen on.
    pub config: Option<PathBuf>,
    pub interfaces: Vec<String>,
    pub workers: usize,
    pub ebpf: Ebpf,
    /// What it is called, unless `more` says otherwise.
    pub instance: Instance,
    /// The program; the one under test if there is no other.
    pub binary: Option<PathBuf>,
    /// Takes something of the system away from it, as `seccomp` does.
    pub without: Option<fn(&mut Command)>,
    /// Further arguments as they are.
    pub more: Vec<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ebpf {
    Auto,
    Required,
    Off,
}

impl Options {
    /// One worker, measuring in user space.
    pub fn new(listen: SocketAddr, to: impl IntoIterator<Item = SocketAddr>) -> Self {
        Self {
            listen: vec![listen],
            to: to.into_iter().map(|address| address.to_string()).collect(),
            config: None,
            interfaces: Vec::new(),
            workers: 1,
            ebpf: Ebpf::Off,
            instance: Instance::new(),
            binary: None,
            without: None,
            more: Vec::new(),
        }
    }

    /// With kernel programs on these interfaces.
    pub fn measured_on<'a>(mut self, interfaces: impl IntoIterator<Item = &'a str>) -> Self {
        self.interfaces = interfaces.into_iter().map(str::to_owned).collect();
        self.ebpf = Ebpf::Required;
        self
    }

    pub fn arguments(&self) -> Vec<String> {
        let mut arguments = vec!["run".to_owned()];
        let mut add = |flag: &str, value: String| arguments.extend([flag.to_owned(), value]);
        match &self.config {
            Some(path) => add("--config", path.display().to_string()),
            None => {
                for listen in &self.listen {
                    add("--listen", listen.to_string());
                }
                for to in &self.to {
                    add("--to", to.clone());
                }
            }
        }
        for interface in &self.interfaces {
            add("--interface", interface.clone());
        }
        add("--workers", self.workers.to_string());
        let ebpf = match self.ebpf {
            Ebpf::Auto => "auto",
            Ebpf::Required => "required",
            Ebpf::Off => "off",
        };
        add("--ebpf", ebpf.to_owned());
        if !self.more.iter().any(|argument| argument == "--instance") {
            add("--instance", self.instance.name().to_owned());
        }
        arguments.extend(self.more.iter().cloned());
        arguments
    }
}
