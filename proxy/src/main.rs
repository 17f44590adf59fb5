//! The binary: reads the command line and hands over.

use std::error::Error;
use std::io::{self, IsTerminal, Write};
use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;

use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::mpsc;
use weir::cli::{self, CheckOptions, Command, DetachOptions, RunOptions};
use weir::exchange::Settings;
use weir::runtime::admin::{AdminSockets, AdminThread, Control, Readiness};
use weir::runtime::reload::{Loader, ReloadHandle, Reloads, Watch};
use weir::runtime::ring::heap;
use weir::runtime::server::{Admin, Server, ServerOptions};
use weir::runtime::takeover::{Predecessor, TakeoverError};
use weir::snapshot::Plan;

fn main() -> ExitCode {
    let done = match cli::parse() {
        Command::Run(options) => match options.printed_config() {
            Some(text) => text.map_err(Into::into).and_then(|text| print(&text)),
            None => run(*options),
        },
        Command::Check(options) => return check(&options),
        Command::Explain(options) => options
            .render()
            .map_err(Into::into)
            .and_then(|text| print(&text)),
        Command::Backends(options) => options
            .render()
            .map_err(Into::into)
            .and_then(|text| print(&text)),
        Command::Detach(options) => detach(&options),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("weir: {error}");
            ExitCode::FAILURE
        }
    }
}

#[tokio::main(flavor = "current_thread")]
async fn run(options: RunOptions) -> Result<(), Box<dyn Error>> {
    heap::map_large_pieces();
    tracing_subscriber::fmt()
        .with_env_filter(options.log_filter())
        .with_writer(io::stderr)
        .with_ansi(io::stderr().is_terminal())
        .init();
    // Files that change while they are read for the first time are read again.
    let watch = watch(&options.watched());
    options.warn_of_overruled();
    let plan = options.plan()?;
    let mut predecessor = predecessor(&options)?;
    let inherited = |address| predecessor.as_mut()?.take_admin(address);
    let sockets = AdminSockets::bind(&options.admin_addresses(), inherited)?;
    let duplicates = sockets.duplicate()?;
    let (reload, reloads) = Reloads::new(loader(&options), watch);
    let server = Server::prepare(ServerOptions {
        predecessor,
        ..server_options(options, plan)
    })?;

    let (stop, stopped) = mpsc::channel(1);
    stop_on_signal(SignalKind::terminate(), stop.clone())?;
    stop_on_signal(SignalKind::interrupt(), stop.clone())?;
    reload_on_signal(reload.clone())?;
    let readiness = Readiness::default();
    let control = Control {
        observed: server.observed(),
        readiness: readiness.clone(),
        reloads: reload,
        shutdown: Box::new(move || {
            // A full channel means that the stop is known already.
            let _ = stop.try_send(());
        }),
    };
    let admin = Admin {
        readiness,
        sockets: duplicates,
        thread: AdminThread::start(sockets, control)?,
    };
    Ok(server.run(admin, reloads, stopped).await?)
}

/// The process whose place is to be taken.
fn predecessor(options: &RunOptions) -> Result<Option<Predecessor>, TakeoverError> {
    if !options.takeover {
        return Ok(None);
    }
    let found = Predecessor::find(&options.instance)?;
    if found.is_none() {
        tracing::info!(
            instance = options.instance,
            "no process of this instance runs here: there is nothing to take over"
        );
    }
    Ok(found)
}

fn watch(paths: &[&Path]) -> Option<Watch> {
    if paths.is_empty() {
        return None;
    }
    let watch = Watch::begin(paths);
    let failed = |error: &_| {
        tracing::warn!("changes of files go unnoticed: {error}; reload by SIGHUP or POST /reload");
    };
    watch.inspect_err(failed).ok()
}

/// Reads the configuration again, if it is one that can change.
fn loader(options: &RunOptions) -> Option<Loader> {
    let options = options.clone();
    options
        .is_from_files()
        .then(|| -> Loader { Arc::new(move || options.plan()) })
}

fn server_options(options: RunOptions, plan: Plan) -> ServerOptions {
    ServerOptions {
        is_l4_in_kernel: options.is_l4_in_kernel(),
        settings: Settings {
            connect: options.timeouts.connect,
            first_byte: options.timeouts.first_byte,
            head: options.timeouts.head,
            idle: options.timeouts.idle,
            ..Settings::default()
        },
        l4_idle: options.timeouts.l4_idle,
        plan,
        interfaces: options.interfaces,
        workers: options.workers,
        ebpf: options.ebpf,
        xdp: (options.xdp.mode, options.xdp.interfaces),
        instance: options.instance,
        access_log: options.access_log,
        max_endpoints: options.max_endpoints,
        drain: options.timeouts.drain,
        predecessor: None,
    }
}

fn detach(options: &DetachOptions) -> Result<(), Box<dyn Error>> {
    let mut printed = Ok(());
    options.run(|line| {
        if printed.is_ok() {
            printed = print(&format!("{line}\n"));
        }
    })?;
    printed
}

fn check(options: &CheckOptions) -> ExitCode {
    let report = match options.report() {
        Ok(report) => report,
        Err(error) => {
            eprintln!("weir: {error}");
            return ExitCode::FAILURE;
        }
    };
    eprint!("{}", report.problems);
    match report.summary.map(|summary| print(&summary)) {
        Some(Ok(())) => ExitCode::SUCCESS,
        Some(Err(error)) => {
            eprintln!("weir: {error}");
            ExitCode::FAILURE
        }
        None => ExitCode::FAILURE,
    }
}

fn stop_on_signal(kind: SignalKind, stop: mpsc::Sender<()>) -> io::Result<()> {
    let mut signals = signal(kind)?;
    tokio::spawn(
        async move { while signals.recv().await.is_some() && stop.send(()).await.is_ok() {} },
    );
    Ok(())
}

fn reload_on_signal(reload: ReloadHandle) -> io::Result<()> {
    let mut signals = signal(SignalKind::hangup())?;
    tokio::spawn(async move {
        while signals.recv().await.is_some() {
            reload.signal();
        }
    });
    Ok(())
}

/// Prints to a reader that may leave early, as `head` does.
fn print(text: &str) -> Result<(), Box<dyn Error>> {
    match io::stdout().write_all(text.as_bytes()) {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => Err(error.into()),
        _ => Ok(()),
    }
}
