//! Files through Weir by curl, byte for byte in both directions: through the HTTP proxy, the relay, and the kernel; with
//! packets of 1,500 bytes and jumbo frames of 9,000; over IPv4 and IPv6; with TCP's timestamps, as everywhere.
//!
//! `WEIR_TEST_TRANSFER` is how long a file is, in bytes, where 64 MiB are not enough.

use std::io::{self, Read, Write};
use std::net::SocketAddr;
use std::process::{Command, Stdio};
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use weir_tests::documents;
use weir_tests::editing::Folder;
use weir_tests::endpoint::Endpoint;
use weir_tests::endpoint::scripts::{pattern_bodies, script};
use weir_tests::pattern;
use weir_tests::process::Place;
use weir_tests::scenario::PORT;
use weir_tests::skip::{Need, can_run};
use weir_tests::topology::{Peer, Star};
use weir_tests::wait::becomes_true;
use weir_tests::weir::{Ebpf, Options, Weir, run_to_end};

const NEEDS: &[Need] = &[Need::Root, Need::Program("curl"), Need::Program("ethtool")];
const USUAL: u64 = 64 << 20;
const VARIABLE: &str = "WEIR_TEST_TRANSFER";

/// Who carries the bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Way {
    Http,
    Relay,
    Kernel,
}

#[test]
fn files_pass_the_http_proxy_both_ways_in_packets_of_every_size() -> Result<()> {
    files_pass(Way::Http)
}

#[test]
fn files_pass_the_relay_both_ways_in_packets_of_every_size() -> Result<()> {
    files_pass(Way::Relay)
}

#[test]
fn files_pass_the_kernel_both_ways_in_packets_of_every_size() -> Result<()> {
    files_pass(Way::Kernel)
}

fn files_pass(way: Way) -> Result<()> {
    if !can_run(NEEDS) {
        return Ok(());
    }
    let length = match std::env::var(VARIABLE) {
        Ok(length) => length.parse().context(VARIABLE)?,
        Err(_) => USUAL,
    };
    for mtu in [1500, 9000] {
        for is_v6 in [false, true] {
            let stage = Stage::new(way, mtu, is_v6)?;
            let passed = stage.download(length).and_then(|()| stage.upload(length));
            passed.with_context(|| format!("{way:?}, MTU {mtu}, IPv6: {is_v6}"))?;
            if way == Way::Kernel {
                let least = 2 * length / mtu;
                let forwarded = stage.packets("forwarded");
                ensure!(forwarded >= least as f64, "{forwarded} packets");
                // Nobody keeps segments together: the packets were as large as they may be.
                let packet = stage.mean_packet()?;
                ensure!(
                    packet > mtu / 2 && packet <= mtu + 14,
                    "MTU {mtu}: packets of {packet} bytes"
                );
            }
        }
    }
    Ok(())
}

struct Stage {
    weir: Weir,
    _endpoint: Endpoint,
    _folder: Folder,
    star: Star,
}

impl Stage {
    fn new(way: Way, mtu: u64, is_v6: bool) -> Result<Self> {
        let star = Star::new(1)?;
        let proxy = star.proxy.place();
        for peer in [&star.client, &star.endpoints[0]] {
            let (ours, theirs) = (&star.proxy, &peer.namespace);
            ours.ip(&format!("link set {} mtu {mtu}\n", peer.interface))?;
            theirs.ip(&format!("link set eth0 mtu {mtu}\n"))?;
            if way == Way::Kernel {
                whole_packets(peer)?;
            }
        }
        let timestamps = std::fs::read_to_string("/proc/sys/net/ipv4/tcp_timestamps")?;
        ensure!(timestamps.trim() == "1", "TCP has its timestamps");
        let (vip, endpoint) = match is_v6 {
            true => (star.client.gateway_v6(), star.endpoints[0].address_v6()),
            false => (star.client.gateway(), star.endpoints[0].address()),
        };
        let at = star.endpoints[0].namespace.place();
        let server = Endpoint::start(&at, (endpoint, PORT), script(pattern_bodies))?;
        let folder = Folder::new()?;
        let mut options = Options::new(SocketAddr::new(vip, PORT), [server.address()]);
        if way != Way::Http {
            let file = folder.write("weir.yaml", &documents::tcp(options.listen[0], [endpoint]))?;
            options.config = Some(file);
        }
        if way == Way::Kernel {
            options.ebpf = Ebpf::Required;
            options.more = ["--l4", "xdp"].map(str::to_owned).into();
            forward(&proxy)?;
        }
        let stage = Self {
            weir: Weir::start(&proxy, &options)?,
            _endpoint: server,
            _folder: folder,
            star,
        };
        // Until the kernel knows who has the endpoint's address, the relay serves.
        let is_served = || stage.download(1).is_ok() && stage.packets("opened") > 0.0;
        ensure!(
            way != Way::Kernel || becomes_true(Duration::from_secs(10), is_served),
            "the kernel does not serve:\n{}",
            stage.weir.process.output()
        );
        Ok(stage)
    }

    fn packets(&self, reason: &str) -> f64 {
        let metrics = self.weir.metrics().unwrap_or_default();
        let packets = metrics.sum("weir_ebpf_packets_total", &[("reason", reason)]);
        packets.unwrap_or_default()
    }

    /// By curl, whose output is looked at as it comes.
    fn download(&self, length: u64) -> Result<()> {
        let mut child = self.curl(&format!("/{length}"), &[])?.spawn()?;
        let mut stdout = child.stdout.take().context("piped")?;
        let mut block = vec![0; 64 * 1024];
        let mut received = 0;
        loop {
            let count = stdout.read(&mut block)?;
            if count == 0 {
                break;
            }
            let right = pattern::is_at(received, &block[..count]);
            ensure!(right, "a wrong byte after {received}");
            received += count as u64;
        }
        ensure!(child.wait()?.success(), "curl failed after {received}");
        ensure!(received == length, "{received} bytes came");
        Ok(())
    }

    /// By curl, whose input is made as it reads. The endpoint answers with how many bytes were right.
    fn upload(&self, length: u64) -> Result<()> {
        let more = ["--request", "POST", "--upload-file", "-"];
        let mut child = self.curl("/", &more)?.stdin(Stdio::piped()).spawn()?;
        let mut stdin = child.stdin.take().context("piped")?;
        let writing = std::thread::spawn(move || -> io::Result<()> {
            let mut sent = 0;
            while sent < length {
                let left = usize::try_from(length - sent).unwrap_or(usize::MAX);
                let piece = pattern::at(sent, left);
                stdin.write_all(piece)?;
                sent += piece.len() as u64;
            }
            Ok(())
        });
        let output = child.wait_with_output()?;
        writing.join().expect("no panic").context("curl reads")?;
        let right = String::from_utf8_lossy(&output.stdout);
        ensure!(output.status.success(), "curl failed: {right}");
        ensure!(right == length.to_string(), "{right} bytes were right");
        Ok(())
    }

    fn curl(&self, path: &str, more: &[&str]) -> Result<Command> {
        let mut curl = Command::new("curl");
        curl.args(["--silent", "--show-error", "--fail", "--max-time", "300"]);
        curl.args(more);
        curl.arg(format!("http://{}{path}", self.weir.listen));
        self.star.client.namespace.place().prepare(&mut curl);
        curl.stdout(Stdio::piped());
        Ok(curl)
    }

    /// Bytes of a packet on the way to the endpoint or from it, of whichever direction has more of them.
    fn mean_packet(&self) -> Result<u64> {
        let place = self.star.endpoints[0].namespace.place();
        let text = place.run(|| std::fs::read_to_string("/proc/thread-self/net/dev"))?;
        let line = text
            .lines()
            .find_map(|line| line.trim().strip_prefix("eth0:"));
        let figures: Vec<u64> = line
            .context("it is there")?
            .split_whitespace()
            .filter_map(|figure| figure.parse().ok())
            .collect();
        // Bytes and packets received come first, those sent from the ninth on.
        let mean = |at: usize| figures[at] / figures[at + 1].max(1);
        Ok(mean(0).max(mean(8)))
    }
}

/// On a veth pair nobody finishes checksums or cuts segments, and nothing takes what XDP sends.
fn whole_packets(peer: &Peer) -> Result<()> {
    let mut ethtool = Command::new("ethtool");
    ethtool.args(["-K", "eth0", "tx", "off", "tso", "off", "gro", "on"]);
    let output = run_to_end(ethtool, &peer.namespace.place())?;
    ensure!(output.status.success(), "ethtool refuses: {output:?}");
    Ok(())
}

fn forward(place: &Place) -> Result<()> {
    for family in ["ipv4", "ipv6"] {
        let switch = format!("/proc/sys/net/{family}/conf/all/forwarding");
        place.run(|| std::fs::write(switch, "1"))?;
    }
    Ok(())
}
