//! How a change of files is noticed, and what is said of it.

use std::fs;
use std::net::SocketAddr;
use std::os::unix::fs::symlink;
use std::thread;
use std::time::Duration;

use anyhow::Result;
use rustix::process::Signal;
use weir_tests::editing::{Folder, Service};
use weir_tests::scenario::{PORT, Scenario};
use weir_tests::skip::can_run;
use weir_tests::wait::becomes_true;

use crate::edited::{Edited, FILE, quick};
use crate::{NEEDS, PATIENCE};

#[test]
fn one_broken_file_of_a_directory_changes_nothing_and_all_its_problems_are_said() -> Result<()> {
    if !can_run(NEEDS) {
        return Ok(());
    }
    let folder = Folder::new()?;
    let scenario = Scenario::start(vec![quick()], |star, mut options| {
        let first = SocketAddr::new(star.endpoints[0].address(), PORT);
        let service = Service::of(options.listen[0], [first]);
        let written = folder.write("good.yaml", &service.to_yaml());
        written.expect("a writable folder");
        options.config = Some(folder.path().to_owned());
        options
    })?;
    let edited = Edited { folder, scenario };
    let weir = &edited.scenario.weir;
    let broken = "apiVersion: v1\nkind: Service\nmetadata: {name: two}\nspec: {ports: [{port: 99999}], colour: red}\n";
    edited.folder.write("broken.yaml", broken)?;
    let refused = || weir.process.output().contains("reload refused");
    assert!(becomes_true(PATIENCE, refused));
    let said = weir.process.output();
    for problem in ["broken.yaml:4:23", "broken.yaml:4:32", "2 errors"] {
        assert!(said.contains(problem), "{problem}\n{said}");
    }

    let answer = weir.reload("")?;
    assert_eq!(answer.status(), 422);
    let text = answer.text();
    assert!(text.contains("broken.yaml:4:32: error: "), "{text}");
    assert!(text.ends_with("revision 1 is still served\n"), "{text}");
    let answer = weir.reload("accept: application/json\r\n")?;
    let json: serde_json::Value = serde_json::from_str(&answer.text())?;
    assert_eq!(json["result"], "refused");
    assert_eq!(json["problems"].as_array().map(Vec::len), Some(2), "{json}");
    assert_eq!(edited.scenario.client()?.get("/")?.status(), 200);
    assert_eq!(weir.revision()?, 1);
    let is_served = || {
        anyhow::Ok(
            weir.metrics()?
                .sum("weir_config_last_reload_successful", &[]),
        )
    };
    assert_eq!(is_served()?, Some(0.0));
    let dump: serde_json::Value = serde_json::from_str(&weir.admin("/config_dump")?.text())?;
    assert_eq!(dump["refused"].as_array().map(Vec::len), Some(2), "{dump}");

    fs::remove_file(edited.folder.path().join("broken.yaml"))?;
    let repaired = || {
        let output = weir.process.output();
        output.contains("reloaded: nothing changed; revision 1 is served")
    };
    assert!(
        becomes_true(PATIENCE, repaired),
        "{}",
        weir.process.output()
    );
    assert_eq!(is_served()?, Some(1.0));
    assert!(!weir.admin("/config_dump")?.text().contains("refused"));
    let answer = weir.reload("")?;
    assert_eq!(answer.status(), 200);
    assert_eq!(answer.text(), "nothing changed; revision 1 is served\n");
    let metrics = weir.metrics()?;
    let refused = metrics.sum("weir_reloads_total", &[("result", "refused")]);
    assert!(refused >= Some(3.0), "{refused:?}");
    Ok(())
}

#[test]
fn unwatched_files_are_loaded_on_sighup_and_when_the_admin_address_is_asked() -> Result<()> {
    if !can_run(NEEDS) {
        return Ok(());
    }
    let edited = Edited::start(vec![quick(), quick()], &["--no-watch"])?;
    let weir = &edited.scenario.weir;
    edited.write(&edited.service(&[0, 1]))?;
    thread::sleep(Duration::from_millis(500));
    assert_eq!(weir.revision()?, 1, "nobody watches");
    weir.process.signal(Signal::HUP)?;
    edited.wait_for_revision(2)?;

    edited.write(&edited.service(&[1]))?;
    let answer = weir.reload("accept: application/json\r\n")?;
    assert_eq!(answer.status(), 200);
    let json: serde_json::Value = serde_json::from_str(&answer.text())?;
    assert_eq!(json["result"], "applied");
    assert_eq!(json["changes"], "endpoints -1");
    assert_eq!(json["revision"], 3);
    Ok(())
}

#[test]
fn what_flags_configure_cannot_be_loaded_again() -> Result<()> {
    if !can_run(NEEDS) {
        return Ok(());
    }
    let scenario = Scenario::plain(vec![quick()])?;
    let answer = scenario.weir.reload("")?;
    assert_eq!(answer.status(), 409);
    assert!(
        answer.text().contains("--print-config"),
        "{}",
        answer.text()
    );
    scenario.weir.process.signal(Signal::HUP)?;
    assert_eq!(scenario.client()?.get("/")?.status(), 200, "it goes on");
    Ok(())
}

#[test]
fn a_config_map_that_kubernetes_exchanges_is_noticed() -> Result<()> {
    if !can_run(NEEDS) {
        return Ok(());
    }
    let folder = Folder::new()?;
    let put = |version: &str, service: &Service| -> std::io::Result<()> {
        let data = folder.path().join(version);
        fs::create_dir(&data)?;
        fs::write(data.join(FILE), service.to_yaml())?;
        symlink(version, folder.path().join("..data_tmp"))?;
        fs::rename(
            folder.path().join("..data_tmp"),
            folder.path().join("..data"),
        )
    };
    let mut addresses = Vec::new();
    let scenario = Scenario::start(vec![quick(), quick()], |star, mut options| {
        let endpoints = star.endpoints.iter();
        addresses = endpoints
            .map(|peer| SocketAddr::new(peer.address(), PORT))
            .collect();
        let service = Service::of(options.listen[0], [addresses[0]]);
        put("..2026_01", &service).expect("a writable folder");
        symlink(format!("..data/{FILE}"), folder.path().join(FILE)).expect("a link");
        options.config = Some(folder.path().join(FILE));
        options
    })?;
    for (version, count, revision) in [("..2026_02", 2, 2), ("..2026_03", 1, 3)] {
        let endpoints = addresses.iter().copied().take(count);
        put(version, &Service::of(scenario.weir.listen, endpoints))?;
        let weir = &scenario.weir;
        let is_served = || weir.revision().is_ok_and(|served| served == revision);
        assert!(
            becomes_true(PATIENCE, is_served),
            "{}",
            weir.process.output()
        );
        assert_eq!(weir.dump()?.len(), count);
    }
    Ok(())
}
