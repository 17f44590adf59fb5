//! Who carries connections, and how each is started: one worker, two endpoints, nothing logged.

use std::net::{IpAddr, SocketAddr};
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use clap::ValueEnum;
use weir_tests::documents;
use weir_tests::process::Process;
use weir_tests::skip::find;
use weir_tests::stream;
use weir_tests::wait::becomes_true;
use weir_tests::weir::{Ebpf, Options, Weir};

use super::Arguments;
use super::hosts::{Hosts, PORT};

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, ValueEnum)]
pub enum Contender {
    /// Nobody: the client reaches an endpoint through the host in the middle.
    Router,
    /// In the kernel.
    WeirXdp,
    /// The relay in user space.
    WeirRelay,
    /// Its stream module.
    Nginx,
    /// Its mode tcp.
    Haproxy,
    /// A router that measures: programs on its interfaces see every packet, and none is for them.
    #[value(skip)]
    RouterTcx,
    #[value(skip)]
    RouterXdpNative,
    #[value(skip)]
    RouterXdpGeneric,
}

/// A contender that carries connections.
pub struct Running {
    /// Where the client goes, by port.
    pub target: IpAddr,
    pub process: Option<u32>,
    kept: Kept,
}

enum Kept {
    Nothing,
    Process(Process),
    Weir(Box<Weir>),
}

impl Running {
    pub fn output(&self) -> String {
        match &self.kept {
            Kept::Nothing => String::new(),
            Kept::Process(process) => process.output(),
            Kept::Weir(weir) => weir.process.output(),
        }
    }
}

impl Contender {
    pub const ALL: [Self; 5] = [
        Self::Router,
        Self::WeirXdp,
        Self::WeirRelay,
        Self::Nginx,
        Self::Haproxy,
    ];
    /// Programs on and off: what they take of traffic that is none of theirs.
    pub const ON_THE_WAY: [Self; 3] = [
        Self::RouterTcx,
        Self::RouterXdpNative,
        Self::RouterXdpGeneric,
    ];

    pub fn name(self) -> &'static str {
        match self {
            Self::Router => "router",
            Self::WeirXdp => "weir, XDP",
            Self::WeirRelay => "weir, relay",
            Self::Nginx => "nginx stream",
            Self::Haproxy => "haproxy tcp",
            Self::RouterTcx => "router, tcx",
            Self::RouterXdpNative => "router, tcx, XDP native",
            Self::RouterXdpGeneric => "router, tcx, XDP generic",
        }
    }

    /// Whether the hosts around may leave checksums and segmentation to their interfaces.
    pub fn takes_offload(self) -> bool {
        self != Self::WeirXdp
    }

    /// Starts it between client and endpoints, for connections to ports `PORT` and above.
    pub fn start(self, arguments: &Arguments, hosts: &Hosts) -> Result<Running> {
        let endpoint = hosts.endpoints()[0];
        let kept = match self {
            Self::Router => Kept::Nothing,
            Self::WeirXdp => weir(arguments, hosts, &["--l4", "xdp"])?,
            Self::WeirRelay => weir(arguments, hosts, &["--l4", "proxy"])?,
            Self::RouterTcx => weir(arguments, hosts, &["--l4", "proxy", "--xdp", "off"])?,
            Self::RouterXdpNative => on_all(arguments, hosts, "native")?,
            Self::RouterXdpGeneric => on_all(arguments, hosts, "generic")?,
            Self::Nginx => {
                let module = "/usr/lib/nginx/modules/ngx_stream_module.so";
                if !std::path::Path::new(module).exists() {
                    bail!("nginx has no stream module: Debian has it in libnginx-mod-stream");
                }
                let file = arguments.out.join("nginx-stream.conf");
                std::fs::write(&file, nginx(module, arguments, hosts))?;
                let mut command = Command::new(find("nginx").context("nginx is missing")?);
                command.args(["-e", "stderr", "-p"]).arg(&arguments.out);
                command.arg("-c").arg(file);
                Kept::Process(Process::start(command, &hosts.proxy())?)
            }
            Self::Haproxy => {
                let file = arguments.out.join("haproxy-tcp.cfg");
                std::fs::write(&file, haproxy(hosts))?;
                let mut command = Command::new(find("haproxy").context("haproxy is missing")?);
                command.arg("-db").arg("-f").arg(file);
                Kept::Process(Process::start(command, &hosts.proxy())?)
            }
        };
        let process = match &kept {
            Kept::Nothing => None,
            Kept::Process(process) => Some(process.id()),
            Kept::Weir(weir) => Some(weir.process.id()),
        };
        let is_on_the_way = self == Self::Router || Self::ON_THE_WAY.contains(&self);
        let running = Running {
            target: if is_on_the_way { endpoint } else { hosts.vip() },
            process,
            kept,
        };
        running.wait_until_it_carries(self, hosts)?;
        Ok(running)
    }
}

impl Running {
    fn wait_until_it_carries(&self, contender: Contender, hosts: &Hosts) -> Result<()> {
        let client = hosts.client();
        let target = SocketAddr::new(self.target, PORT);
        let carries = || {
            let before = self.opened_in_the_kernel();
            let is_connected = (0..4).all(|_| stream::connect(&client, target).is_ok());
            // Until the kernel knows who has the endpoints' addresses, the relay serves.
            let expected = if contender == Contender::WeirXdp {
                4.0
            } else {
                0.0
            };
            is_connected && self.opened_in_the_kernel() >= before + expected
        };
        match becomes_true(Duration::from_secs(10), carries) {
            true => Ok(()),
            false => bail!("{} carries nothing:\n{}", contender.name(), self.output()),
        }
    }

    fn opened_in_the_kernel(&self) -> f64 {
        let Kept::Weir(weir) = &self.kept else {
            return 0.0;
        };
        let metrics = weir.metrics().unwrap_or_default();
        let opened = metrics.sum("weir_ebpf_packets_total", &[("reason", "opened")]);
        opened.unwrap_or(0.0)
    }
}

fn on_all(arguments: &Arguments, hosts: &Hosts, mode: &str) -> Result<Kept> {
    let mut more = vec!["--l4", "proxy", "--xdp", mode];
    let interfaces = hosts.star.interfaces();
    for interface in &interfaces {
        more.extend(["--xdp-interface", interface]);
    }
    weir(arguments, hosts, &more)
}

fn weir(arguments: &Arguments, hosts: &Hosts, more: &[&str]) -> Result<Kept> {
    let file = arguments.out.join("l4.yaml");
    let both = [PORT, PORT + 1].map(|port| {
        let listen = SocketAddr::new(hosts.vip(), port);
        documents::tcp(listen, hosts.endpoints())
    });
    std::fs::write(&file, both.concat())?;
    let options = Options {
        binary: Some(arguments.weir.clone()),
        config: Some(file),
        more: more.iter().map(|&more| more.to_owned()).collect(),
        ..Options::new(SocketAddr::new(hosts.vip(), PORT), [])
    };
    let options = match more.contains(&"--xdp") {
        true => options.measured_on(hosts.star.interfaces()),
        false => Options {
            ebpf: Ebpf::Required,
            ..options
        },
    };
    let weir = Weir::start(&hosts.proxy(), &options)?;
    Ok(Kept::Weir(Box::new(weir)))
}

fn nginx(module: &str, arguments: &Arguments, hosts: &Hosts) -> String {
    let serve = |port: u16| {
        let servers: String = hosts
            .endpoints()
            .iter()
            .map(|address| format!("server {address}:{port}; "))
            .collect();
        format!(
            "  upstream at{port} {{ {servers} }}\n  \
             server {{ listen {}:{port} backlog=4096; proxy_pass at{port}; tcp_nodelay on; }}\n",
            hosts.vip()
        )
    };
    format!(
        "load_module {module};\ndaemon off;\nmaster_process off;\nworker_processes 1;\nerror_log stderr crit;\n\
         pid {}/nginx-stream.pid;\nevents {{ worker_connections 16384; }}\nstream {{\n  access_log off;\n{}{}}}\n",
        arguments.out.display(),
        serve(PORT),
        serve(PORT + 1)
    )
}

fn haproxy(hosts: &Hosts) -> String {
    let serve = |port: u16| {
        let servers: String = (0..)
            .zip(hosts.endpoints())
            .map(|(number, address)| format!("  server endpoint{number} {address}:{port}\n"))
            .collect();
        format!(
            "listen at{port}\n  bind {}:{port} backlog 4096\n  balance roundrobin\n{servers}",
            hosts.vip()
        )
    };
    format!(
        "global\n  nbthread 1\n  maxconn 8000\n\
         defaults\n  mode tcp\n  timeout connect 5s\n  timeout client 1h\n  timeout server 1h\n{}{}",
        serve(PORT),
        serve(PORT + 1)
    )
}
