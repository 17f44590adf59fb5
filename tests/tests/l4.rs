//! Connections of a TCP listener, relayed in user space: every byte, both ends, endpoints that misbehave or go.

use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr};
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use rustix::process::Signal;
use weir_tests::documents;
use weir_tests::editing::Folder;
use weir_tests::skip::{Need, can_run};
use weir_tests::stream::{self, Server};
use weir_tests::topology::Star;
use weir_tests::wait::becomes_true;
use weir_tests::weir::{EndpointDump, Options, Weir};

const NEEDS: &[Need] = &[Need::Root];
const PATIENCE: Duration = Duration::from_secs(5);
const PORT: u16 = 5432;
const MIB: u64 = 1024 * 1024;

/// Weir with a TCP listener in front of servers, one on each outer host. Dropped in the order of the fields.
struct Stage {
    weir: Weir,
    servers: Vec<Server>,
    folder: Folder,
    listen: SocketAddr,
    star: Star,
}

type Handler = Box<dyn Fn(std::net::TcpStream) -> std::io::Result<()> + Send + Sync>;

impl Stage {
    fn start(handlers: Vec<Handler>, more: &[&str]) -> Result<Self> {
        Self::under(handlers, more, "")
    }

    /// With more documents, each begun by `---`.
    fn under(handlers: Vec<Handler>, more: &[&str], policies: &str) -> Result<Self> {
        let star = Star::new(u8::try_from(handlers.len())?)?;
        let servers = handlers
            .into_iter()
            .zip(&star.endpoints)
            .map(|(handler, peer)| {
                Server::start(&peer.namespace.place(), (peer.address(), PORT), handler)
            })
            .collect::<std::io::Result<Vec<_>>>()?;
        let listen = SocketAddr::new(star.proxy_address(), PORT);
        let folder = Folder::new()?;
        let all = servers.iter().map(|server| server.address().ip());
        folder.write("stream.yaml", &(documents::tcp(listen, all) + policies))?;
        let mut options = Options::new(listen, []);
        options.config = Some(folder.path().to_owned());
        options.workers = 2;
        options
            .more
            .extend(more.iter().map(|&more| more.to_owned()));
        let weir = Weir::start(&star.proxy.place(), &options)?;
        Ok(Self {
            weir,
            servers,
            folder,
            listen,
            star,
        })
    }

    fn connect(&self) -> Result<std::net::TcpStream> {
        let place = self.star.client.namespace.place();
        stream::connect(&place, self.listen).context("cannot connect to Weir")
    }

    /// From now on these endpoints, by their places.
    fn serve_only(&self, places: &[usize]) -> Result<()> {
        let revision = self.weir.revision()?;
        let addresses = places.iter().map(|place| self.servers[*place].address());
        let addresses = addresses.map(|address| address.ip());
        let text = documents::tcp(self.listen, addresses);
        self.folder.write("stream.yaml", &text)?;
        let is_served = || self.weir.revision().is_ok_and(|now| now > revision);
        anyhow::ensure!(becomes_true(PATIENCE, is_served), "not reloaded");
        Ok(())
    }

    fn dump(&self, place: usize) -> Result<EndpointDump> {
        let key = self.servers[place].address().to_string();
        let mut dump = self.weir.dump()?.into_iter();
        let found = dump.find(|known| known.endpoint == key);
        found.with_context(|| format!("no {key} in the dump"))
    }

    fn metric(&self, name: &str, labels: &[(&str, &str)]) -> Result<f64> {
        self.weir
            .metrics()?
            .sum(name, labels)
            .context("no such metric")
    }
}

fn echo() -> Handler {
    Box::new(stream::echo)
}

#[test]
fn sixty_four_mebibytes_pass_byte_by_byte_in_both_directions_at_once() -> Result<()> {
    if !can_run(NEEDS) {
        return Ok(());
    }
    let stage = Stage::start(vec![echo(), echo()], &[])?;
    let client = stage.connect()?;
    assert_eq!(stream::exchange(&client, 17, 64 * MIB)?, 64 * MIB);
    let counted = |direction| stage.metric("weir_l4_bytes_total", &[("direction", direction)]);
    assert_eq!(counted("in")?, (64 * MIB) as f64);
    assert_eq!(counted("out")?, (64 * MIB) as f64);
    drop(client);
    let is_over = || {
        stage
            .metric("weir_l4_connections", &[])
            .is_ok_and(|open| open == 0.0)
    };
    assert!(becomes_true(PATIENCE, is_over));
    assert_eq!(
        stage.metric("weir_l4_endings_total", &[("result", "finished")])?,
        1.0
    );
    Ok(())
}

#[test]
fn an_endpoint_may_end_its_side_first_and_still_be_told_more() -> Result<()> {
    if !can_run(NEEDS) {
        return Ok(());
    }
    let ends_first: Handler = Box::new(|mut stream| {
        stream.write_all(b"goodbye")?;
        stream.shutdown(Shutdown::Write)?;
        let mut rest = Vec::new();
        stream.read_to_end(&mut rest)?;
        assert_eq!(rest.len(), 300_000);
        Ok(())
    });
    let stage = Stage::start(vec![ends_first], &[])?;
    let mut client = stage.connect()?;
    let mut said = Vec::new();
    client.read_to_end(&mut said)?;
    assert_eq!(said, b"goodbye");
    stream::send(&client, 0, 300_000)?;
    client.shutdown(Shutdown::Write)?;
    let is_success = || stage.dump(0).is_ok_and(|it| it.attempts.succeeded == 1);
    assert!(becomes_true(PATIENCE, is_success), "{:?}", stage.dump(0)?);
    Ok(())
}

#[test]
fn of_four_endpoints_those_that_refuse_or_reset_are_avoided() -> Result<()> {
    if !can_run(NEEDS) {
        return Ok(());
    }
    let slow: Handler = Box::new(|stream| {
        std::thread::sleep(Duration::from_millis(30));
        stream::echo(stream)
    });
    let mut stage = Stage::start(vec![echo(), slow, Box::new(stream::reset), echo()], &[])?;
    // Nobody listens there any more.
    let refusing = stage.servers[3].address();
    stage.servers.truncate(3);
    let (mut good, mut bad) = (0, 0);
    for round in 0..200 {
        let client = stage.connect()?;
        match stream::exchange(&client, round, 2000) {
            Ok(2000) => good += 1,
            _ => bad += 1,
        }
    }
    // Only those of the endpoint that resets are lost, and it is ejected after five.
    assert!(bad >= 1 && good >= 180, "{good} good, {bad} bad");
    assert!(stage.dump(2)?.attempts.failed >= 1);
    let refused = stage.weir.dump()?;
    let refused = refused
        .iter()
        .find(|it| it.endpoint == refusing.to_string());
    assert!(refused.is_some_and(|it| it.attempts.failed >= 1 && it.attempts.succeeded == 0));
    assert!(stage.metric("weir_l4_retries_total", &[])? >= 1.0);
    Ok(())
}

#[test]
fn an_open_connection_stays_where_it_is_whatever_is_reloaded() -> Result<()> {
    if !can_run(NEEDS) {
        return Ok(());
    }
    let stage = Stage::start(vec![echo(), echo()], &[])?;
    let mut open = stage.connect()?;
    let mut answer = [0; 4];
    open.write_all(b"ping")?;
    open.read_exact(&mut answer)?;
    let first = usize::from(stage.servers[0].connections() == 0);
    stage.serve_only(&[1 - first])?;
    for round in 0..20 {
        open.write_all(b"ping")?;
        open.read_exact(&mut answer)?;
        let other = stage.connect()?;
        assert_eq!(stream::exchange(&other, round, 1000)?, 1000);
    }
    assert_eq!(&answer, b"ping");
    assert_eq!(stage.servers[first].connections(), 1, "nobody new");
    // A transfer over more reloads, and over the end of its endpoint's place in the configuration.
    let large = stage.connect()?;
    std::thread::scope(|scope| {
        let transfer = scope.spawn(|| stream::exchange(&large, 5, 32 * MIB));
        for places in [&[first][..], &[0, 1], &[1 - first]] {
            stage.serve_only(places)?;
        }
        let received = transfer.join().expect("no panic")?;
        assert_eq!(received, 32 * MIB);
        anyhow::Ok(())
    })
}

#[test]
fn twenty_thousand_short_connections_get_every_byte() -> Result<()> {
    if !can_run(NEEDS) {
        return Ok(());
    }
    const THREADS: u64 = 8;
    const EACH: u64 = 2_500;
    let stage = Stage::start(vec![echo(), echo(), echo()], &[])?;
    let start = Instant::now();
    std::thread::scope(|scope| {
        let place = stage.star.client.namespace.place();
        let threads: Vec<_> = (0..THREADS)
            .map(|thread| {
                let (place, listen) = (place.clone(), stage.listen);
                scope.spawn(move || {
                    place.move_here()?;
                    for round in 0..EACH {
                        let offset = thread * EACH + round;
                        let mut client = std::net::TcpStream::connect(listen)?;
                        client.set_read_timeout(Some(PATIENCE))?;
                        stream::send(&client, offset, 100)?;
                        client.shutdown(Shutdown::Write)?;
                        let mut answer = Vec::new();
                        client.read_to_end(&mut answer)?;
                        assert_eq!(answer, weir_tests::pattern::at(offset, 100));
                    }
                    anyhow::Ok(())
                })
            })
            .collect();
        for thread in threads {
            thread.join().expect("no panic")?;
        }
        anyhow::Ok(())
    })?;
    let took = start.elapsed();
    println!("{} connections in {took:?}", THREADS * EACH);
    let is_over = || {
        let open = stage.metric("weir_l4_connections", &[]);
        open.is_ok_and(|open| open == 0.0)
    };
    assert!(becomes_true(PATIENCE, is_over));
    let finished = stage.metric("weir_l4_endings_total", &[("result", "finished")])?;
    assert_eq!(finished, (THREADS * EACH) as f64);
    let connections: u64 = stage.servers.iter().map(Server::connections).sum();
    assert_eq!(connections, THREADS * EACH);
    assert!(took < Duration::from_secs(120), "{took:?}");
    Ok(())
}

#[test]
fn a_drain_lets_a_transfer_finish() -> Result<()> {
    if !can_run(NEEDS) {
        return Ok(());
    }
    let mut stage = Stage::start(vec![echo()], &[])?;
    let mut client = stage.connect()?;
    client.write_all(weir_tests::pattern::at(0, 10))?;
    let mut answer = [0; 10];
    client.read_exact(&mut answer)?;
    stage.weir.process.signal(Signal::TERM)?;
    std::thread::sleep(Duration::from_millis(500));
    assert_eq!(stream::exchange(&client, 10, MIB)?, MIB);
    let status = stage.weir.process.wait(PATIENCE)?;
    assert!(status.success(), "{status}");
    Ok(())
}

#[test]
fn proxy_headers_tell_an_endpoint_what_the_balancer_before_us_told() -> Result<()> {
    if !can_run(NEEDS) {
        return Ok(());
    }
    const POLICIES: &str = "---
apiVersion: weir.dev/v1alpha1
kind: WeirPolicy
metadata: {name: in}
spec:
  targetRefs: [{group: gateway.networking.k8s.io, kind: Gateway, name: gate-5432}]
  acceptProxyProtocol: true
  sendProxyProtocol: v1
";
    let stage = Stage::under(vec![echo()], &[], POLICIES)?;
    // Version 2: 203.0.113.9:4711 to 198.51.100.1:443, and a word of its own.
    let header = b"\r\n\r\n\0\r\nQUIT\n\x21\x11\x00\x10\xcb\x00\x71\x09\xc6\x33\x64\x01\x12\x67\x01\xbb\x04\x00\x01\x00";
    let mut client = stage.connect()?;
    client.write_all(&header[..20])?;
    std::thread::sleep(Duration::from_millis(50));
    client.write_all(&[&header[20..], b"hello"].concat())?;
    client.shutdown(Shutdown::Write)?;
    let mut answer = String::new();
    client.read_to_string(&mut answer)?;
    assert_eq!(
        answer,
        "PROXY TCP4 203.0.113.9 198.51.100.1 4711 443\r\nhello"
    );

    let mut client = stage.connect()?;
    client.write_all(b"hello, without a header\n")?;
    assert!(client.read_to_string(&mut answer).is_err(), "reset");
    let turned_away = stage.metric("weir_l4_endings_total", &[("result", "no-header")])?;
    assert_eq!(turned_away, 1.0);
    Ok(())
}
