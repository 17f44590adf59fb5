//! `bench`: builds the contenders of ours, installs the others, and hands over to the rig in the tests crate. What takes
//! the proxy's insides is a benchmark beside its code.

use std::process::Command;

use anyhow::Result;
use clap::Subcommand;

use crate::build::{build, kernel, release};
use crate::command::{cargo, run, target};
use crate::packages::{PEERS, install};
use crate::privilege::{as_root, run_as_root};

#[derive(clap::Args)]
pub struct Arguments {
    #[command(subcommand)]
    subject: Subject,
}

#[derive(Subcommand)]
enum Subject {
    /// CPU per request, rate, latency and memory of HTTP/1.1 proxies, side by side. `-- --help` lists the rig's options.
    Http {
        #[arg(last = true, value_name = "RIG ARGUMENTS")]
        rig: Vec<String>,
        /// Fewer and shorter rounds: good enough to see a large difference.
        #[arg(long)]
        quick: bool,
        /// Only what kernel programs cost a request: Weir with them and without, in turn, over veth pairs.
        #[arg(long)]
        ebpf_cost: bool,
    },
    /// Nanoseconds per pick, by two choices and by rendezvous hashing, of 1 to 10,000 endpoints, and per affinity key;
    /// milliseconds and memory of a configuration of 10,000 endpoints.
    Pick,
    /// Nanoseconds per packet in each kernel program, by the packets of the tests' tables.
    Kernel,
    /// Run time per connection of L4 proxies, side by side between network namespaces, and what a transfer takes with
    /// kernel programs and without. `-- --help` lists the rig's options, `-- --soak 1000000` among them.
    L4 {
        #[arg(last = true, value_name = "RIG ARGUMENTS")]
        rig: Vec<String>,
    },
    /// Which worker new connections come to while one of two is held up, by load and by the kernel's hash.
    Steering {
        #[arg(last = true, value_name = "RIG ARGUMENTS")]
        rig: Vec<String>,
    },
}

pub fn bench(arguments: Arguments) -> Result<()> {
    let (rig, quick, ebpf_cost) = match arguments.subject {
        Subject::Http {
            rig,
            quick,
            ebpf_cost,
        } => (rig, quick, ebpf_cost),
        Subject::L4 { rig } => return l4(&rig),
        Subject::Steering { rig } => return run(namespaced("steering")?.args(rig)),
        Subject::Pick => return run(&mut ours("pick")),
        Subject::Kernel => {
            kernel()?;
            let mut bench = ours("kernel");
            // All the time is the kernel's: a build that takes long makes nothing faster.
            bench.args(["--profile", "dev"]);
            run_as_root(&mut bench, "loading kernel programs")?;
            return run(&mut bench);
        }
    };
    install(PEERS)?;
    build()?;
    release(&["--package", "weir", "--example", "relay"])?;
    let built = release(&["--package", "weir-tests", "--bin", "bench"])?;
    let mut bench = as_root(built.join("bench"), "attaching kernel programs to loopback")?;
    bench
        .arg("http")
        .args([
            "--weir".into(),
            built.join("weir"),
            "--relay".into(),
            built.join("examples/relay"),
        ])
        .arg("--out")
        .arg(target().join("bench"));
    if quick {
        bench.arg("--quick");
    }
    if ebpf_cost {
        bench.arg("--ebpf-cost");
    }
    run(bench.args(rig))
}

fn l4(rig: &[String]) -> Result<()> {
    install(PEERS)?;
    let mut bench = namespaced("l4")?;
    bench.arg("--out").arg(target().join("bench"));
    run(bench.args(rig))
}

/// A subject of the rig that makes hosts of its own, with what it measures built.
fn namespaced(subject: &str) -> Result<Command> {
    build()?;
    let built = release(&["--package", "weir-tests", "--bin", "bench"])?;
    let mut bench = as_root(built.join("bench"), "making network namespaces")?;
    bench.arg(subject).arg("--weir").arg(built.join("weir"));
    Ok(bench)
}

/// One of the benchmarks beside the proxy's code.
fn ours(name: &str) -> Command {
    let mut bench = cargo();
    bench.args(["bench", "--package", "weir", "--bench", name]);
    bench
}
