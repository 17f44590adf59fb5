//! Files as text: what cannot be read, costs too much to read, or is of any shape at all.

use super::*;

#[test]
fn a_file_that_is_no_yaml_does_not_hide_what_is_wrong_in_others() {
    let source = |name: &str, text: &str| Source {
        name: name.to_owned(),
        text: text.to_owned(),
    };
    let mistaken = changed(SHOP, "protocol: HTTP", "protocol: TLS");
    let sources = [
        source("a.yaml", "a: [1\nb: 2\n"),
        source("b.yaml", &mistaken),
    ];
    let problems = check(&sources, None).problems;
    let text = lines(&problems);
    assert!(
        text.starts_with("a.yaml:2:2: error: cannot be read as YAML or JSON: "),
        "{text}"
    );
    assert!(text.contains("b.yaml:7:40: error: "), "{text}");
}

#[test]
fn json_that_cannot_be_read_is_told_where_it_goes_wrong() {
    for (text, expected) in [
        (
            "{\n  \"kind\": \"Service\"\n  \"metadata\": {}\n}",
            "a.json:3:3: error: cannot be read as JSON: expected `,` or `}`",
        ),
        (
            "{\"spec\": {\"ports\": [1,, ]}}",
            "a.json:1:23: error: cannot be read as JSON: expected value",
        ),
        (
            "{\n\"kind\": \"Serv",
            "a.json:2:13: error: cannot be read as JSON: EOF while parsing a string",
        ),
    ] {
        let source = Source {
            name: "a.json".to_owned(),
            text: text.to_owned(),
        };
        assert_eq!(lines(&check(&[source], None).problems), expected);
    }
}

#[test]
fn documents_of_any_shape_are_refused_without_harm() {
    for text in [
        "",
        "3",
        "[]",
        "{}",
        "a",
        "---\n---\n",
        "kind: 3\napiVersion: []",
        "? [a]\n: b",
        "a: &a [*a]",
        "\0",
    ] {
        let checked = checked(text);
        assert_eq!(checked.plan, None, "{text:?}");
        assert!(!checked.problems.is_empty(), "{text:?}");
    }
}

#[test]
fn what_would_cost_too_much_to_read_is_refused() {
    let nested = "[".repeat(100_000);
    let mut multiplied = "a: &a [x, x, x, x, x, x, x, x, x]\n".to_owned();
    for (name, of) in ('b'..='j').zip('a'..) {
        multiplied += &format!(
            "{name}: &{name} [{}]\n",
            vec![format!("*{of}"); 9].join(", ")
        );
    }
    for text in [nested, multiplied] {
        let problems = lines(&checked(&text).problems);
        assert!(
            problems.contains("cannot be read as YAML or JSON"),
            "{problems}"
        );
    }
}

#[test]
fn numbers_of_any_kind_are_told_like_any_other_mistake() {
    for (value, said) in [
        (".nan", "NaN"),
        ("99999999999999999999", "100000000000000000000"),
        ("8e1", "80"),
    ] {
        let text = changed(SHOP, "port: 8000", &format!("port: {value}"));
        let problems = lines(&checked(&text).problems);
        let expected = format!(
            "a.yaml:33:22: error: EndpointSlice default/shop-1: ports[0].port: is the number {said}; write"
        );
        assert!(problems.contains(&expected), "{problems}");
    }
}

proptest::proptest! {
    #[test]
    fn no_text_does_harm(text in "\\PC*", cut in 0..SHOP.len(), at in 0..SHOP.len()) {
        let spliced = format!("{}{text}{}", &SHOP[..cut], &SHOP[at..]);
        for text in [text, spliced] {
            let checked = checked(&text);
            proptest::prop_assert!(checked.plan.is_some() || !checked.problems.is_empty());
        }
    }
}
