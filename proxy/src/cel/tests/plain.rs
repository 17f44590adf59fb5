//! Expressions that are read without the interpreter.

use super::*;

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
    const SOURCES: [&str; 4] = [
        "192.0.2.10:1",
        "[2001:db8::1]:2",
        "[::]:3",
        "[::ffff:192.0.2.1]:4",
    ];
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
