//! Secret of type `kubernetes.io/tls`: a certificate chain and its key, checked for being what they say. Nothing serves
//! TLS yet, so nothing is kept of them. No problem here quotes a value: a slip must not put a key into a log.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;

use super::document::Metadata;
use super::reader::{Cursor, Object, closest};
use super::resources::Resources;
use super::tree::Node;

/// What a Secret holds under one key.
struct Part {
    key: &'static str,
    is_required: bool,
    /// Of which PEM blocks it has one at least (RFC 7468).
    labels: &'static [&'static str],
}

const PARTS: [Part; 3] = [
    Part {
        key: "tls.crt",
        is_required: true,
        labels: &["CERTIFICATE"],
    },
    Part {
        key: "tls.key",
        is_required: true,
        labels: &["PRIVATE KEY", "RSA PRIVATE KEY", "EC PRIVATE KEY"],
    },
    // Issuers of certificates put it beside them.
    Part {
        key: "ca.crt",
        is_required: false,
        labels: &["CERTIFICATE"],
    },
];

const TLS: &str = "kubernetes.io/tls";

/// Whether it holds something else, such as a password or a token: of another type, or of none and without a key of ours.
pub fn is_of_others(secret: &Node) -> bool {
    let has_part = |map: &Node| PARTS.iter().any(|part| map.child(part.key).is_some());
    match secret.child("type").and_then(Node::as_text) {
        Some(kind) => kind != TLS && closest(kind, &[TLS]).is_none(),
        None => {
            let maps = ["data", "stringData"].map(|key| secret.child(key));
            secret.child("type").is_none() && !maps.into_iter().flatten().any(has_part)
        }
    }
}

pub fn read_secret<'a>(object: &mut Object<'a>, _: Metadata<'a>, _: &mut Resources<'a>) {
    if let Some(kind) = object.required("type") {
        kind.choice(&[(TLS, ())]);
    }
    object.ignored(&["immutable"]);
    let at = [object.optional("data"), object.optional("stringData")];
    let maps = at.map(|at| at.map(|at| at.secret().object()));
    // What is no map was reported, and may have held anything.
    let is_whole = !maps.iter().any(|map| matches!(map, Some(None)));
    let [mut encoded, mut plain] = maps.map(Option::flatten);
    for part in &PARTS {
        let value = |map: &mut Option<Object<'a>>| map.as_mut()?.optional(part.key);
        // As Kubernetes has it, `stringData` holds over `data`.
        match (value(&mut plain), value(&mut encoded)) {
            (Some(at), _) => part.check(&at, |text| Some(text.as_bytes().to_vec())),
            (None, Some(at)) => part.check(&at, decoded),
            (None, None) if part.is_required && is_whole => object.cursor.error(format!(
                "has no `{}`; add it to `data` in base64, or to `stringData` as it is",
                part.key
            )),
            (None, None) => {}
        }
    }
    for map in [encoded, plain].into_iter().flatten() {
        map.finish();
    }
}

impl Part {
    fn check(&self, at: &Cursor<'_>, decode: impl FnOnce(&str) -> Option<Vec<u8>>) {
        let Some(text) = at.text() else {
            return;
        };
        // Base64 may begin with a slash, too, but has no dots.
        if text.starts_with('/') && text.contains('.') {
            return at.error("names a file, which is not supported yet; write its content here");
        }
        let Some(pem) = decode(text) else {
            return at.error("is not base64; encode it, or use `stringData`");
        };
        if !self.labels.iter().any(|label| has_block(&pem, label)) {
            let labels = self.labels.join(" or ");
            at.error(format!(
                "has no PEM block of {labels}; begin it with -----BEGIN {}-----",
                self.labels[0]
            ));
        }
    }
}

/// Line breaks are what a folded text has between its lines.
fn decoded(text: &str) -> Option<Vec<u8>> {
    let is_text = |byte: &u8| !byte.is_ascii_whitespace();
    let bytes: Vec<u8> = text.bytes().filter(is_text).collect();
    STANDARD.decode(bytes).ok()
}

/// Whether there is a block whose content is base64 of something.
fn has_block(pem: &[u8], label: &str) -> bool {
    let Ok(text) = std::str::from_utf8(pem) else {
        return false;
    };
    let (begin, end) = (
        format!("-----BEGIN {label}-----"),
        format!("-----END {label}-----"),
    );
    let block = text
        .split_once(&begin)
        .and_then(|(_, rest)| rest.split_once(&end));
    block.is_some_and(|(content, _)| decoded(content).is_some_and(|bytes| !bytes.is_empty()))
}
