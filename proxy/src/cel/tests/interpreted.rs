//! Expressions that take the interpreter.

use super::*;

#[test]
fn everything_else_is_interpreted() {
    let rows = [
        (
            r#""tenant-" + request.headers["X-Session-Id"]"#,
            text("tenant-abc"),
        ),
        (r#"request.headers["X-" + "SESSION-id"]"#, text("abc")),
        (
            r#"has(request.headers.x_missing) ? "a" : request.path"#,
            text("/items/7"),
        ),
        (
            r#""X-Session-Id" in request.headers"#,
            Ok(Value::Bool(true)),
        ),
        (
            r#"request.headers[?"x-missing"].orValue("none")"#,
            text("none"),
        ),
        (
            r#"request.headers[?"X-Session-ID"].orValue("none")"#,
            text("abc"),
        ),
        (r#"request.path.split("/")[1]"#, text("items")),
        (
            r#"request.path.matches("^/items/[0-9]+$")"#,
            Ok(Value::Bool(true)),
        ),
        (
            r#"cookie("session") + source.address"#,
            text("s-1192.0.2.10"),
        ),
        (
            r#"cookie(request.headers["x-session-id"])"#,
            Err(EvaluationError),
        ),
        (
            r#"request.headers["x-twice"].exists(one, one == "2")"#,
            Ok(Value::Bool(true)),
        ),
        (
            r#"request.headers["x-twice"].map(one, one + "!")[1]"#,
            text("2!"),
        ),
        (
            r#"bytes(request.method)"#,
            Ok(Value::Bytes(b"GET".to_vec())),
        ),
        ("string(request.headers[\"x-twice\"])", Err(EvaluationError)),
        (
            "request.uri",
            text("http://shop.example.org/items/7?page=2"),
        ),
        (
            "string(request.uri)",
            text("http://shop.example.org/items/7?page=2"),
        ),
        ("string(source.port)", text("4711")),
        ("source.port", Ok(Value::Other)),
        ("source.port == 4711", Ok(Value::Bool(true))),
        (
            r#"source.address + ":" + string(source.port)"#,
            text("192.0.2.10:4711"),
        ),
        (
            r#"{"GET": "read", "PUT": "write"}[request.method]"#,
            text("read"),
        ),
        (r#"{"a": {"b": request.path}}.a.b"#, text("/items/7")),
        (r#"{"POST": 1}[request.method]"#, Err(EvaluationError)),
        (
            r#""get" in {request.method.lowerAscii(): 1}"#,
            Ok(Value::Bool(true)),
        ),
        (r#"{"a": 1}"#, Ok(Value::Other)),
        (
            r#""%s from %s, %05d".format([request.path, source.address, 7])"#,
            Err(EvaluationError),
        ),
        (
            r#""%s from %s, %d".format([request.path, source.address, 7])"#,
            text("/items/7 from 192.0.2.10, 7"),
        ),
        (r#"strings.quote("a\"b")"#, text(r#""a\"b""#)),
        ("size(request.path)", Ok(Value::Other)),
        ("[request.path]", Ok(Value::Other)),
        ("null", Ok(Value::Other)),
        ("1 / 0", Err(EvaluationError)),
        ("request.path + 1", Err(EvaluationError)),
        ("9223372036854775807 + 1", Err(EvaluationError)),
        (r#""äöü".substring(1, 2)"#, text("ö")),
        (r#""abc".substring(5)"#, Err(EvaluationError)),
        (r#""abc".charAt(-1)"#, Err(EvaluationError)),
    ];
    for (source, expected) in rows {
        assert_eq!(evaluate(source), expected, "{source}");
    }
}
