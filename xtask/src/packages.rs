//! Debian packages the verbs need. Only what is missing is installed, with a word on what it is for, and installing
//! starts no daemon: neither now nor at the next boot.

use std::path::Path;

use anyhow::{Context, Result};

use crate::command::{run, target};
use crate::privilege::as_root;

/// A program, the package that brings it, and why we want it.
pub struct Wanted {
    /// On the path, or a file by its whole path.
    pub program: &'static str,
    pub package: &'static str,
    pub purpose: &'static str,
    /// The service the package would start, if it brings one.
    pub service: Option<&'static str>,
}

impl Wanted {
    pub const fn tool(program: &'static str, package: &'static str, purpose: &'static str) -> Self {
        Self {
            program,
            package,
            purpose,
            service: None,
        }
    }
}

const IP: Wanted = Wanted::tool("ip", "iproute2", "which makes the network namespaces");

const ETHTOOL: Wanted = Wanted::tool(
    "ethtool",
    "ethtool",
    "which has veth pairs finish their checksums",
);

/// What the demo needs.
pub const DEMO: &[Wanted] = &[IP];

const NGINX: Wanted = Wanted {
    program: "nginx",
    package: "nginx",
    purpose: "an endpoint of the tests, a peer in measurements",
    service: Some("nginx.service"),
};

/// What the end-to-end tests talk to Weir with.
pub const TESTS: &[Wanted] = &[
    IP,
    ETHTOOL,
    Wanted::tool("curl", "curl", "a client of the tests"),
    Wanted::tool("wrk", "wrk", "a client of the tests"),
    Wanted::tool("h2load", "nghttp2-client", "a client of the tests"),
    Wanted::tool(
        "python3",
        "python3",
        "its http.client is a client of the tests",
    ),
    NGINX,
];

/// Peers of the measurement.
pub const PEERS: &[Wanted] = &[
    NGINX,
    Wanted {
        program: "haproxy",
        package: "haproxy",
        purpose: "a peer in measurements",
        service: Some("haproxy.service"),
    },
    Wanted::tool(
        "/usr/lib/nginx/modules/ngx_stream_module.so",
        "libnginx-mod-stream",
        "nginx' part of measurements of connections",
    ),
    IP,
    ETHTOOL,
];

/// Installs what is missing of `wanted`. Without apt it only says what is missing: tests then skip, in words.
pub fn install(wanted: &[Wanted]) -> Result<()> {
    let missing: Vec<&Wanted> = wanted
        .iter()
        .filter(|want| !is_installed(want.program))
        .collect();
    if missing.is_empty() {
        return Ok(());
    }
    for want in &missing {
        eprintln!("missing {}, {}", want.program, want.purpose);
    }
    let names = missing.iter().map(|want| want.package);
    if !is_installed("apt-get") {
        let names = names.collect::<Vec<_>>().join(", ");
        eprintln!("no apt-get here: install by hand what Debian calls {names}");
        return Ok(());
    }
    eprintln!("installing from Debian, under a minute; nothing is started");
    let quiet = QuietServices::hold()?;
    let installed = apt_get(names.collect());
    drop(quiet);
    installed?;
    for service in missing.iter().filter_map(|want| want.service) {
        disable(service)?;
    }
    Ok(())
}

/// Whether a program is on the path, or where Debian keeps daemons, which is not on everyone's path.
pub fn is_installed(program: &str) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path)
        .chain(["/usr/sbin".into(), "/sbin".into()])
        .any(|directory| directory.join(program).is_file())
}

pub fn apt_get(packages: Vec<&str>) -> Result<()> {
    let command = || as_root("apt-get", "installing packages");
    let mut install = command()?;
    install
        .env("DEBIAN_FRONTEND", "noninteractive")
        .args(["install", "--yes", "-qq", "--no-install-recommends"])
        .args(&packages);
    if run(&mut install).is_ok() {
        return Ok(());
    }
    eprintln!("perhaps the package lists are old: updating them once");
    run(command()?.args(["update", "-qq"]))?;
    run(&mut install).with_context(|| format!("packages are missing: {}", packages.join(", ")))
}

/// Packages enable their service for the next boot even where starting is forbidden now.
fn disable(service: &str) -> Result<()> {
    if is_installed("systemctl") {
        run(as_root("systemctl", "disabling a service we installed")?
            .args(["--quiet", "disable", service]))?;
    }
    Ok(())
}

/// While it is held, Debian's maintainer scripts start nothing: `/usr/sbin/policy-rc.d` answers 101, "forbidden by
/// policy". A policy that is there already is left alone.
struct QuietServices {
    ours: bool,
}

const POLICY: &str = "/usr/sbin/policy-rc.d";
const PURPOSE: &str = "keeping packages from starting services";

impl QuietServices {
    fn hold() -> Result<Self> {
        if Path::new(POLICY).exists() {
            return Ok(Self { ours: false });
        }
        let draft = target().join("policy-rc.d");
        std::fs::write(&draft, "#!/bin/sh\nexit 101\n")
            .with_context(|| format!("cannot write {}", draft.display()))?;
        let mut place = as_root("install", PURPOSE)?;
        run(place.args(["--mode=755"]).arg(&draft).arg(POLICY))?;
        Ok(Self { ours: true })
    }
}

impl Drop for QuietServices {
    fn drop(&mut self) {
        if self.ours
            && let Err(error) = as_root("rm", PURPOSE).and_then(|mut rm| run(rm.arg(POLICY)))
        {
            eprintln!("remove {POLICY} by hand, it keeps services from starting: {error:#}");
        }
    }
}
