//! Programs people use, through Weir, unchanged: curl, wrk, h2load, Python's http.client, and nginx as endpoint.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use weir_tests::endpoint::scripts::{answers_after, echo, script};
use weir_tests::process::{Place, Process};
use weir_tests::scenario::{PORT, Scenario};
use weir_tests::skip::{Need, can_run, find};
use weir_tests::topology::Star;
use weir_tests::wait::becomes_true;
use weir_tests::weir::{Options, Weir, run_to_end};

/// Runs a program to its end in `place` and returns what it printed; it must succeed.
fn run(place: &Place, program: &str, arguments: &[&str]) -> Result<String> {
    let mut command = Command::new(find(program).context("was looked for")?);
    command.args(arguments);
    let output = run_to_end(command, place)?;
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let error = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "{program} failed: {text}{error}");
    Ok(text)
}

#[test]
fn curl_gets_posts_and_uploads() -> Result<()> {
    if !can_run(&[Need::Root, Need::Program("curl")]) {
        return Ok(());
    }
    let scenario = Scenario::plain(vec![script(echo)])?;
    let place = scenario.star.client.namespace.place();
    let url = format!("http://{}/", scenario.weir.listen);
    let quiet = ["--silent", "--show-error", "--fail", "--max-time", "10"];
    let curl = |more: &[&str]| run(&place, "curl", &[&quiet[..], more, &[&url]].concat());
    assert_eq!(curl(&["--data", "a=1"])?, "a=1");
    assert_eq!(
        curl(&["--data", "b=2", "--header", "transfer-encoding: chunked"])?,
        "b=2"
    );
    assert_eq!(curl(&["--data", "c=3", "--http1.0"])?, "c=3");
    assert_eq!(
        curl(&["--data", "d=4", "--header", "expect: 100-continue"])?,
        "d=4"
    );
    assert!(curl(&["--head"])?.starts_with("HTTP/1.1 200"));
    let twice = curl(&["--data", "e=5", &url])?;
    assert_eq!(twice, "e=5e=5", "two requests on one connection");
    Ok(())
}

#[test]
fn wrk_and_h2load_find_every_answer_right() -> Result<()> {
    if !can_run(&[Need::Root, Need::Program("wrk"), Need::Program("h2load")]) {
        return Ok(());
    }
    let answer = || answers_after(Duration::ZERO);
    let scenario = Scenario::plain(vec![answer(), answer()])?;
    let place = scenario.star.client.namespace.place();
    let url = format!("http://{}/", scenario.weir.listen);

    let said = run(&place, "wrk", &["-t1", "-c16", "-d1s", &url])?;
    assert!(said.contains("requests in"), "{said}");
    assert!(
        !said.contains("Non-2xx") && !said.contains("Socket errors"),
        "{said}"
    );

    let said = run(&place, "h2load", &["--h1", "-n2000", "-c16", &url])?;
    assert!(
        said.contains("2000 succeeded, 0 failed, 0 errored"),
        "{said}"
    );
    assert!(said.contains("2000 2xx, 0 3xx, 0 4xx, 0 5xx"), "{said}");
    Ok(())
}

#[test]
fn pythons_http_client_keeps_its_connection() -> Result<()> {
    if !can_run(&[Need::Root, Need::Program("python3")]) {
        return Ok(());
    }
    let scenario = Scenario::plain(vec![script(echo)])?;
    let place = scenario.star.client.namespace.place();
    let program = format!(
        r#"
import http.client
connection = http.client.HTTPConnection("{}", {PORT}, timeout=10)
for number in range(100):
    body = bytes([number]) * (number * 1000)
    connection.request("POST", "/echo", body=body)
    response = connection.getresponse()
    assert response.status == 200, response.status
    assert response.read() == body, number
connection.request("POST", "/echo", body=iter([b"in ", b"chunks"]), encode_chunked=True,
                   headers={{"Transfer-Encoding": "chunked"}})
assert connection.getresponse().read() == b"in chunks"
print("all right")
"#,
        scenario.weir.listen.ip()
    );
    assert_eq!(run(&place, "python3", &["-c", &program])?, "all right\n");
    assert_eq!(scenario.endpoints[0].seen().connections(), 1);
    Ok(())
}

#[test]
fn nginx_serves_files_as_an_endpoint() -> Result<()> {
    if !can_run(&[Need::Root, Need::Program("nginx")]) {
        return Ok(());
    }
    let star = Star::new(1)?;
    let host = &star.endpoints[0];
    let endpoint = SocketAddr::new(host.address(), PORT);
    let files = Folder::new("nginx")?;
    std::fs::write(files.0.join("small"), "small file\n")?;
    std::fs::write(files.0.join("large"), weir_tests::pattern::at(0, 200_000))?;
    let _nginx = start_nginx(&files, endpoint, &host.namespace.place())?;

    let listen = SocketAddr::new(star.proxy_address(), PORT);
    let _weir = Weir::start(&star.proxy.place(), &Options::new(listen, [endpoint]))?;
    let mut client = weir_tests::client::Client::connect(&star.client.namespace.place(), listen)?;
    for _ in 0..20 {
        assert_eq!(client.get("/small")?.text(), "small file\n");
        let large = client.get("/large")?;
        assert!(weir_tests::pattern::is_at(0, &large.body) && large.body.len() == 200_000);
        let part = client.request("GET", "/large", "range: bytes=100-199\r\n", b"")?;
        assert_eq!(part.status(), 206);
        assert_eq!(part.body, weir_tests::pattern::at(100, 100));
        assert_eq!(client.get("/missing")?.status(), 404);
        assert_eq!(client.request("HEAD", "/large", "", b"")?.status(), 200);
    }
    Ok(())
}

fn start_nginx(files: &Folder, address: SocketAddr, place: &Place) -> Result<Process> {
    let folder = files.0.display();
    let temporary: String = ["client_body", "proxy", "fastcgi", "uwsgi", "scgi"]
        .map(|kind| format!("{kind}_temp_path {folder}/{kind};\n"))
        .concat();
    let configuration = format!(
        "daemon off;\nmaster_process off;\nerror_log stderr;\npid {folder}/pid;\nevents {{}}\n\
         http {{\n{temporary}access_log off;\nserver {{ listen {address}; root {folder}; }}\n}}\n"
    );
    let file = files.0.join("nginx.conf");
    std::fs::write(&file, configuration)?;
    let mut command = Command::new(find("nginx").context("was looked for")?);
    command.args(["-e", "stderr", "-c"]).arg(file);
    let mut nginx = Process::start(command, place)?;
    let listens = becomes_true(Duration::from_secs(10), || {
        !nginx.is_running() || place.run(|| std::net::TcpStream::connect(address)).is_ok()
    });
    ensure!(listens && nginx.is_running(), "nginx: {}", nginx.output());
    Ok(nginx)
}

/// A folder that goes when its value does.
struct Folder(PathBuf);

impl Folder {
    fn new(label: &str) -> Result<Self> {
        let folder = std::env::temp_dir().join(format!("weir-{label}-{}", std::process::id()));
        std::fs::create_dir_all(&folder)?;
        Ok(Self(folder))
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        if let Err(error) = std::fs::remove_dir_all(&self.0) {
            eprintln!("{} stays: {error}", self.0.display());
        }
    }
}
