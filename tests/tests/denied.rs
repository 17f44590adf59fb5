//! Clients on the deny list: dropped where they come in, while everybody else is served.

use std::io;
use std::net::{IpAddr, SocketAddr, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use anyhow::Result;
use rustix::process::Signal;
use weir_tests::editing::Folder;
use weir_tests::endpoint::scripts::answers_after;
use weir_tests::scenario::{PORT, Scenario};
use weir_tests::skip::{Need, can_run};
use weir_tests::topology::Star;
use weir_tests::wait::becomes_true;
use weir_tests::weir::Ebpf;

const NEEDS: &[Need] = &[Need::Root];
const PATIENCE: Duration = Duration::from_secs(10);
/// An answer takes a millisecond; who is denied gets none.
const DENIED: Duration = Duration::from_millis(300);
const FILE: &str = "denied";

struct Stage {
    scenario: Scenario,
    folder: Folder,
}

/// One endpoint, a client, a second host that reaches Weir by the endpoint's interface, and a deny list.
fn denying(list: &str, more: &[&str]) -> Result<Stage> {
    let folder = Folder::new()?;
    let file = folder.write(FILE, list)?;
    let answer = vec![answers_after(Duration::from_millis(1))];
    let scenario = Scenario::start(answer, |_, mut options| {
        options.ebpf = Ebpf::Auto;
        let file = file.display().to_string();
        let more = more.iter().map(|word| (*word).to_owned());
        options.more = ["--deny-file".to_owned(), file]
            .into_iter()
            .chain(more)
            .collect();
        options
    })?;
    Ok(Stage { scenario, folder })
}

impl Stage {
    fn connects(&self) -> io::Result<()> {
        self.connects_to(self.scenario.star.proxy_address())
    }

    fn connects_to(&self, address: IpAddr) -> io::Result<()> {
        let place = self.scenario.star.client.namespace.place();
        let address = SocketAddr::new(address, PORT);
        place.run(|| TcpStream::connect_timeout(&address, DENIED).map(|_| ()))
    }

    fn is_denied(&self) -> bool {
        self.connects()
            .is_err_and(|error| error.kind() == io::ErrorKind::TimedOut)
    }

    fn is_served(&self) -> bool {
        self.connects().is_ok()
    }

    fn metric(&self, name: &str, labels: &[(&str, &str)]) -> Option<f64> {
        self.scenario.weir.metrics().ok()?.sum(name, labels)
    }

    fn output(&self) -> String {
        self.scenario.weir.process.output()
    }
}

#[test]
fn a_denied_client_gets_no_answer_and_is_let_in_when_the_file_no_longer_names_it() -> Result<()> {
    if !can_run(NEEDS) {
        return Ok(());
    }
    let stage = denying("10.77.0.0/24 # the client's network\n", &[])?;
    assert!(stage.is_denied());
    let denied = [("reason", "denied")];
    assert!(stage.metric("weir_ebpf_packets_total", &denied) > Some(0.0));
    assert_eq!(stage.metric("weir_denied_prefixes", &[]), Some(1.0));
    // The interface clients come in by, and no other.
    assert_eq!(stage.metric("weir_xdp_attached", &[]), Some(1.0));
    let hook = [("interface", "client"), ("hook", "native")];
    assert_eq!(stage.metric("weir_xdp_hook", &hook), Some(1.0));

    stage.folder.write(FILE, "10.77.9.0/24\n10.77.0.77\n")?;
    assert!(becomes_true(PATIENCE, || stage.is_served()));
    assert_eq!(stage.metric("weir_denied_prefixes", &[]), Some(2.0));
    let output = stage.output();
    assert!(output.contains("denied prefixes +2 -1"), "{output}");

    // Without anybody to deny there is nothing to do on the interface.
    stage.folder.write(FILE, "# nobody\n")?;
    let is_detached = || stage.metric("weir_xdp_attached", &[]).is_none();
    assert!(becomes_true(PATIENCE, is_detached));
    assert!(stage.is_served());
    stage.folder.write(FILE, "10.77.0.2\n")?;
    assert!(becomes_true(PATIENCE, || stage.is_denied()));
    Ok(())
}

#[test]
fn a_list_with_a_mistake_is_refused_whole_and_the_one_before_holds() -> Result<()> {
    if !can_run(NEEDS) {
        return Ok(());
    }
    let stage = denying("10.77.0.2\n", &[])?;
    stage
        .folder
        .write(FILE, "# both are wrong\n10.77.5.1/24\n  nobody\n")?;
    let answer = stage.scenario.weir.reload("")?;
    assert_ne!(answer.status(), 200);
    let text = answer.text();
    assert!(text.contains("denied:2:1: error: `10.77.5.1/24`"), "{text}");
    assert!(text.contains("denied:3:3: error: `nobody`"), "{text}");
    assert!(stage.is_denied());
    assert_eq!(stage.metric("weir_denied_prefixes", &[]), Some(1.0));
    Ok(())
}

#[test]
fn who_is_denied_stays_denied_while_the_proxy_is_dead_and_when_it_is_back() -> Result<()> {
    if !can_run(NEEDS) {
        return Ok(());
    }
    let mut stage = denying("10.77.0.2\n", &[])?;
    let scenario = &mut stage.scenario;
    scenario.weir.process.signal(Signal::KILL)?;
    scenario.weir.process.wait(PATIENCE)?;
    assert!(stage.is_denied(), "the host would refuse the connection");
    stage.scenario.start_again()?;
    assert!(stage.is_denied());
    stage.folder.write(FILE, "10.77.0.3\n")?;
    assert!(becomes_true(PATIENCE, || stage.is_served()));
    assert!(stage.scenario.weir.process.stop(PATIENCE)?.success());
    let pinned = stage.scenario.options.instance.pinned();
    assert!(
        !pinned.iter().any(|name| name.starts_with("xdp")),
        "an orderly end takes it along: {pinned:?}"
    );
    Ok(())
}

#[test]
fn denying_goes_on_when_the_interface_is_made_again() -> Result<()> {
    if !can_run(NEEDS) {
        return Ok(());
    }
    let stage = denying("10.77.0.2\n", &[])?;
    let Star { proxy, client, .. } = &stage.scenario.star;
    for _ in 0..3 {
        proxy.ip("link delete client")?;
        client.link(proxy, "client")?;
    }
    assert!(becomes_true(PATIENCE, || stage.is_denied()));
    assert_eq!(stage.metric("weir_xdp_attached", &[]), Some(1.0));
    Ok(())
}

#[test]
fn what_runs_xdp_is_as_asked_and_a_missing_interface_is_waited_for() -> Result<()> {
    if !can_run(NEEDS) {
        return Ok(());
    }
    let more = ["--xdp", "generic", "--xdp-interface", "client,later0"];
    let stage = denying("10.77.0.2\n", &more)?;
    let attached = |interface| stage.metric("weir_xdp_attached", &[("interface", interface)]);
    let hook = [
        ("interface", "client"),
        ("hook", "generic"),
        ("fallback", "false"),
    ];
    assert_eq!(stage.metric("weir_xdp_hook", &hook), Some(1.0));
    assert!(stage.is_denied());
    assert_eq!(attached("later0"), Some(0.0));
    let proxy = &stage.scenario.star.proxy;
    proxy.ip("link add later0 type veth peer name other")?;
    assert!(becomes_true(PATIENCE, || attached("later0") == Some(1.0)));
    Ok(())
}

#[test]
fn a_takeover_denies_on_and_one_without_bpf_ends_it() -> Result<()> {
    if !can_run(NEEDS) {
        return Ok(());
    }
    let mut stage = denying("10.77.0.0/24\n", &[])?;
    assert!(stage.is_denied());
    let place = stage.scenario.star.client.namespace.place();
    let address = SocketAddr::new(stage.scenario.star.proxy_address(), PORT);
    let is_over = Arc::new(AtomicBool::new(false));
    let told = is_over.clone();
    let knocking = place.spawn(move || {
        let mut came_in = 0;
        while !told.load(Ordering::Relaxed) {
            came_in += usize::from(TcpStream::connect_timeout(&address, DENIED).is_ok());
        }
        came_in
    });
    let mut older = stage.scenario.take_over()?;
    assert!(older.process.wait(PATIENCE)?.success());
    assert!(stage.is_denied());
    is_over.store(true, Ordering::Relaxed);
    assert_eq!(knocking.join().expect("no panic"), 0);
    assert_eq!(stage.metric("weir_xdp_attached", &[]), Some(1.0));

    stage.scenario.options.ebpf = Ebpf::Off;
    let mut older = stage.scenario.take_over()?;
    assert!(older.process.wait(PATIENCE)?.success());
    assert!(stage.is_served());
    let pinned = stage.scenario.options.instance.pinned();
    let is_link = |name: &String| name.contains("gress") || name.contains("xdp");
    assert!(!pinned.iter().any(is_link), "{pinned:?}");
    Ok(())
}
