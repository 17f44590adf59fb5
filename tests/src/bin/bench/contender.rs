//! Who is measured, and how each is started: one worker on one core, upstream connections kept and used again, nothing
//! logged, no limit on requests a connection, endpoints taken in turn or by two choices as is their way.

use std::fmt::Write;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use clap::ValueEnum;
use weir_tests::instance::Instance;
use weir_tests::process::{Place, Process};
use weir_tests::skip::find;
use weir_tests::wait::becomes_some;

use crate::network::Network;

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, ValueEnum)]
pub enum Contender {
    /// With kernel programs.
    Weir,
    /// Measuring in user space only.
    WeirWithoutBpf,
    /// Our own relay of bytes on the same ring: the floor.
    Relay,
    Nginx,
    Haproxy,
}

#[derive(Clone, Debug, clap::Args)]
pub struct Programs {
    /// The weir binary.
    #[arg(long)]
    weir: Option<PathBuf>,
    /// The relay built from proxy/examples.
    #[arg(long)]
    relay: Option<PathBuf>,
    #[arg(skip)]
    configuration: PathBuf,
    #[arg(skip)]
    instance: Instance,
}

impl Programs {
    pub fn keep_configuration_in(&mut self, folder: &Path) {
        self.configuration = folder.to_owned();
    }
}

/// A contender that accepts connections.
pub struct Running {
    pub process: Process,
    pub address: SocketAddr,
}

impl Contender {
    pub fn name(self) -> &'static str {
        match self {
            Contender::Weir => "weir",
            Contender::WeirWithoutBpf => "weir, no BPF",
            Contender::Relay => "relay",
            Contender::Nginx => "nginx",
            Contender::Haproxy => "haproxy",
        }
    }

    /// Starts it in front of `endpoints`.
    pub fn start(
        self,
        programs: &Programs,
        network: &Network,
        endpoints: &[SocketAddr],
        place: &Place,
    ) -> Result<Running> {
        let address = network.listening_address()?;
        let mut command = self.command(programs, address, endpoints)?;
        if let (Contender::Weir, Some(interface)) = (self, network.interface()) {
            command.args(["--interface", interface]);
        }
        let mut process = Process::start(command, place)?;
        let accepts = becomes_some(Duration::from_secs(10), || {
            if !process.is_running() {
                return Some(false);
            }
            network.is_listened_on(address).then_some(true)
        });
        if accepts != Some(true) {
            bail!("{} does not listen:\n{}", self.name(), process.output());
        }
        Ok(Running { process, address })
    }

    fn command(
        self,
        programs: &Programs,
        address: SocketAddr,
        endpoints: &[SocketAddr],
    ) -> Result<Command> {
        let folder = &programs.configuration;
        match self {
            Contender::Weir => {
                let mut command = weir(programs, address, endpoints)?;
                command.args(["--ebpf", "required"]);
                Ok(command)
            }
            Contender::WeirWithoutBpf => {
                let mut command = weir(programs, address, endpoints)?;
                command.args(["--ebpf", "off"]);
                Ok(command)
            }
            Contender::Relay => {
                let program = programs.relay.as_ref().context("--relay is missing")?;
                Ok(listen_to(program, address, endpoints))
            }
            Contender::Nginx => {
                let file = write(folder, "nginx.conf", &nginx(folder, address, endpoints))?;
                let mut command = Command::new(find("nginx").context("nginx is missing")?);
                command.args(["-e", "stderr", "-p"]).arg(folder);
                command.arg("-c").arg(file);
                Ok(command)
            }
            Contender::Haproxy => {
                let file = write(folder, "haproxy.cfg", &haproxy(address, endpoints))?;
                let mut command = Command::new(find("haproxy").context("haproxy is missing")?);
                command.arg("-db").arg("-f").arg(file);
                Ok(command)
            }
        }
    }
}

fn weir(programs: &Programs, address: SocketAddr, endpoints: &[SocketAddr]) -> Result<Command> {
    let program = programs.weir.as_ref().context("--weir is missing")?;
    let mut command = Command::new(program);
    command.arg("run");
    add_addresses(&mut command, address, endpoints);
    command.args(["--workers", "1", "--instance", programs.instance.name()]);
    command.args(["--admin", "off", "--metrics", "off", "--readiness", "off"]);
    Ok(command)
}

fn listen_to(program: &Path, address: SocketAddr, endpoints: &[SocketAddr]) -> Command {
    let mut command = Command::new(program);
    add_addresses(&mut command, address, endpoints);
    command
}

fn add_addresses(command: &mut Command, address: SocketAddr, endpoints: &[SocketAddr]) {
    command.arg("--listen").arg(address.to_string());
    for endpoint in endpoints {
        command.arg("--to").arg(endpoint.to_string());
    }
}

/// Buffers hold a large body without a file; one process, so that its whole cost is one process' run time.
fn nginx(folder: &Path, address: SocketAddr, endpoints: &[SocketAddr]) -> String {
    let mut servers = String::new();
    for endpoint in endpoints {
        let _ = writeln!(servers, "    server {endpoint};");
    }
    let temporary: String = ["client_body", "proxy", "fastcgi", "uwsgi", "scgi"]
        .map(|kind| format!("  {kind}_temp_path {}/{kind};\n", folder.display()))
        .concat();
    format!(
        "daemon off;\nmaster_process off;\nworker_processes 1;\nerror_log stderr crit;\npid {}/nginx.pid;\n\
         events {{ worker_connections 16384; }}\n\
         http {{\n{temporary}  access_log off;\n  keepalive_requests 1000000000;\n  keepalive_timeout 3600s;\n  \
         tcp_nodelay on;\n  proxy_buffer_size 16k;\n  proxy_buffers 16 16k;\n  proxy_busy_buffers_size 64k;\n  \
         proxy_max_temp_file_size 0;\n  \
         upstream endpoints {{\n{servers}    keepalive 1024;\n    keepalive_requests 1000000000;\n    \
         keepalive_timeout 3600s;\n  }}\n  \
         server {{\n    listen {address} backlog=4096;\n    location / {{\n      proxy_pass http://endpoints;\n      \
         proxy_http_version 1.1;\n      proxy_set_header Connection \"\";\n    }}\n  }}\n}}\n",
        folder.display()
    )
}

fn haproxy(address: SocketAddr, endpoints: &[SocketAddr]) -> String {
    let mut servers = String::new();
    for (number, endpoint) in endpoints.iter().enumerate() {
        let _ = writeln!(servers, "  server endpoint{number} {endpoint}");
    }
    format!(
        "global\n  nbthread 1\n  maxconn 8000\n\
         defaults\n  mode http\n  http-reuse always\n  timeout connect 5s\n  timeout client 1h\n  timeout server 1h\n  \
         timeout http-keep-alive 1h\n\
         frontend clients\n  bind {address} backlog 4096\n  default_backend endpoints\n\
         backend endpoints\n  balance roundrobin\n{servers}"
    )
}

fn write(folder: &Path, name: &str, text: &str) -> Result<PathBuf> {
    let file = folder.join(name);
    std::fs::write(&file, text).with_context(|| format!("cannot write {}", file.display()))?;
    // The programs are started elsewhere than we were.
    file.canonicalize().context("just written")
}
