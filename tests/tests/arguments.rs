//! What Weir says to arguments that cannot work: the value, what is wrong with it, and an exit status that scripts see.

use std::process::{Command, Output};
use std::time::Duration;

use anyhow::Result;
use weir_tests::endpoint::scripts::answers_after;
use weir_tests::namespace::Namespace;
use weir_tests::process::Place;
use weir_tests::scenario::Scenario;
use weir_tests::skip::{Need, can_run};
use weir_tests::weir::{binary, run_to_end, weir_command};

/// Runs Weir, which must refuse, and returns what it says.
fn refusal(place: &Place, arguments: &[&str]) -> Result<String> {
    let Output {
        status,
        stdout,
        stderr,
    } = weir_command(place, arguments)?;
    let said = String::from_utf8_lossy(&stderr).into_owned();
    assert!(!status.success(), "{arguments:?} was accepted");
    assert!(stdout.is_empty(), "errors belong on stderr");
    assert!(!said.contains("panicked"), "{said}");
    assert!(
        !said.trim().is_empty(),
        "{arguments:?} was refused silently"
    );
    Ok(said)
}

#[test]
fn addresses_that_are_none_are_named() -> Result<()> {
    let host = Place::default();
    let listen = ["run", "--listen", "127.0.0.1:0", "--to"];
    for wrong in [
        "nonsense",
        "10.0.0.1",
        "10.0.0.1:99999",
        "10.0.0.1:80@x",
        "10.0.0.1:80@-1",
        "[::1:80",
    ] {
        let said = refusal(&host, &[&listen[..], &[wrong]].concat())?;
        assert!(said.contains(wrong), "{wrong} is not in: {said}");
    }
    let said = refusal(&host, &["run", "--listen", "here", "--to", "10.0.0.1:80"])?;
    assert!(said.contains("here"), "{said}");
    Ok(())
}

#[test]
fn something_to_listen_on_and_something_to_pick_are_needed() -> Result<()> {
    let host = Place::default();
    let said = refusal(&host, &["run", "--listen", "127.0.0.1:0"])?;
    assert!(said.contains("--to"), "{said}");
    let said = refusal(&host, &["run", "--to", "10.0.0.1:80"])?;
    assert!(said.contains("--listen"), "{said}");
    let said = refusal(&host, &["run", "--ebpf", "perhaps"])?;
    assert!(
        said.contains("perhaps") && said.contains("required"),
        "{said}"
    );
    Ok(())
}

#[test]
fn flags_overrule_variables_and_contradictions_are_told() -> Result<()> {
    let run = |variables: &[(&str, &str)], arguments: &[&str]| -> Result<(bool, String)> {
        let mut command = Command::new(binary()?);
        command.arg("run").args(arguments);
        command.envs(variables.iter().copied());
        let output = run_to_end(command, &Place::default())?;
        let said = [output.stdout, output.stderr].concat();
        let said = String::from_utf8_lossy(&said).into_owned();
        Ok((output.status.success(), said))
    };
    let quick = ["--listen", "127.0.0.1:18081", "--to", "10.0.0.1:80"];
    let config = ("WEIR_CONFIG", "/no/such/file.yaml");
    let listen = ("WEIR_LISTEN", "127.0.0.1:0");

    let printed = [&quick[..], &["--print-config"]].concat();
    let (is_fine, said) = run(&[config], &printed)?;
    assert!(is_fine && said.contains("10.0.0.1"), "{said}");
    let (is_fine, said) = run(&[listen], &["--config", "/no/such/file.yaml"])?;
    assert!(!is_fine, "{said}");
    assert!(
        said.contains("--config /no/such/file.yaml: no such file"),
        "{said}"
    );
    assert!(
        said.contains("WEIR_LISTEN"),
        "what does not hold is told: {said}"
    );
    assert!(!said.contains("os error"), "{said}");
    let (is_fine, said) = run(&[config, listen], &[])?;
    assert!(
        !is_fine && said.contains("WEIR_CONFIG") && said.contains("unset"),
        "{said}"
    );
    let (is_fine, said) = run(&[("WEIR_LISTEN", "")], &["--to", "10.0.0.1:80"])?;
    assert!(
        !is_fine && said.contains("WEIR_LISTEN") && said.contains("empty"),
        "{said}"
    );
    Ok(())
}

#[test]
fn addresses_that_clash_or_lead_back_are_refused() -> Result<()> {
    let host = Place::default();
    let admin = "127.0.0.1:15000";
    let said = refusal(&host, &["run", "--listen", admin, "--to", "10.0.0.1:80"])?;
    assert!(said.contains("--admin off"), "{said}");
    let own = "127.0.0.1:18080";
    let said = refusal(&host, &["run", "--listen", own, "--to", own])?;
    assert!(said.contains(own) && said.contains("circles"), "{said}");
    Ok(())
}

#[test]
fn what_is_odd_but_possible_is_warned_of() -> Result<()> {
    if !can_run(&[Need::Root]) {
        return Ok(());
    }
    let scenario = Scenario::start(vec![answers_after(Duration::ZERO)], |star, mut options| {
        // The client's side: no endpoint is reached by it.
        options = options.measured_on([&*star.client.interface]);
        options.to[0].push_str("@0");
        options
    })?;
    let said = scenario.weir.process.output();
    assert!(
        said.contains("weight 0") && said.contains("default/default"),
        "{said}"
    );
    assert!(
        said.contains("no endpoint is reached by this interface"),
        "{said}"
    );
    assert_eq!(scenario.client()?.get("/")?.status(), 503);

    let scenario = Scenario::plain(vec![answers_after(Duration::ZERO)])?;
    let said = scenario.weir.process.output();
    assert!(said.contains("kernel programs are switched off"), "{said}");
    Ok(())
}

#[test]
fn a_port_in_use_and_an_unknown_interface_are_named() -> Result<()> {
    if !can_run(&[Need::Root]) {
        return Ok(());
    }
    let scenario = Scenario::plain(vec![answers_after(Duration::ZERO)])?;
    let place = scenario.star.proxy.place();
    let taken = scenario.weir.listen.to_string();
    let away = ["--admin", "off", "--metrics", "off", "--readiness", "off"];
    let run = [
        "run",
        "--to",
        "10.77.1.2:8080",
        "--instance",
        "other",
        "--ebpf",
    ];

    let arguments = [&run[..], &["off", "--listen", &taken], &away[..]].concat();
    let said = refusal(&place, &arguments)?;
    assert!(said.contains(&taken), "{said}");
    assert!(said.to_lowercase().contains("in use"), "{said}");

    let free = [
        "required",
        "--listen",
        "127.0.0.1:9999",
        "--interface",
        "eth77",
    ];
    let said = refusal(&place, &[&run[..], &free[..], &away[..]].concat())?;
    assert!(said.contains("eth77"), "{said}");
    assert!(!said.contains("listening on"), "{said}");

    // The one that was there first was not disturbed.
    assert_eq!(scenario.client()?.get("/")?.status(), 200);
    Ok(())
}

#[test]
fn an_admin_address_in_use_is_named() -> Result<()> {
    if !can_run(&[Need::Root]) {
        return Ok(());
    }
    let scenario = Scenario::plain(vec![answers_after(Duration::ZERO)])?;
    let place = scenario.star.proxy.place();
    let arguments = [
        "run",
        "--to",
        "10.77.1.2:8080",
        "--listen",
        "127.0.0.1:9999",
        "--ebpf",
        "off",
    ];
    let said = refusal(&place, &[&arguments[..], &["--instance", "other"]].concat())?;
    assert!(
        said.contains("--admin 127.0.0.1:15000: the address is in use"),
        "{said}"
    );
    assert!(said.contains("--metrics and --readiness"), "{said}");
    assert!(!said.contains("os error"), "{said}");
    Ok(())
}

#[test]
fn an_admin_address_nobody_answers_at_is_named() -> Result<()> {
    if !can_run(&[Need::Root]) {
        return Ok(());
    }
    let empty = Namespace::new("empty")?;
    let said = refusal(&empty.place(), &["proxy", "config", "backends"])?;
    assert!(said.contains("127.0.0.1:15000"), "{said}");
    Ok(())
}

#[test]
fn a_dump_that_is_none_is_refused_with_its_place() -> Result<()> {
    let folder = std::env::temp_dir().join(format!("weir-arguments-{}", std::process::id()));
    std::fs::create_dir_all(&folder)?;
    let host = Place::default();
    let show = |file: &std::path::Path| {
        let file = file.to_string_lossy().into_owned();
        let said = refusal(&host, &["proxy", "config", "backends", "-f", &file]);
        said.map(|said| (said, file))
    };
    for text in ["", "{", "[1, 2]", "{\"backends\": 7}", "\u{0}\u{1}\u{2}"] {
        let file = folder.join("dump.json");
        std::fs::write(&file, text)?;
        let (said, file) = show(&file)?;
        assert!(said.contains(&file), "{text:?}: {said}");
    }
    let (said, file) = show(&folder.join("missing.json"))?;
    assert!(said.contains(&file), "{said}");
    std::fs::remove_dir_all(&folder)?;
    Ok(())
}
