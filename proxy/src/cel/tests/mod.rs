//! Expressions as operators write them, over requests as clients send them.

mod fallbacks;
mod interpreted;
mod plain;
mod refused;

use std::net::SocketAddr;

use super::*;

struct Request {
    headers: Vec<(&'static [u8], &'static [u8])>,
    source: SocketAddr,
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
    fn source(&self) -> SocketAddr {
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
        source: "192.0.2.10:4711".parse().expect("an address"),
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
