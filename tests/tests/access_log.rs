//! The access log: a line for each exchange, in a file that may be moved away, and never in the way of traffic.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use serde::Deserialize;
use weir_tests::endpoint::scripts::{answers_after, echo, script};
use weir_tests::load::Pace;
use weir_tests::scenario::Scenario;
use weir_tests::skip::{Need, can_run};
use weir_tests::wait::becomes_some;

const NEEDS: &[Need] = &[Need::Root];
const PATIENCE: Duration = Duration::from_secs(5);

/// A folder that is gone with the test.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Result<Self> {
        let path = std::env::temp_dir().join(format!("weir-log-{}-{name}", std::process::id()));
        fs::create_dir_all(&path)?;
        Ok(Self(path))
    }

    fn file(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        // Already gone is as good.
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// Every key a line may have: another one is an error.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Line {
    time: String,
    client: String,
    method: Option<String>,
    host: Option<String>,
    path: Option<String>,
    status: Option<u16>,
    bytes_in: u64,
    bytes_out: u64,
    duration_ms: f64,
    first_byte_ms: Option<f64>,
    backend: Option<String>,
    endpoint: Option<String>,
    attempts: u32,
    error: Option<String>,
    request_id: Option<String>,
    #[serde(default)]
    cut: bool,
}

/// The lines of a file, once there are so many.
fn lines(file: &Path, count: usize) -> Result<Vec<Line>> {
    let text = becomes_some(PATIENCE, || {
        let text = fs::read_to_string(file).ok()?;
        (text.lines().count() >= count).then_some(text)
    });
    let text = text.with_context(|| format!("fewer than {count} lines in {}", file.display()))?;
    let lines = text.lines().map(serde_json::from_str);
    Ok(lines.collect::<Result<_, _>>()?)
}

fn logging_to(file: &Path, script: weir_tests::endpoint::Script) -> Result<Scenario> {
    Scenario::start(vec![script], |_, mut options| {
        let flags = ["--access-log".to_owned(), file.display().to_string()];
        options.more.extend(flags);
        options
    })
}

#[test]
fn each_request_has_its_line() -> Result<()> {
    if !can_run(NEEDS) {
        return Ok(());
    }
    let folder = Folder::new("lines")?;
    let file = folder.file("access.log");
    let mut scenario = logging_to(&file, script(echo))?;
    let mut client = scenario.client()?;
    let mut bytes_in = Vec::new();
    for number in 0..20 {
        let path = format!("/item/{number}?token=secret");
        let fields = format!("x-request-id: id-{number}\r\n");
        let body = vec![b'x'; 1000 * number + 1];
        let answer = client.request("POST", &path, &fields, &body)?;
        assert_eq!((answer.status(), answer.body.len()), (200, body.len()));
        bytes_in.push(body.len() as u64);
    }
    let lines_of_requests = lines(&file, 20)?;
    assert_eq!(lines_of_requests.len(), 20);
    let own = scenario.star.client.address().to_string();
    for (number, line) in lines_of_requests.iter().enumerate() {
        assert_eq!(line.path.as_deref(), Some(&*format!("/item/{number}")));
        assert_eq!(line.request_id.as_deref(), Some(&*format!("id-{number}")));
        assert_eq!(line.method.as_deref(), Some("POST"));
        assert_eq!(line.host.as_deref(), Some("weir.test"));
        assert_eq!((line.status, line.attempts), (Some(200), 1));
        assert_eq!(line.client, own);
        assert_eq!(line.endpoint.as_deref(), Some("10.77.1.2:8080"));
        assert_eq!(line.backend.as_deref(), Some("default/default"));
        assert!(line.bytes_in > bytes_in[number] && line.bytes_out > bytes_in[number]);
        assert!(
            line.duration_ms >= line.first_byte_ms.context("measured")?,
            "{line:?}"
        );
        assert!(
            line.time.starts_with("20") && line.time.ends_with('Z'),
            "{line:?}"
        );
        assert!(line.error.is_none() && !line.cut);
    }
    client.wire.send(b"GET / HTTP/9.9\r\n\r\n")?;
    assert_eq!(client.response("GET")?.status(), 505);
    let last = lines(&file, 21)?.pop().context("a line more")?;
    assert_eq!(last.status, Some(505));
    assert!(last.error.is_some() && last.endpoint.is_none());

    // The last lines are there before the process is not.
    let mut client = scenario.client()?;
    client.request("POST", "/last", "", b"x")?;
    drop(client);
    scenario.weir.process.stop(PATIENCE)?;
    let last = lines(&file, 22)?.pop().context("a line more")?;
    assert_eq!(last.path.as_deref(), Some("/last"));
    Ok(())
}

#[test]
fn a_file_that_is_moved_away_is_begun_anew() -> Result<()> {
    if !can_run(NEEDS) {
        return Ok(());
    }
    let folder = Folder::new("rotated")?;
    let (file, moved) = (folder.file("access.log"), folder.file("access.log.1"));
    let scenario = logging_to(&file, answers_after(Duration::ZERO))?;
    let mut client = scenario.client()?;
    for _ in 0..10 {
        client.get("/before")?;
    }
    lines(&file, 10)?;
    fs::rename(&file, &moved)?;
    let mut asked = 0;
    let begun = becomes_some(PATIENCE, || {
        asked += 1;
        client.get("/after").ok()?;
        file.exists().then_some(())
    });
    ensure!(begun.is_some(), "no new file in {PATIENCE:?}");
    client.get("/after")?;
    let total = 10 + asked + 1;
    let all = becomes_some(PATIENCE, || {
        let count = |file: &Path| Some(fs::read_to_string(file).ok()?.lines().count());
        (count(&moved)? + count(&file)? == total).then_some(())
    });
    ensure!(all.is_some(), "no line is lost");
    Ok(())
}

#[test]
fn a_log_nobody_reads_does_not_stop_traffic() -> Result<()> {
    if !can_run(NEEDS) {
        return Ok(());
    }
    let folder = Folder::new("stalled")?;
    let pipe = folder.file("pipe");
    assert!(Command::new("mkfifo").arg(&pipe).status()?.success());
    let mut scenario = logging_to(&pipe, answers_after(Duration::ZERO))?;
    assert_eq!(
        scenario.client()?.get("/")?.status(),
        200,
        "nobody has opened the pipe"
    );

    // Opened, and never read: it takes some lines and no more.
    let reader = fs::OpenOptions::new().read(true).write(true).open(&pipe)?;
    let report = scenario.load(8, Pace::AsAnswered, Duration::from_secs(2))?;
    assert_eq!((report.failures, report.broken), (0, 0));
    let metrics = scenario.weir.metrics()?;
    let dropped = metrics.sum("weir_access_log_dropped_total", &[]);
    assert!(dropped > Some(1000.0), "{dropped:?}");
    let requests = metrics.sum("weir_requests_total", &[]).context("counted")?;
    assert!(requests > 2000.0, "{requests}");
    assert_eq!(scenario.client()?.get("/")?.status(), 200);

    // Its end waits for the last lines a moment, not for ever.
    scenario.weir.process.stop(2 * PATIENCE)?;
    drop(reader);
    Ok(())
}
