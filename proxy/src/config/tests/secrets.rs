//! Secret: a pair is taken, what is none is told, and no value is ever told.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;

use super::*;

const CERTIFICATE: &str = "-----BEGIN CERTIFICATE-----\nMIIB\n-----END CERTIFICATE-----\n";
const KEY: &str = "-----BEGIN PRIVATE KEY-----\nc2VjcmV0\n-----END PRIVATE KEY-----\n";

/// The shop with a Secret that has these parts, from line 38 on.
fn shop_with(parts: &str) -> Checked {
    checked(&format!(
        "{SHOP}---\napiVersion: v1\nkind: Secret\nmetadata: {{name: web}}\n{parts}\n"
    ))
}

#[test]
fn a_pair_is_taken_as_it_is_or_in_base64() {
    let encoded = |text: &str| STANDARD.encode(text);
    let (certificate, key) = (encoded(CERTIFICATE), encoded(KEY));
    for parts in [
        format!("stringData: {{tls.crt: {CERTIFICATE:?}, tls.key: {KEY:?}}}"),
        format!("data: {{tls.crt: {certificate}, tls.key: {key}, ca.crt: {certificate}}}"),
        format!("data: {{tls.crt: {certificate}}}\nstringData: {{tls.key: {KEY:?}}}"),
        format!(
            "immutable: true\ndata: {{tls.crt: '?', tls.key: {key}}}\nstringData: {{tls.crt: {CERTIFICATE:?}}}"
        ),
        format!(
            "data:\n  tls.key: {key}\n  tls.crt: >-\n    {}\n    {}",
            &certificate[..20],
            &certificate[20..]
        ),
    ] {
        let checked = shop_with(&format!("type: kubernetes.io/tls\n{parts}"));
        assert_eq!(lines(&checked.problems), "", "{parts}");
        assert!(checked.plan.is_some());
    }
}

#[test]
fn what_is_no_pair_is_told_with_its_place_and_never_quoted() {
    for (parts, expected) in [
        (
            "data: hunter2",
            "43:7: error: Secret default/web: data: is text; write keys and values",
        ),
        (
            "data: {tls.key: 13371337}",
            "43:17: error: Secret default/web: data.tls.key: is something else; write text (in quotes if it looks like something else)",
        ),
        (
            "data: {tls.key: [hunter2]}",
            "43:17: error: Secret default/web: data.tls.key: is a list; write text (in quotes if it looks like something else)",
        ),
        (
            "data: {tls.key: 'hunter2!'}",
            "43:17: error: Secret default/web: data.tls.key: is not base64; encode it, or use `stringData`",
        ),
        (
            "data: {tls.key: /etc/hunter2.pem}",
            "43:17: error: Secret default/web: data.tls.key: names a file, which is not supported yet; write its content here",
        ),
        (
            "stringData: {tls.key: hunter2}",
            "43:23: error: Secret default/web: stringData.tls.key: has no PEM block of PRIVATE KEY or RSA PRIVATE KEY or EC PRIVATE KEY; begin it with -----BEGIN PRIVATE KEY-----",
        ),
        (
            "stringData: {tls.crt: \"-----BEGIN CERTIFICATE-----hunter2\"}",
            "43:23: error: Secret default/web: stringData.tls.crt: has no PEM block of CERTIFICATE; begin it with -----BEGIN CERTIFICATE-----",
        ),
        (
            "data: {tls.cert: aHVudGVyMg==}",
            "43:8: error: Secret default/web: data.tls.cert: is not a known field; did you mean `tls.crt`?",
        ),
        (
            "data: {tls.key: aHVudGVyMg==}",
            "39:1: error: Secret default/web: has no `tls.crt`; add it to `data` in base64, or to `stringData` as it is",
        ),
        (
            "file: hunter2",
            "43:1: error: Secret default/web: file: is not a known field; leave it out",
        ),
    ] {
        let problems = shop_with(&format!("type: kubernetes.io/tls\n{parts}")).problems;
        let text = lines(&problems);
        let expected = format!("a.yaml:{expected}");
        assert!(text.lines().any(|line| line == expected), "{text}");
        for secret in ["hunter2", "13371337", "aHVudGVyMg"] {
            assert!(!text.contains(secret), "{text}");
        }
    }
    let problems = lines(&shop_with("type: kubernetes.io/tsl").problems);
    let expected = "a.yaml:42:7: error: Secret default/web: type: `kubernetes.io/tsl` is not one of kubernetes.io/tls";
    assert!(problems.contains(expected), "{problems}");
}
