//! Expressions that are refused, and why.

use super::*;

#[test]
fn an_expression_that_cannot_be_understood_says_where() {
    let rows = [
        ("request.headers[", "line 1, column 17: "),
        ("request.path ==\n  ==", "line 2, column 3: "),
        (
            "request.header",
            "line 1, column 8: `request.header` is not known here; request has method, path,",
        ),
        (
            "request.body",
            "line 1, column 8: `request.body` is not supported yet: bodies are passed on unread",
        ),
        (
            "source.identity",
            "column 7: `source.identity` is not supported yet: without TLS a client is its address and port",
        ),
        (
            "request.path + jwt.sub",
            "column 16: `jwt` is not supported yet: there is no authentication",
        ),
        ("llm.requestModel", "`llm` is not supported yet: "),
        ("mcp.sessionId", "`mcp` is not supported yet: "),
        ("backend.name", "`backend` is not supported yet: "),
        ("destination.port", "`destination` is not supported yet: "),
        (
            r#"duration("1s")"#,
            "`duration` is not supported yet: dates and durations",
        ),
        (
            "default(request.path)",
            "column 8: `default` takes an expression and what to take instead, as in `default(a, b)`",
        ),
        (
            r#"request.path.default("a")"#,
            "`default` takes an expression and",
        ),
        ("coalesce()", "`coalesce` takes one expression or more"),
        (
            r#"cookie("a", "b")"#,
            "`cookie` takes the name of the cookie",
        ),
        (
            "default(requst.path, 1)",
            "column 9: `requst` is not known here",
        ),
        (
            "sourc.address",
            "line 1, column 1: `sourc` is not known here; there are request.method",
        ),
        ("request", "`request` is not known here"),
        (
            "\n request.path.frob()",
            "line 2, column 19: `frob` is not known here; there are size,",
        ),
        (
            r#"request.path.matches(request.method)"#,
            "must be written out in quotes",
        ),
        (
            r#"request.path.matches("(a{1000}){1000}")"#,
            "takes too much memory; repeat less in it",
        ),
        (
            r#"request.path.matches("(a")"#,
            "is not a regular expression: unclosed group",
        ),
        ("Message{a: 1}", "messages cannot be made here"),
    ];
    for (source, expected) in rows {
        let error = Program::compile(source).expect_err(source).to_string();
        assert!(error.contains(expected), "{source}: {error}");
    }
}

#[test]
fn one_to_sixteen_thousand_characters_are_an_expression() {
    let padded = |length: usize| format!("request.path{}", " ".repeat(length - 12));
    assert_eq!(
        Program::compile("").err(),
        Some(CompileError::Length { length: 0 })
    );
    assert!(Program::compile(&padded(MAX_LENGTH)).is_ok());
    let length = MAX_LENGTH + 1;
    assert_eq!(
        Program::compile(&padded(length)).err(),
        Some(CompileError::Length { length })
    );
    // Characters, not bytes.
    assert!(Program::compile(&format!("\"{}\"", "ä".repeat(MAX_LENGTH - 2))).is_ok());
}

#[test]
fn no_text_breaks_the_parser() {
    let mut texts: Vec<String> = [
        "(", "[", "-", "!", "{", "a.", "a[", "f(", "1+", "?", "\"", "a?b:", "x.map(y,",
    ]
    .iter()
    .map(|part| part.repeat(MAX_LENGTH / part.len()))
    .collect();
    texts.extend([
        format!("1{}", "+1".repeat(8000)),
        format!("{}1{}", "(".repeat(500), ")".repeat(500)),
        format!("request{}", ".a".repeat(8000)),
        format!("{}1", "true?1:".repeat(2000)),
        format!("{}1{}", "[1].map(x,".repeat(90), ")".repeat(90)),
    ]);
    for text in texts {
        assert!(Program::compile(&text).is_err(), "{}...", &text[..12]);
    }
}

#[test]
fn what_could_cost_too_much_is_refused() {
    let nested = |depth: usize| {
        let open: String = (0..depth)
            .map(|n| format!("request.headers.exists(k{n}, "))
            .collect();
        format!("{open}true{}", ")".repeat(depth))
    };
    assert!(Program::compile(&nested(1)).is_ok());
    for source in [
        nested(4),
        r#"request.path.replace("", request.path)"#.into(),
        format!("request.path{}", " + request.path".repeat(50)),
    ] {
        assert_eq!(
            Program::compile(&source).err(),
            Some(CompileError::TooCostly),
            "{source}"
        );
    }
    assert!(Program::compile(&format!("request.path{}", " + request.path".repeat(9))).is_ok());
    let formatted = r#""%s".format([request.path])"#;
    assert!(Program::compile(formatted).is_ok());
    let twice = format!("{formatted}.split(\"\").map(one, {formatted})");
    assert_eq!(
        Program::compile(&twice).err(),
        Some(CompileError::TooCostly)
    );
}

#[test]
fn the_status_of_grpc_is_told_to_be_missing() {
    let error = Program::compile_over_response("response.grpcStatus != 0");
    let error = error.expect_err("no such field").to_string();
    let expected =
        "line 1, column 9: `response.grpcStatus` is not supported yet: gRPC is not served";
    assert_eq!(error, expected);
}
