//! Annotations and labels are free for anybody's use, so a misspelt one would do nothing, silently. Those that look like
//! one Weir reads are told.

use super::document::Metadata;
use super::gateway::PORTS_ANNOTATION;
use super::locality;
use super::reader::{Cursor, closest};
use super::service::{SERVICE_LABEL, WEIGHT_ANNOTATION};

/// Everything under this is ours.
const OURS: &str = "weir.dev/";

/// Reports what was hardly meant for somebody else.
pub fn check(metadata: &Metadata<'_>, kind: &str) {
    let (labels, annotations): (&[&str], &[&str]) = match kind {
        "EndpointSlice" => (&LABELS, &[WEIGHT_ANNOTATION]),
        "Gateway" => (&[], &[PORTS_ANNOTATION]),
        _ => (&[], &[]),
    };
    if let Some(at) = &metadata.labels {
        check_keys(at, labels, "label", kind);
    }
    if let Some(at) = &metadata.annotations {
        check_keys(at, annotations, "annotation", kind);
    }
}

const LABELS: [&str; 6] = [
    SERVICE_LABEL,
    locality::REGION_LABEL,
    locality::ZONE_LABEL,
    locality::SUBZONE_LABEL,
    locality::NETWORK_LABEL,
    locality::CLUSTER_LABEL,
];

fn check_keys(at: &Cursor<'_>, known: &[&str], what: &str, kind: &str) {
    for key in at.keys().filter(|key| !known.contains(key)) {
        let meant = closest(key, known);
        let remedy = match meant {
            Some(meant) => format!("did you mean `{meant}`?"),
            None => "leave it out".to_owned(),
        };
        if key.starts_with(OURS) {
            at.key_error(key, format!("is no {what} that {kind}s have; {remedy}"));
        } else if meant.is_some() {
            at.key_warning(key, format!("is not read; {remedy}"));
        }
    }
}
