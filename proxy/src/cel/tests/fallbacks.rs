//! `default` and `coalesce`: what is missing is no error where there is something else to take.

use super::*;

#[test]
fn what_is_missing_or_null_is_replaced_and_what_is_there_is_kept() {
    for (source, expected) in [
        (
            r#"default(request.headers["X-Session-ID"], "none")"#,
            text("abc"),
        ),
        (
            r#"default(request.headers["x-missing"], "none")"#,
            text("none"),
        ),
        (r#"default(request.headers["x-empty"], "none")"#, text("")),
        (
            r#"default(request.headers["x-twice"], "none")"#,
            Ok(Value::Other),
        ),
        (r#"default(cookie("late"), request.path)"#, text("1")),
        (
            r#"default(cookie("no"), string(source.address))"#,
            text("192.0.2.10"),
        ),
        (
            r#"coalesce(request.headers["x-missing"], cookie("no"), request.host)"#,
            text("shop.example.org"),
        ),
        (
            r#"coalesce(request.headers["x-missing"], cookie("no"))"#,
            Err(EvaluationError),
        ),
        (
            r#"default(default(cookie("no"), request.headers.no), "end")"#,
            text("end"),
        ),
    ] {
        let program = Program::compile(source).expect(source);
        assert_ne!(program.shape, Shape::Other, "{source} takes the long way");
        let request = request();
        assert_eq!(plain(program.evaluate(&request)), expected, "{source}");
        let interpreted = plain(program.interpret(&request));
        assert_eq!(interpreted, expected, "{source}, interpreted");
    }
}

#[test]
fn fallbacks_stand_anywhere_in_an_expression() {
    for (source, expected) in [
        (
            r#""tenant-" + default(request.headers["x-tenant"], "none")"#,
            text("tenant-none"),
        ),
        (
            r#"default(request.headers["x-missing"].split("/")[0], "none")"#,
            text("none"),
        ),
        (
            r#"request.path.split("/").map(part, default({"items": "i"}[part], part)).join(".")"#,
            text(".i.7"),
        ),
        (
            r#"["x-missing", "x-session-id"].map(name, coalesce(request.headers[name], name + "?")).join(",")"#,
            text("x-missing?,abc"),
        ),
        (
            r#"default(null, coalesce(null, request.headers.no + cookie("no"), "end"))"#,
            text("end"),
        ),
        (
            r#"default(request.headers["x-missing"], request.headers["x-missing"])"#,
            Err(EvaluationError),
        ),
        (
            r#"default([1, 2].exists(n, n == 2), false)"#,
            Ok(Value::Bool(true)),
        ),
        (
            r#"default(cookie("no"), "a") == coalesce("a")"#,
            Ok(Value::Bool(true)),
        ),
    ] {
        assert_eq!(evaluate(source), expected, "{source}");
    }
}

#[test]
fn only_coalesce_gets_over_errors_that_are_no_absence() {
    assert_eq!(
        evaluate(r#"default(request.path + 1, "a")"#),
        Err(EvaluationError)
    );
    assert_eq!(evaluate(r#"coalesce(request.path + 1, "a")"#), text("a"));
    assert_eq!(evaluate("coalesce(1 / 0, null)"), Ok(Value::Other));
    assert_eq!(evaluate("coalesce(null, 1 / 0)"), Ok(Value::Other));
    assert_eq!(
        evaluate("coalesce(cookie(\"no\"), 1 / 0)"),
        Err(EvaluationError)
    );
}

#[test]
fn what_is_not_wanted_is_not_evaluated() {
    assert_eq!(evaluate(r#"default("a", 1 / 0)"#), text("a"));
    assert_eq!(evaluate(r#"coalesce(cookie("no"), "a", 1 / 0)"#), text("a"));
}

#[test]
fn fallbacks_are_bounded_as_all_else_is() {
    let nested = |depth: usize| {
        let open = "default(cookie(\"no\"), ".repeat(depth);
        format!("{open}request.path + \"\"{}", ")".repeat(depth))
    };
    assert_eq!(evaluate(&nested(15)), text("/items/7"));
    assert_eq!(
        Program::compile(&nested(17)).err(),
        Some(CompileError::TooDeep)
    );
    let first = |depth: usize| {
        let open = "coalesce(".repeat(depth);
        format!("{open}1 / 0{}", ", null)".repeat(depth))
    };
    assert_eq!(evaluate(&first(15)), Ok(Value::Other));
    let wide = format!("coalesce({})", ["request.path"; 600].join(", "));
    assert_eq!(Program::compile(&wide).err(), Some(CompileError::TooCostly));
}

#[test]
fn the_kind_of_a_value_is_seen_through_fallbacks() {
    let kind = |source| Program::compile(source).expect(source).kind();
    assert_eq!(kind(r#"default(cookie("a"), "b")"#), Some(Kind::Text));
    assert_eq!(kind("coalesce(1, 2)"), Some(Kind::Number));
    assert_eq!(kind(r#"default(cookie("a"), 1)"#), None);
}
