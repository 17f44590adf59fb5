//! Which requests stay together: an expression makes a value of a request's head, and equal values go to the same
//! endpoint. A request without a usable value is balanced as if there were no affinity, and counted. Values are hashed
//! where they are made and never kept, shown or logged.

mod address_text;

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

pub use crate::cel::CompileError;

use address_text::AddressText;

use crate::balance::AffinityKey;
use crate::cel::{Attributes, Kind, Program, Value};
use crate::http::Version;
use crate::http::h1::RequestHead;

/// What a backend binds its requests by.
#[derive(Clone, Debug)]
pub struct Affinity {
    program: Arc<Program>,
}

impl PartialEq for Affinity {
    fn eq(&self, other: &Self) -> bool {
        self.source() == other.source()
    }
}

impl Eq for Affinity {}

/// Why a request has no key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unbound {
    /// Something the expression needs is missing or unreadable.
    EvaluationError,
    /// The value is neither text nor bytes: a number, a truth, a list, as a header sent twice is.
    WrongType,
    Empty,
}

/// A request as expressions see it.
#[derive(Clone, Copy)]
pub struct Request<'a> {
    /// The bytes `head` was parsed from.
    pub bytes: &'a [u8],
    pub head: &'a RequestHead,
    /// Where the client connects from.
    pub source: SocketAddr,
}

impl Affinity {
    pub fn compile(source: &str) -> Result<Self, CompileError> {
        let program = Program::compile(source)?;
        Ok(Self {
            program: Arc::new(program),
        })
    }

    /// The expression, as it was written.
    pub fn source(&self) -> &str {
        self.program.source()
    }

    /// Whether it is the client's address and nothing else. Then it needs no request: see [`client_key`].
    pub fn is_client_address(&self) -> bool {
        self.program.is_source_address()
    }

    /// What its values are, if it can be told that they bind no request at all.
    pub fn unusable(&self) -> Option<Kind> {
        let kind = self.program.kind()?;
        (!matches!(kind, Kind::Text | Kind::Bytes)).then_some(kind)
    }

    pub fn key(&self, request: &Request<'_>) -> Result<AffinityKey, Unbound> {
        let value = self.program.evaluate(request);
        match value.map_err(|_| Unbound::EvaluationError)? {
            Value::Borrowed(text) => key_of(text.as_bytes()),
            Value::Text(text) => key_of(text.as_bytes()),
            Value::Bytes(bytes) => key_of(&bytes),
            Value::Address(address) => Ok(client_key(address)),
            Value::Bool(_) | Value::Other => Err(Unbound::WrongType),
        }
    }
}

/// What `source.address` binds the clients at an address by.
pub fn client_key(client: IpAddr) -> AffinityKey {
    AffinityKey::of(AddressText::of(client).as_bytes())
}

fn key_of(value: &[u8]) -> Result<AffinityKey, Unbound> {
    match value {
        [] => Err(Unbound::Empty),
        value => Ok(AffinityKey::of(value)),
    }
}

impl Attributes for Request<'_> {
    fn method(&self) -> &[u8] {
        self.head.method_name(self.bytes)
    }

    fn path(&self) -> &[u8] {
        self.head.path(self.bytes)
    }

    fn path_and_query(&self) -> &[u8] {
        self.head.path_and_query(self.bytes)
    }

    fn host(&self) -> Option<&[u8]> {
        self.head.host(self.bytes)
    }

    fn scheme(&self) -> &'static str {
        "http"
    }

    fn version(&self) -> &'static str {
        match self.head.version() {
            Version::Http10 => "HTTP/1.0",
            Version::Http11 => "HTTP/1.1",
        }
    }

    fn for_each_header<'a>(&'a self, see: &mut dyn FnMut(&'a [u8], &'a [u8])) {
        for field in self.head.fields().iter() {
            see(field.name(self.bytes), field.value(self.bytes));
        }
    }

    fn for_each_value_of<'a>(&'a self, name: &str, see: &mut dyn FnMut(&'a [u8])) {
        // One call for what is found, instead of one for each field.
        for field in self.head.fields().iter() {
            if field.name(self.bytes).eq_ignore_ascii_case(name.as_bytes()) {
                see(field.value(self.bytes));
            }
        }
    }

    fn source(&self) -> SocketAddr {
        self.source
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::http::h1::HeadLimits;

    fn key(source: &str, fields: &str) -> Result<AffinityKey, Unbound> {
        let affinity = Affinity::compile(source).expect(source);
        let bytes = format!("GET /a?b HTTP/1.1\r\nHost: h\r\n{fields}\r\n");
        let mut head = RequestHead::default();
        head.parse(bytes.as_bytes(), &HeadLimits::default())
            .expect("a valid head");
        affinity.key(&Request {
            bytes: bytes.as_bytes(),
            head: &head,
            source: "192.0.2.10:4711".parse().expect("an address"),
        })
    }

    const SESSION: &str = r#"request.headers["x-session-id"]"#;

    #[test]
    fn equal_values_give_equal_keys_wherever_they_come_from() {
        let expected = Ok(AffinityKey::of(b"192.0.2.10"));
        assert_eq!(key("string(source.address)", ""), expected);
        assert_eq!(key(SESSION, "X-Session-Id: 192.0.2.10\r\n"), expected);
        assert_eq!(
            key(r#"cookie("ip")"#, "Cookie: ip=192.0.2.10\r\n"),
            expected
        );
        assert_eq!(key("bytes(source.address)", ""), expected);
        assert_eq!(key("source.address + \"\"", ""), expected);
        assert_eq!(
            key("request.pathAndQuery", ""),
            Ok(AffinityKey::of(b"/a?b"))
        );
    }

    #[test]
    fn an_expression_has_one_to_16384_characters() {
        let of_length = |length: usize| format!("\"{}\"", "a".repeat(length - 2));
        assert!(Affinity::compile("\"\"").is_ok());
        assert!(Affinity::compile(&of_length(16_384)).is_ok());
        for source in [String::new(), of_length(16_385)] {
            let error = Affinity::compile(&source).expect_err("refused").to_string();
            let expected = format!("1 to 16384 characters, and this one has {}", source.len());
            assert!(error.contains(&expected), "{error}");
        }
    }

    #[test]
    fn a_value_that_is_none_says_which_of_three_things_happened() {
        assert_eq!(key(SESSION, ""), Err(Unbound::EvaluationError));
        assert_eq!(key(SESSION, "x-session-id: \r\n"), Err(Unbound::Empty));
        assert_eq!(key("\"\"", ""), Err(Unbound::Empty));
        let twice = "x-session-id: a\r\nX-Session-ID: a\r\n";
        assert_eq!(key(SESSION, twice), Err(Unbound::WrongType));
        for source in [
            "1",
            "true",
            "[request.path]",
            "null",
            "request.path == \"/\"",
        ] {
            assert_eq!(key(source, ""), Err(Unbound::WrongType), "{source}");
        }
    }
}
