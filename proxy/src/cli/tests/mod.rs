//! Whole command lines, as people type them.

mod summary;

use std::ffi::OsString;
use std::time::Duration;

use clap::CommandFactory;

use super::*;
use crate::runtime::dataplane::EbpfMode;

const DUMP: &str = concat!(
    env!("CARGO_MANIFEST_DIR"),
    "/src/cli/tests/config_dump.json"
);

fn parse_words(words: &[&str]) -> Result<Command, clap::Error> {
    let name = ["weir"].iter();
    parse_from(name.chain(words).map(OsString::from))
}

fn run_options(words: &[&str]) -> RunOptions {
    match parse_words(&[&["run"], words].concat()) {
        Ok(Command::Run(options)) => *options,
        other => panic!("not options to run: {other:?}"),
    }
}

fn refusal(words: &[&str]) -> String {
    match parse_words(words) {
        Err(error) => error.to_string(),
        Ok(command) => panic!("accepted: {command:?}"),
    }
}

fn render(words: &[&str]) -> Result<String, BackendsError> {
    match parse_words(&[&["proxy", "config", "backends"], words].concat()) {
        Ok(Command::Backends(options)) => options.render(),
        other => panic!("not options of backends: {other:?}"),
    }
}

#[test]
fn the_definitions_agree_with_themselves() {
    Cli::command().debug_assert();
}

#[test]
fn a_listener_and_an_endpoint_are_enough() {
    let options = run_options(&["--listen", "0.0.0.0:8080", "--to", "10.0.0.1:80"]);
    assert_eq!(options.workers, None);
    assert_eq!(options.ebpf, EbpfMode::Auto);
    assert_eq!(options.instance, "default");
    let admin = options.admin_addresses();
    let ports = [admin.admin, admin.metrics, admin.readiness]
        .map(|address| address.expect("on by default").port());
    assert_eq!(ports, [15000, 15020, 15021]);
}

#[test]
fn flags_that_may_be_repeated_keep_their_order() {
    let options = run_options(&[
        "--listen=0.0.0.0:80",
        "--listen=[::1]:81",
        "--to=10.0.0.2:80@3,10.0.0.1:80",
        "--interface=eth0",
        "--interface=eth1",
    ]);
    assert_eq!(options.listen[1].port(), 81);
    let weights: Vec<u16> = options.to.iter().map(|to| to.weight.share()).collect();
    assert_eq!(weights, [3, 1]);
    assert_eq!(options.interfaces, ["eth0", "eth1"]);
}

#[test]
fn lengths_have_units_and_addresses_can_be_off() {
    let options = run_options(&[
        "--listen=0.0.0.0:80",
        "--to=10.0.0.1:80",
        "--connect-timeout=250ms",
        "--head-timeout=2m",
        "--metrics=off",
        "--admin=[::1]:9",
    ]);
    assert_eq!(options.timeouts.connect, Duration::from_millis(250));
    assert_eq!(options.timeouts.head, Duration::from_secs(120));
    assert_eq!(options.admin_addresses().metrics, None);
    assert_eq!(options.admin_addresses().admin.expect("on").port(), 9);
}

#[test]
fn a_refusal_names_the_value_the_flag_and_the_remedy() {
    let good = ["run", "--listen=0.0.0.0:80", "--to=10.0.0.1:80"];
    let cases: [(&[&str], &[&str]); 17] = [
        (&["run"], &["--listen", "--to", "--config"]),
        (
            &["run", "--config=x.yaml", "--print-config"],
            &["--print-config", "--listen", "--config"],
        ),
        (
            &["run", "--listen=localhost:80", "--to=10.0.0.1:80"],
            &["'localhost:80'", "host name", "127.0.0.1:80"],
        ),
        (
            &["run", "--listen=0.0.0.0:70000", "--to=10.0.0.1:80"],
            &["the port `70000`"],
        ),
        (
            &["run", "--listen=", "--to=10.0.0.1:80"],
            &["--listen", "is empty", "WEIR_LISTEN"],
        ),
        (&[good[0], good[1], "--to=::1:9001"], &["write [::1]:9001"]),
        (
            &[good[0], good[1], good[2], "--idle-timeout", "-5s"],
            &["'-5s'", "--idle-timeout", "longer than nothing"],
        ),
        (&["run", "--to=10.0.0.1:80"], &["--listen <ADDR>"]),
        (&["run", "--listen=0.0.0.0:80"], &["--to <ADDR[@WEIGHT]>"]),
        (
            &["run", "--listen=:80", "--to=10.0.0.1:80"],
            &["':80'", "--listen", "0.0.0.0:8080"],
        ),
        (
            &[good[0], good[1], "--to=10.0.0.1:80@65536"],
            &["65536", "--to", "0 to 65535"],
        ),
        (
            &[good[0], good[1], good[2], "--to=10.0.0.1:80@2"],
            &["--to 10.0.0.1:80", "twice"],
        ),
        (
            &[good[0], good[1], good[1], good[2]],
            &["--listen 0.0.0.0:80", "twice"],
        ),
        (
            &[good[0], good[1], good[2], "--workers=0"],
            &["'0'", "--workers", "1 to 1024"],
        ),
        (
            &[good[0], good[1], good[2], "--interface=eth0:1"],
            &["'eth0:1'", "--interface", "ip link"],
        ),
        (
            &[good[0], good[1], good[2], "--instance=a/b"],
            &["'a/b'", "--instance", "letters"],
        ),
        (
            &[good[0], good[1], good[2], "--log=verbose"],
            &["'verbose'", "--log", "debug"],
        ),
    ];
    for (words, parts) in cases {
        let text = refusal(words);
        for part in parts {
            assert!(text.contains(part), "{words:?}: no {part} in {text}");
        }
    }
}

#[test]
fn a_configuration_stands_in_for_listeners_and_endpoints() {
    let options = run_options(&["--config", "/no/such/file"]);
    let error = options.plan().expect_err("no file").to_string();
    assert!(error.starts_with("--config /no/such/file: "), "{error}");
    let both = refusal(&["run", "--config", "x.yaml", "--to", "10.0.0.1:80"]);
    assert!(both.contains("cannot be used with"), "{both}");
}

#[test]
fn a_quick_start_prints_its_documents_on_demand_only() {
    let quick = ["--listen", "0.0.0.0:80", "--to", "10.0.0.1:80"];
    assert!(run_options(&quick).printed_config().is_none());
    let options = run_options(&[&quick[..], &["--print-config"]].concat());
    let text = options
        .printed_config()
        .expect("asked for")
        .expect("a port");
    assert!(text.contains("kind: Gateway"), "{text}");
}

#[test]
fn every_flag_of_run_has_a_twin_in_the_environment() {
    let command = Cli::command();
    let run = command.find_subcommand("run").expect("a verb");
    for flag in run.get_arguments() {
        let name = flag.get_long().expect("flags have long names");
        let twin = flag
            .get_env()
            .map(|twin| twin.to_string_lossy().into_owned());
        let expected = match name {
            // As other proxies of a cluster are told the same.
            "locality" => "LOCALITY".to_owned(),
            "node-name" => "NODE_NAME".to_owned(),
            "cluster" => "CLUSTER_ID".to_owned(),
            "network" => "NETWORK".to_owned(),
            _ => format!("WEIR_{}", name.to_uppercase().replace('-', "_")),
        };
        assert_eq!(twin, Some(expected));
    }
}

#[test]
fn the_table_has_columns_two_spaces_apart_and_rows_in_order() {
    let expected = "\
TYPE     NAME       NAMESPACE            ENDPOINT                    HEALTH  REQUESTS  LATENCY
Backend  openai     agentgateway-system  backend                     0.70    1         0.00ms
Service  ext-authz  backend-extauth      ext-authz-7c7596b5f6-tvs28  1.00    4         0.00ms
Service  httpbin    backend-extauth      httpbin-7dc88b5fbc-zqrfn    1.00    2         3.06ms
";
    assert_eq!(render(&["-f", DUMP]).expect("a table"), expected);
}

#[test]
fn endpoints_without_requests_are_shown_on_demand_and_ejected_ones_say_for_how_long() {
    let table = render(&["-f", DUMP, "--all"]).expect("a table");
    let line = table.lines().last().expect("lines");
    let expected = "\
Service  httpbin    backend-extauth      elsewhere/httpbin-7dc88b5fbc-aaaaa  Evict (3.3s)  0";
    assert!(table.lines().any(|line| line == expected), "{table}");
    assert!(line.ends_with("3.06ms"), "{table}");
}

#[test]
fn an_endpoint_of_a_backend_that_is_there_twice_is_shown_once() {
    let text = std::fs::read_to_string(DUMP).expect("the fixture");
    let mut dump: serde_json::Value = serde_json::from_str(&text).expect("JSON");
    let backends = dump["backends"].as_array_mut().expect("a list");
    backends.extend_from_within(..);
    let file = std::env::temp_dir().join(format!("weir-twice-{}.json", std::process::id()));
    std::fs::write(&file, dump.to_string()).expect("a writable folder");
    let table = render(&["-f", &file.to_string_lossy(), "--all"]);
    std::fs::remove_file(&file).expect("just written");
    assert_eq!(
        table.expect("a table"),
        render(&["-f", DUMP, "--all"]).expect("a table")
    );
}

#[test]
fn an_endpoint_that_fails_its_checks_says_so_in_place_of_its_health() {
    let file = std::env::temp_dir().join(format!("weir-dump-{}.json", std::process::id()));
    let dump = std::fs::read_to_string(DUMP).expect("the fixture");
    let ejected = "\"ejected\": true,";
    let failing = dump.replace(ejected, "\"ejected\": true, \"checkFailing\": true,");
    std::fs::write(&file, failing).expect("a writable folder");
    let name = file.to_str().expect("a plain name");
    let table = render(&["-f", name, "--all"]).expect("a table");
    std::fs::remove_file(&file).expect("written just above");
    assert!(table.contains("aaaaa  Evict (check)  0"), "{table}");
}

#[test]
fn json_keeps_the_strings_of_the_table_and_adds_the_numbers() {
    let text = render(&["-f", DUMP, "--all", "-o", "json"]).expect("rows");
    let rows: serde_json::Value = serde_json::from_str(&text).expect("JSON");
    assert_eq!(
        rows[2],
        serde_json::json!({
            "type": "Service",
            "name": "httpbin",
            "namespace": "backend-extauth",
            "endpoint": "elsewhere/httpbin-7dc88b5fbc-aaaaa",
            "health": "Evict (3.3s)",
            "requests": 0,
            "latency": "",
            "healthScore": 0.16807,
            "latencyMs": null,
            "latencySource": null,
            "pending": 0,
            "weight": 3,
            "bucket": 1,
            "ejected": true,
            "ejectedForMs": 3349.0,
            "checkFailing": false,
        })
    );
    assert_eq!(rows[3]["latencySource"], "kernel");
    assert_eq!(rows[1]["pending"], 1);
}

#[test]
fn yaml_says_the_same_as_json() {
    let json = render(&["-f", DUMP, "--all", "-o", "json"]).expect("rows");
    let yaml = render(&["-f", DUMP, "--all", "-o", "yaml"]).expect("rows");
    let from_yaml: serde_json::Value = serde_saphyr::from_str(&yaml).expect("YAML");
    let from_json: serde_json::Value = serde_json::from_str(&json).expect("JSON");
    assert_eq!(from_yaml, from_json);
}

#[test]
fn a_broken_dump_is_an_error_with_file_line_and_column() {
    let whole = std::fs::read_to_string(DUMP).expect("the fixture");
    let (cut, _) = whole.split_once("\"listeners\"").expect("a key of it");
    for (text, place) in [
        ("", "1:0: "),
        ("nonsense", "1:2: "),
        ("{\n  \"backends\": 3\n}", "2:15: "),
        (cut.trim_end(), "21:4: "),
    ] {
        let error = backends::parse_dump("some.json", text).expect_err("no dump");
        let error = error.to_string();
        assert!(error.starts_with(&format!("some.json:{place}")), "{error}");
    }
}

#[test]
fn a_file_that_is_not_there_is_an_error_that_names_it() {
    let error = render(&["-f", "/no/such/file"]).expect_err("no file");
    assert!(error.to_string().starts_with("/no/such/file: "), "{error}");
}
