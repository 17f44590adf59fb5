//! Expressions as operators write them, over requests as clients send them.

use std::net::IpAddr;

use super::*;

struct Request {
    headers: Vec<(&'static [u8], &'static [u8])>,
    source: IpAddr,
}

impl Attributes for Request {
    fn method(&self) -> &[u8] {
        b"GET"
    }
    fn path(&self) -> &[u8] {
        b"/items/7"
    }
    fn path_and_query(&self) -> &[u8] {
        b"/items/7?page=2"
    }
    fn host(&self) -> Option<&[u8]> {
        Some(b"shop.example.org")
    }
    fn scheme(&self) -> &'static str {
        "http"
    }
    fn version(&self) -> &'static str {
        "HTTP/1.1"
    }
    fn for_each_header<'a>(&'a self, see: &mut dyn FnMut(&'a [u8], &'a [u8])) {
        for (name, value) in &self.headers {
            see(name, value);
        }
    }
    fn source(&self) -> IpAddr {
        self.source
    }
    fn response_code(&self) -> Option<u16> {
        Some(429)
    }
}

fn request() -> Request {
    Request {
        headers: vec![
            (b"Host", b"shop.example.org"),
            (b"X-Session-ID", b"abc"),
            (b"x-empty", b""),
            (b"X-Twice", b"1"),
            (b"x-twice", b"2"),
            (b"x-binary", b"\xff\xfe"),
            (b"x-mixed", b"a"),
            (b"X-Mixed", b"\xff"),
            (b"Cookie", b"theme=dark; session=s-1;  broken; a=b=c"),
            (b"cookie", b"late=1; session=s-2"),
        ],
        source: "192.0.2.10".parse().expect("an address"),
    }
}

/// Address and borrowed text as text: the interpreter knows neither.
fn plain(value: Result<Value<'_>, EvaluationError>) -> Result<Value<'static>, EvaluationError> {
    Ok(match value? {
        Value::Borrowed(text) => Value::Text(text.to_owned()),
        Value::Address(address) => Value::Text(address.to_string()),
        Value::Text(text) => Value::Text(text),
        Value::Bytes(bytes) => Value::Bytes(bytes),
        Value::Bool(bool) => Value::Bool(bool),
        Value::Other => Value::Other,
    })
}

fn evaluate(source: &str) -> Result<Value<'static>, EvaluationError> {
    let program = Program::compile(source).unwrap_or_else(|error| panic!("{source}: {error}"));
    plain(program.evaluate(&request()))
}

fn text(text: &str) -> Result<Value<'static>, EvaluationError> {
    Ok(Value::Text(text.to_owned()))
}

#[test]
fn plain_reads_agree_with_the_interpreter() {
    let rows = [
        (r#"request.headers["x-session-id"]"#, text("abc")),
        (r#"request.headers["X-Session-Id"]"#, text("abc")),
        ("request.headers.host", text("shop.example.org")),
        (r#"request.headers["x-empty"]"#, text("")),
        (r#"request.headers["x-missing"]"#, Err(EvaluationError)),
        (r#"request.headers["x-twice"]"#, Ok(Value::Other)),
        (r#"request.headers["x-binary"]"#, Err(EvaluationError)),
        (r#"request.headers["x-mixed"]"#, Err(EvaluationError)),
        ("request.path", text("/items/7")),
        ("request.pathAndQuery", text("/items/7?page=2")),
        ("request.method", text("GET")),
        ("request.host", text("shop.example.org")),
        ("request.scheme", text("http")),
        ("request.version", text("HTTP/1.1")),
        ("source.address", text("192.0.2.10")),
        ("string(source.address)", text("192.0.2.10")),
        ("string(request.path)", text("/items/7")),
        (r#"cookie("session")"#, text("s-1")),
        (r#"string(cookie("theme"))"#, text("dark")),
        (r#"cookie("a")"#, text("b=c")),
        (r#"cookie("late")"#, text("1")),
        (r#"cookie("Session")"#, Err(EvaluationError)),
        (r#"cookie("broken")"#, Err(EvaluationError)),
    ];
    for (source, expected) in rows {
        let program = Program::compile(source).expect(source);
        assert_ne!(program.shape, Shape::Other, "{source} takes the long way");
        let request = request();
        assert_eq!(plain(program.evaluate(&request)), expected, "{source}");
        assert_eq!(
            plain(program.interpret(&request)),
            expected,
            "{source}, interpreted"
        );
    }
}

#[test]
fn plain_reads_agree_with_the_interpreter_on_whatever_comes() {
    const NAMES: [&[u8]; 6] = [b"x-a", b"X-A", b"X-b", b"cookie", b"Cookie", b"x-c"];
    const VALUES: [&[u8]; 9] = [
        b"",
        b"1",
        b"\xff",
        b"a=1",
        b"a=; b=2",
        b"b=\xff; a=3",
        b"aa=4;a=5",
        b";=; a",
        "\u{e4}".as_bytes(),
    ];
    const SOURCES: [&str; 4] = ["192.0.2.10", "2001:db8::1", "::", "::ffff:192.0.2.1"];
    let programs = [
        "request.headers.host",
        r#"request.headers["X-A"]"#,
        r#"request.headers["x-b"]"#,
        r#"request.headers["cookie"]"#,
        r#"cookie("a")"#,
        r#"cookie("b")"#,
        r#"string(cookie("aa"))"#,
        "source.address",
        "string(source.address)",
    ]
    .map(|source| Program::compile(source).expect(source));
    // A linear congruential generator (Knuth, MMIX); the low bits are poor.
    let mut state = 7_u64;
    let mut draw = |below: usize| {
        state = state
            .wrapping_mul(6364136223846793005)
            .wrapping_add(1442695040888963407);
        (state >> 33) as usize % below
    };
    for round in 0..300 {
        let count = draw(6);
        let request = Request {
            headers: (0..count)
                .map(|_| (NAMES[draw(6)], VALUES[draw(9)]))
                .collect(),
            source: SOURCES[draw(4)].parse().expect("an address"),
        };
        for program in &programs {
            assert_eq!(
                plain(program.evaluate(&request)),
                plain(program.interpret(&request)),
                "{} in round {round}: {:?}",
                program.source,
                request.headers
            );
        }
    }
}

#[test]
fn tests_of_a_status_agree_with_the_interpreter() {
    let mut held = 0;
    for comparison in ["==", "!=", "<", "<=", ">", ">="] {
        for code in [428, 429, 430] {
            let test = format!("response.code {comparison} {code}");
            for source in [
                test.clone(),
                format!("{test} || response.code == 500"),
                format!("{test} && response.code < 500"),
                format!("response.code == 1 || ({test} && response.code != 3)"),
            ] {
                let program = Program::compile_over_response(&source).expect(&source);
                assert_ne!(program.shape, Shape::Other, "{source} takes the long way");
                let request = request();
                let quick = program.evaluate(&request);
                assert_eq!(quick, program.interpret(&request), "{source}");
                held += usize::from(quick == Ok(Value::Bool(true)));
            }
        }
    }
    assert_eq!(held, 4 * 9, "half of them");
}

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

#[test]
fn an_expression_that_cannot_be_understood_says_where() {
    let rows = [
        ("request.headers[", "line 1, column 17: "),
        ("request.path ==\n  ==", "line 2, column 3: "),
        (
            "request.header",
            "line 1, column 8: `request.header` is not known here; request has method, path,",
        ),
        ("request.body", "`request.body` is not known here"),
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
        (r#"{"a": 1}"#, "maps and messages cannot be made here"),
        ("jwt.sub", "`jwt` is not known here"),
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
}
