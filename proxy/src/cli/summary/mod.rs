//! What a checked configuration comes to, for people: which requests go where, how backends are treated and by whose
//! word, and what holds where nobody says anything.

mod backends;
mod defaults;
mod routes;

use std::collections::HashMap;

use crate::balance::BackendKind;
use crate::snapshot::{BackendPlan, Plan};

/// How much to print.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Extent {
    /// The first endpoints of each backend.
    Short,
    All,
}

pub fn summary(plan: &Plan, extent: Extent) -> String {
    let labels = labels(&plan.backends);
    let parts = [
        routes::text(plan, &labels),
        backends::text(plan, &labels, extent),
        defaults::text(),
    ];
    parts.join("\n")
}

/// Names of the backends, by place. One that is treated in several ways has a number behind its name.
fn labels(backends: &[BackendPlan]) -> Vec<String> {
    let mut counts: HashMap<(BackendKind, &str, &str), usize> = HashMap::new();
    let mut labels = Vec::new();
    for BackendPlan {
        kind,
        namespace,
        name,
        ..
    } in backends
    {
        let count = counts.entry((*kind, namespace, name)).or_default();
        *count += 1;
        labels.push(match *count {
            1 => format!("{namespace}/{name}"),
            number => format!("{namespace}/{name}#{number}"),
        });
    }
    labels
}

/// Text of one line of at most so many characters.
fn shortened(text: &str, most: usize) -> String {
    let line = text.replace(['\n', '\r', '\t'], " ");
    match line.char_indices().nth(most) {
        None => line,
        Some((end, _)) => format!("{}...", &line[..end]),
    }
}
