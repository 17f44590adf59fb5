//! Causes of Weir's own answers, as people look them up.

use std::collections::BTreeSet;

/// Of responses, whose causes are not told to clients.
const UNTOLD: [&str; 2] = ["status-line", "unasked-switch"];

/// The names in this source file that stand alone behind an arrow of its `cause`.
fn causes(source: &str) -> impl Iterator<Item = &str> {
    let (_, from) = source.split_once("fn cause(").expect("a function `cause`");
    let (function, _) = from.split_once("\n    }\n").expect("its end");
    let arms = function.split("=> \"").skip(1);
    arms.filter_map(|arm| Some(arm.split_once('"')?.0))
}

#[test]
fn the_manual_lists_every_cause_and_no_other() {
    let sources = [
        include_str!("../failure.rs"),
        include_str!("../../http/h1/error.rs"),
        include_str!("../../http/h1/body.rs"),
    ];
    let told: BTreeSet<&str> = sources.into_iter().flat_map(causes).collect();
    assert!(UNTOLD.iter().all(|cause| told.contains(cause)));

    let manual = include_str!("../../../../docs/operation.md");
    let (_, table) = manual.split_once("| `x-weir-error` |\n").expect("a table");
    let (table, _) = table.split_once("\n\n").expect("its end");
    let cells = table.lines().filter_map(|line| line.rsplit('|').nth(1));
    let names = cells.flat_map(|cell| cell.split('`').skip(1).step_by(2));
    let listed: Vec<&str> = names.chain(UNTOLD).collect();
    assert_eq!(listed.len(), told.len(), "one of them is listed twice");
    assert_eq!(listed.into_iter().collect::<BTreeSet<_>>(), told);
}
