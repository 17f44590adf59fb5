//! L4 services in the kernel: connections that no worker sees, on the way to endpoints a worker would have picked.

use std::io::{self, Read, Write};
use std::net::{IpAddr, SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

use anyhow::{Result, ensure};
use rustix::process::Signal;
use weir_tests::client::Client;
use weir_tests::editing::Folder;
use weir_tests::namespace::Namespace;
use weir_tests::seccomp::refuse;
use weir_tests::skip::{Need, can_run};
use weir_tests::topology::{Peer, Star};
use weir_tests::wait::becomes_true;
use weir_tests::weir::{Ebpf, Options, Weir, run_to_end};

const NEEDS: &[Need] = &[Need::Root, Need::Program("ethtool")];
const PATIENCE: Duration = Duration::from_secs(10);
const PORT: u16 = 5432;
const FILE: &str = "weir.yaml";

/// Answers what it reads, byte by byte the next one, and greets with its number.
struct Echo {
    served: Arc<AtomicU64>,
}

impl Echo {
    fn start(host: &Namespace, address: IpAddr, number: u8) -> Result<Self> {
        let served = Arc::new(AtomicU64::new(0));
        let place = host.place();
        let listener = place.run(|| TcpListener::bind((address, PORT)))?;
        let datagrams = place.run(|| UdpSocket::bind((address, PORT)))?;
        let count = served.clone();
        // Both end with the test's process.
        thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                count.fetch_add(1, Ordering::Relaxed);
                thread::spawn(move || echo(stream, number));
            }
        });
        thread::spawn(move || {
            let mut bytes = [0; 2048];
            while let Ok((length, from)) = datagrams.recv_from(&mut bytes) {
                let _ = datagrams.send_to(&bytes[..length], from);
            }
        });
        Ok(Self { served })
    }

    fn served(&self) -> u64 {
        self.served.load(Ordering::Relaxed)
    }
}

fn echo(mut stream: TcpStream, number: u8) -> io::Result<()> {
    stream.write_all(&[number])?;
    let mut bytes = [0; 16 * 1024];
    loop {
        match stream.read(&mut bytes)? {
            0 => return Ok(()),
            length => stream.write_all(&bytes[..length])?,
        }
    }
}

struct Stage {
    weir: Weir,
    options: Options,
    echoes: Vec<Echo>,
    folder: Folder,
    star: Star,
    vip: SocketAddr,
}

/// Endpoints behind a TCPRoute and a UDPRoute. `is_v6` is about all of it.
fn stage(endpoints: u8, is_v6: bool) -> Result<Stage> {
    let star = Star::new(endpoints)?;
    for family in ["ipv4", "ipv6"] {
        let switch = format!("/proc/sys/net/{family}/conf/all/forwarding");
        star.proxy.place().run(|| std::fs::write(switch, "1"))?;
    }
    let hosts = || std::iter::once(&star.client).chain(&star.endpoints);
    for peer in hosts() {
        // On a veth pair nobody finishes checksums, and nothing takes what XDP sends.
        ethtool(&peer.namespace)?;
    }
    let address = |peer: &Peer| match is_v6 {
        true => peer.address_v6(),
        false => peer.address(),
    };
    let echoes = star.endpoints.iter().zip(1..);
    let echoes = echoes.map(|(peer, number)| Echo::start(&peer.namespace, address(peer), number));
    let echoes = echoes.collect::<Result<Vec<_>>>()?;
    let vip = match is_v6 {
        true => star.client.gateway_v6(),
        false => star.client.gateway(),
    };
    let vip = SocketAddr::new(vip, PORT);
    let folder = Folder::new()?;
    let all: Vec<IpAddr> = star.endpoints.iter().map(address).collect();
    let mut options = Options::new(vip, []);
    options.config = Some(folder.write(FILE, &documents(vip, &all))?);
    options.ebpf = Ebpf::Required;
    options.more = ["--l4", "xdp"].map(str::to_owned).into();
    let weir = Weir::start(&star.proxy.place(), &options)?;
    let stage = Stage {
        weir,
        options,
        echoes,
        folder,
        star,
        vip,
    };
    // Until the kernel knows who has the endpoints' addresses, the relay serves.
    let is_served = || {
        let before = stage.packets("opened");
        let connects = (0..8).all(|_| stage.connect().is_ok());
        connects && stage.packets("opened") >= before + 8.0
    };
    ensure!(
        becomes_true(PATIENCE, is_served),
        "not served: {}",
        stage.weir.process.output()
    );
    Ok(stage)
}

fn ethtool(host: &Namespace) -> Result<()> {
    let mut command = Command::new("ethtool");
    command.args(["-K", "eth0", "tx", "off", "tso", "off", "gro", "on"]);
    run_to_end(command, &host.place())?;
    Ok(())
}

fn documents(vip: SocketAddr, endpoints: &[IpAddr]) -> String {
    let family = if vip.is_ipv4() { "IPv4" } else { "IPv6" };
    let addresses: Vec<String> = endpoints
        .iter()
        .map(|address| format!("- {{addresses: [\"{address}\"]}}"))
        .collect();
    format!(
        "apiVersion: gateway.networking.k8s.io/v1
kind: Gateway
metadata: {{name: gate}}
spec:
  addresses: [{{value: \"{}\"}}]
  listeners: [{{name: raw, port: {PORT}, protocol: TCP}}, {{name: grams, port: {PORT}, protocol: UDP}}]
---
apiVersion: gateway.networking.k8s.io/v1alpha2
kind: TCPRoute
metadata: {{name: raw}}
spec:
  parentRefs: [{{name: gate, sectionName: raw}}]
  rules: [{{backendRefs: [{{name: echo, port: {PORT}}}]}}]
---
apiVersion: gateway.networking.k8s.io/v1alpha2
kind: UDPRoute
metadata: {{name: grams}}
spec:
  parentRefs: [{{name: gate, sectionName: grams}}]
  rules: [{{backendRefs: [{{name: echo, port: {PORT}}}]}}]
---
apiVersion: v1
kind: Service
metadata: {{name: echo}}
spec:
  ports: [{{name: raw, port: {PORT}}}, {{name: grams, port: {PORT}, protocol: UDP}}]
---
apiVersion: discovery.k8s.io/v1
kind: EndpointSlice
metadata:
  name: echo-1
  labels: {{kubernetes.io/service-name: echo}}
addressType: {family}
ports: [{{name: raw, port: {PORT}}}, {{name: grams, port: {PORT}, protocol: UDP}}]
endpoints:
{}
",
        vip.ip(),
        addresses.join("\n")
    )
}

impl Stage {
    /// A connection from the client's host, and the number of the endpoint that took it.
    fn connect(&self) -> io::Result<(TcpStream, u8)> {
        let place = self.star.client.namespace.place();
        let mut stream = place.run(|| TcpStream::connect_timeout(&self.vip, PATIENCE))?;
        stream.set_read_timeout(Some(PATIENCE))?;
        stream.set_write_timeout(Some(PATIENCE))?;
        let mut number = [0];
        stream.read_exact(&mut number)?;
        Ok((stream, number[0]))
    }

    fn packets(&self, reason: &str) -> f64 {
        let metrics = self.weir.metrics().unwrap_or_default();
        let packets = metrics.sum("weir_ebpf_packets_total", &[("reason", reason)]);
        packets.unwrap_or_default()
    }
}

/// Sends so many bytes and wants them back, every one of them.
fn exchange(stream: &TcpStream, length: usize) -> io::Result<bool> {
    let bytes: Vec<u8> = (0..length)
        .map(|place| (place * 7 + place / 251) as u8)
        .collect();
    let (mut writer, sent) = (stream.try_clone()?, bytes.clone());
    let writing = thread::spawn(move || writer.write_all(&sent));
    let mut back = vec![0; length];
    let mut reader = stream;
    reader.read_exact(&mut back)?;
    writing.join().expect("no panic")?;
    Ok(back == bytes)
}

#[test]
fn connections_and_datagrams_of_both_families_come_and_go_unharmed() -> Result<()> {
    if !can_run(NEEDS) {
        return Ok(());
    }
    for is_v6 in [false, true] {
        let stage = stage(2, is_v6)?;
        let mut numbers = Vec::new();
        for _ in 0..40 {
            let (stream, number) = stage.connect()?;
            assert!(exchange(&stream, 3000)?);
            numbers.push(number);
        }
        assert!(numbers.contains(&1) && numbers.contains(&2), "{numbers:?}");
        let (stream, _) = stage.connect()?;
        assert!(exchange(&stream, 8 << 20)?, "a byte is wrong");
        assert!(stage.packets("opened") >= 41.0);
        assert!(stage.packets("forwarded") > 1000.0);

        let place = stage.star.client.namespace.place();
        let any = if is_v6 { "[::]:0" } else { "0.0.0.0:0" };
        let socket = place.run(|| UdpSocket::bind(any))?;
        socket.set_read_timeout(Some(PATIENCE))?;
        for length in [0, 1, 700, 1400] {
            let sent = vec![length as u8; length];
            socket.send_to(&sent, stage.vip)?;
            let mut back = [0; 2048];
            let (received, from) = socket.recv_from(&mut back)?;
            assert_eq!((&back[..received], from), (&sent[..], stage.vip));
        }
    }
    Ok(())
}

#[test]
fn a_client_whose_link_address_is_forgotten_is_served_and_no_endpoint_blamed() -> Result<()> {
    if !can_run(NEEDS) {
        return Ok(());
    }
    let stage = stage(2, false)?;
    let dropped = stage.packets("no_neighbour");
    for _ in 0..4 {
        let address = stage.star.client.address().to_string();
        let mut command = Command::new("ip");
        command.args(["neigh", "flush", "to", &address]);
        run_to_end(command, &stage.star.proxy.place())?;
        // The kernel may learn the address from what the client asks meanwhile; programs know the way for 10 ms more.
        thread::sleep(Duration::from_millis(30));
        let (stream, _) = stage.connect()?;
        assert!(exchange(&stream, 3000)?);
    }
    assert!(
        stage.packets("no_neighbour") > dropped,
        "nothing was missing"
    );
    let health = stage.weir.metrics()?.sum("weir_endpoint_health", &[]);
    assert_eq!(health, Some(2.0), "of both endpoints together");
    Ok(())
}

#[test]
fn a_kill_and_a_start_break_no_connection() -> Result<()> {
    if !can_run(NEEDS) {
        return Ok(());
    }
    let mut stage = stage(2, false)?;
    let (stream, _) = stage.connect()?;
    assert!(exchange(&stream, 100_000)?);
    stage.weir.process.signal(Signal::KILL)?;
    stage.weir.process.wait(PATIENCE)?;
    assert!(exchange(&stream, 100_000)?, "nobody runs");
    let (between, _) = stage.connect()?;
    assert!(exchange(&between, 1000)?, "new ones go by the last table");
    stage.weir = Weir::start(&stage.star.proxy.place(), &stage.options)?;
    assert!(exchange(&stream, 100_000)? && exchange(&between, 1000)?);
    assert!(becomes_true(PATIENCE, || stage.connect().is_ok()));
    Ok(())
}

#[test]
fn an_orderly_stop_and_a_start_break_no_connection() -> Result<()> {
    if !can_run(NEEDS) {
        return Ok(());
    }
    let mut stage = stage(2, false)?;
    let (stream, _) = stage.connect()?;
    assert!(exchange(&stream, 100_000)?);
    assert!(stage.weir.process.stop(PATIENCE)?.success());
    assert!(exchange(&stream, 100_000)?, "nobody runs");
    assert!(stage.connect().is_err(), "nobody serves");
    stage.weir = Weir::start(&stage.star.proxy.place(), &stage.options)?;
    assert!(exchange(&stream, 100_000)?);
    assert!(becomes_true(PATIENCE, || stage.connect().is_ok()));
    Ok(())
}

#[test]
fn a_takeover_breaks_no_connection() -> Result<()> {
    if !can_run(NEEDS) {
        return Ok(());
    }
    let mut stage = stage(2, false)?;
    let standing: Vec<_> = (0..8).map(|_| stage.connect()).collect::<Result<_, _>>()?;
    for (stream, _) in &standing {
        assert!(exchange(stream, 10_000)?);
    }
    for _ in 0..2 {
        let next = Weir::take_over(&stage.star.proxy.place(), &stage.options)?;
        let mut older = std::mem::replace(&mut stage.weir, next);
        for (stream, _) in &standing {
            assert!(exchange(stream, 10_000)?, "while the older one leaves");
        }
        let (between, _) = stage.connect()?;
        assert!(exchange(&between, 1000)?);
        assert!(older.process.wait(PATIENCE)?.success());
        for (stream, _) in &standing {
            assert!(exchange(stream, 10_000)?, "the older one is gone");
        }
        let before = stage.packets("opened");
        let (after, _) = stage.connect()?;
        assert!(exchange(&after, 1000)?);
        assert!(stage.packets("opened") > before, "by the kernel");
    }
    Ok(())
}

#[test]
fn requests_and_connections_of_an_endpoint_have_one_record() -> Result<()> {
    if !can_run(NEEDS) {
        return Ok(());
    }
    let stage = stage(1, false)?;
    let address = stage.star.endpoints[0].address();
    let raw = documents(stage.vip, &[address]);
    let both = raw.replace(
        "listeners: [",
        "listeners: [{name: web, port: 8080, protocol: HTTP}, ",
    );
    let route = format!(
        "---
apiVersion: gateway.networking.k8s.io/v1
kind: HTTPRoute
metadata: {{name: web}}
spec:
  parentRefs: [{{name: gate, sectionName: web}}]
  rules: [{{backendRefs: [{{name: echo, port: {PORT}}}]}}]
"
    );
    stage.folder.write(FILE, &(both + &route))?;
    assert_eq!(stage.weir.reload("")?.status(), 200);
    let held: Vec<_> = (0..3).map(|_| stage.connect()).collect::<Result<_, _>>()?;
    // It is listed with every backend it belongs to.
    let record = || {
        let mut dump = stage.weir.dump().unwrap_or_default();
        dump.retain(|one| one.endpoint == format!("{address}:{PORT}"));
        let first = dump.pop().expect("it is listed");
        for other in &dump {
            assert_eq!(other.attempts, first.attempts);
            assert_eq!(other.health_score, first.health_score);
        }
        first
    };
    let before = record();
    assert!(before.health_score > 0.99, "{before:?}");
    // What the endpoint greets with is no response.
    let place = stage.star.client.namespace.place();
    let web = SocketAddr::new(stage.vip.ip(), 8080);
    for _ in 0..3 {
        let mut client = Client::connect(&place, web)?;
        assert_eq!(client.get("/")?.status(), 502);
    }
    let after = record();
    assert!(after.health_score < before.health_score, "{after:?}");
    assert!(after.attempts.started > before.attempts.started);
    assert!(
        held.iter()
            .all(|(stream, _)| exchange(stream, 100).is_ok_and(|same| same))
    );
    Ok(())
}

#[test]
fn one_that_fails_to_take_over_leaves_the_services_as_they_were() -> Result<()> {
    if !can_run(NEEDS) {
        return Ok(());
    }
    let stage = stage(2, false)?;
    let (standing, _) = stage.connect()?;
    // With and without services of its own in the kernel. Its workers are the last to start.
    for l4 in ["xdp", "auto"] {
        let mut options = stage.options.clone();
        options.more = ["--l4", l4].map(str::to_owned).into();
        options.without = Some(|command| {
            refuse(command, libc::SYS_io_uring_setup, libc::EPERM);
        });
        assert!(Weir::take_over(&stage.star.proxy.place(), &options).is_err());
        let failed = |output: &str| output.matches("and does not serve").count();
        let tries = if l4 == "xdp" { 1 } else { 2 };
        assert!(becomes_true(PATIENCE, || failed(
            &stage.weir.process.output()
        ) == tries));
        let before = stage.packets("opened");
        for _ in 0..8 {
            let (stream, _) = stage.connect()?;
            assert!(exchange(&stream, 1000)?);
        }
        assert_eq!(stage.packets("opened"), before + 8.0, "after --l4 {l4}");
        if l4 == "xdp" {
            assert!(exchange(&standing, 100_000)?);
        }
    }
    Ok(())
}

#[test]
fn an_endpoint_that_is_removed_keeps_its_connections_and_gets_no_new_ones() -> Result<()> {
    if !can_run(NEEDS) {
        return Ok(());
    }
    let stage = stage(2, false)?;
    let standing: Vec<_> = (0..20).map(|_| stage.connect()).collect::<Result<_, _>>()?;
    let rest = [stage.star.endpoints[1].address()];
    stage.folder.write(FILE, &documents(stage.vip, &rest))?;
    assert_eq!(stage.weir.reload("")?.status(), 200);
    // The services follow within a moment.
    let only_second = || {
        let mut connections = (0..8).map(|_| stage.connect());
        connections.all(|connected| connected.is_ok_and(|(_, number)| number == 2))
    };
    assert!(becomes_true(PATIENCE, only_second));
    let before = stage.echoes[0].served();
    for _ in 0..20 {
        stage.connect()?;
    }
    assert_eq!(stage.echoes[0].served(), before);
    assert!(standing.iter().any(|(_, number)| *number == 1));
    for (stream, _) in &standing {
        assert!(exchange(stream, 2000)?);
    }
    Ok(())
}

#[test]
fn an_endpoint_that_refuses_connections_leaves_the_pool_on_the_wires_word() -> Result<()> {
    if !can_run(NEEDS) {
        return Ok(());
    }
    let stage = stage(1, false)?;
    // A host that has the address and nothing that listens.
    let gone: IpAddr = "10.77.1.9".parse()?;
    stage.star.endpoints[0]
        .namespace
        .ip("address add 10.77.1.9/24 dev eth0\n")?;
    let both = [stage.star.endpoints[0].address(), gone];
    stage.folder.write(FILE, &documents(stage.vip, &both))?;
    assert_eq!(stage.weir.reload("")?.status(), 200);
    let is_ejected = || {
        for _ in 0..10 {
            let _ = stage.connect();
        }
        let dump = stage.weir.dump().unwrap_or_default();
        let mut endpoints = dump.iter();
        endpoints.any(|one| one.endpoint.starts_with("10.77.1.9") && one.ejected)
    };
    assert!(
        becomes_true(PATIENCE, is_ejected),
        "{:?}",
        stage.weir.dump()
    );
    let dump = stage.weir.dump()?;
    let good = dump
        .iter()
        .find(|one| one.endpoint.starts_with("10.77.1.2"));
    let good = good.expect("it is listed");
    assert_eq!(good.latency_source.as_deref(), Some("kernel"));
    assert!(good.health_score > 0.9, "{good:?}");
    Ok(())
}

/// A host behind the first endpoint's, on a link that takes 1300 bytes, of which nothing tells at either end.
fn behind_a_narrow_hop(stage: &Stage) -> Result<Namespace> {
    let router = &stage.star.endpoints[0].namespace;
    let far = Namespace::new("far")?;
    for family in ["ipv4", "ipv6"] {
        let switch = format!("/proc/sys/net/{family}/conf/all/forwarding");
        router.place().run(|| std::fs::write(switch, "1"))?;
    }
    router.ip(&format!(
        "link add far type veth peer name eth0 netns {}
         address add 10.90.0.1/24 dev far
         address add fd90::1/64 dev far nodad
         link set far mtu 1300 up
         route replace fd77::/64 via fd77:1::1
",
        far.name()
    ))?;
    far.ip("address add 10.90.0.2/24 dev eth0
         address add fd90::2/64 dev eth0 nodad
         link set eth0 up
         route add default via 10.90.0.1 mtu 1300 advmss 1460
         route add default via fd90::1 mtu 1300 advmss 1440
")?;
    ethtool(&far)?;
    stage.star.proxy.ip("route add 10.90.0.0/24 via 10.77.1.2
         route add fd90::/64 via fd77:1::2
")?;
    Ok(far)
}

#[test]
fn clients_learn_of_a_narrow_hop_behind_the_proxy() -> Result<()> {
    if !can_run(NEEDS) {
        return Ok(());
    }
    for is_v6 in [false, true] {
        let stage = stage(1, is_v6)?;
        let far = behind_a_narrow_hop(&stage)?;
        let address: IpAddr = if is_v6 { "fd90::2" } else { "10.90.0.2" }.parse()?;
        let _echo = Echo::start(&far, address, 9)?;
        stage
            .folder
            .write(FILE, &documents(stage.vip, &[address]))?;
        assert_eq!(stage.weir.reload("")?.status(), 200);
        let is_far = || stage.connect().is_ok_and(|(_, number)| number == 9);
        assert!(becomes_true(PATIENCE, is_far));
        let (stream, _) = stage.connect()?;
        assert_eq!(stage.packets("icmp_translated"), 0.0);
        assert!(exchange(&stream, 2 << 20)?, "a byte is wrong");
        assert!(stage.packets("icmp_translated") > 0.0);
    }
    Ok(())
}
