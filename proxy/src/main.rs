use std::net::SocketAddr;
use weir::balance::Weight;
use weir::runtime::server::*;
use weir::snapshot::Target;

#[tokio::main(flavor = "current_thread")]
async fn main() {
    tracing_subscriber::fmt()
        .with_env_filter(tracing_subscriber::EnvFilter::from_default_env())
        .with_writer(std::io::stderr)
        .init();
    let a: Vec<String> = std::env::args().collect();
    let mut o = ServerOptions {
        listen: vec![],
        targets: vec![],
        interfaces: vec![],
        workers: None,
        ebpf: Default::default(),
        instance: "default".into(),
        settings: Default::default(),
        drain: std::time::Duration::from_secs(10),
    };
    for w in a[1..].chunks(2) {
        match w[0].as_str() {
            "--listen" => o.listen.push(w[1].parse().unwrap()),
            "--to" => o.targets.push(Target {
                address: w[1].parse::<SocketAddr>().unwrap(),
                weight: Weight::ONE,
            }),
            "--workers" => o.workers = w[1].parse().ok(),
            _ => {}
        }
    }
    let s = Server::prepare(o).unwrap_or_else(|e| {
        eprintln!("{e}");
        std::process::exit(1)
    });
    let (tx, rx) = tokio::sync::mpsc::channel(2);
    tokio::spawn(async move {
        loop {
            tokio::signal::ctrl_c().await.unwrap();
            tx.send(()).await.unwrap();
        }
    });
    s.run(rx).await.unwrap();
}
