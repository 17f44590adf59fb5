//! The real thread and real files.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};

use super::*;
use crate::access_log::{Record, Sink};

/// A folder that is gone with the test.
struct Folder(PathBuf);

impl Folder {
    fn new() -> Self {
        static NUMBER: AtomicUsize = AtomicUsize::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let name = format!("weir-access-log-{}-{number}", std::process::id());
        let path = std::env::temp_dir().join(name);
        fs::create_dir_all(&path).expect("a writable folder");
        Self(path)
    }

    fn file(&self) -> PathBuf {
        self.0.join("access.log")
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

fn start(path: &Path, workers: usize) -> (AccessLog, Vec<RingSink>, Vec<Arc<WorkerCounters>>) {
    let counters: Vec<Arc<WorkerCounters>> = (0..workers).map(|_| Arc::default()).collect();
    let target = LogTarget::File(path.to_owned());
    let (log, sinks) = AccessLog::start(target, &counters).expect("a file");
    (log, sinks, counters)
}

fn record(path: &str) -> Record {
    let mut record = Record::new([10, 0, 0, 9].into(), clock::now());
    record.path.set(path.as_bytes());
    record
}

fn paths(file: &Path) -> Vec<String> {
    let text = fs::read_to_string(file).expect("a log");
    let path = |line| {
        let line: serde_json::Value = serde_json::from_str(line).expect("JSON");
        line["path"].as_str().expect("a path").to_owned()
    };
    text.lines().map(path).collect()
}

#[test]
fn lines_are_added_to_the_file_in_the_order_of_each_worker() {
    let folder = Folder::new();
    for round in 0..2 {
        let (log, mut sinks, _) = start(&folder.file(), 2);
        for number in 0..500 {
            for (worker, sink) in sinks.iter_mut().enumerate() {
                sink.put(&record(&format!("/{round}/{worker}/{number}")));
            }
        }
        let counters = log.counters.clone();
        log.finish();
        assert_eq!(counters.written.value(), 1000);
    }
    let paths = paths(&folder.file());
    assert_eq!(paths.len(), 2000);
    for worker in ["/0/0/", "/0/1/", "/1/0/", "/1/1/"] {
        let of_worker = paths.iter().filter_map(|path| path.strip_prefix(worker));
        let expected = (0..500).map(|number| number.to_string());
        assert!(of_worker.eq(expected), "{worker}");
    }
}

#[test]
fn records_without_room_are_dropped_and_counted() {
    let folder = Folder::new();
    let (log, mut sinks, counters) = start(&folder.file(), 1);
    const MANY: u64 = 200_000;
    for _ in 0..MANY {
        sinks[0].put(&record("/"));
    }
    let written = log.counters.clone();
    log.finish();
    let dropped = counters[0].access_log_dropped.value();
    assert!(dropped > 0, "the thread cannot be that fast");
    assert_eq!(written.written.value() + dropped, MANY);
    assert_eq!(paths(&folder.file()).len() as u64, written.written.value());
}

#[test]
fn a_file_that_cannot_be_written_costs_lines_and_nothing_else() {
    let (log, mut sinks, _) = start(Path::new("/dev/full"), 1);
    sinks[0].put(&record("/"));
    let counters = log.counters.clone();
    log.finish();
    assert_eq!(counters.written.value(), 0);
    assert_eq!((counters.lost.value(), counters.errors.value()), (1, 1));
}

#[test]
fn a_file_that_cannot_be_opened_is_told_at_once() {
    let counters = [Arc::default()];
    let target = LogTarget::File("/nonexistent/access.log".into());
    let error = AccessLog::start(target, &counters).map(drop);
    let said = error.expect_err("no such folder").to_string();
    assert!(
        said.starts_with("--access-log /nonexistent/access.log: "),
        "{said}"
    );
}
