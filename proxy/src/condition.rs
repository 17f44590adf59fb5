//! Which responses mean that their endpoint is unhealthy, where the statuses from 500 on are not what an operator means:
//! an expression over the response, and if it likes over the request, that is true or false.

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;

pub use crate::cel::CompileError;

use crate::affinity;
use crate::cel::{Attributes, Kind, Program, Value};
use crate::http::h1::ResponseHead;

/// Holds for responses of an unhealthy endpoint.
#[derive(Clone, Debug)]
pub struct Condition {
    program: Arc<Program>,
}

impl PartialEq for Condition {
    fn eq(&self, other: &Self) -> bool {
        self.source() == other.source()
    }
}

impl Eq for Condition {}

/// Why an expression says nothing of a response.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Undecided {
    /// Something it needs is missing or unreadable.
    EvaluationError,
    /// Its value is neither true nor false.
    WrongType,
}

/// A response, and the request it answers, as expressions see them.
#[derive(Clone, Copy)]
pub struct Answered<'a> {
    /// Only where the condition [reads it](Condition::reads_request).
    pub request: Option<affinity::Request<'a>>,
    /// The bytes `head` was parsed from.
    pub bytes: &'a [u8],
    pub head: &'a ResponseHead,
}

impl Condition {
    pub fn compile(source: &str) -> Result<Self, CompileError> {
        let program = Program::compile_over_response(source)?;
        if let Some(found) = program.kind().filter(|kind| *kind != Kind::Bool) {
            return Err(CompileError::Kind {
                found,
                wanted: Kind::Bool,
            });
        }
        Ok(Self {
            program: Arc::new(program),
        })
    }

    /// The expression, as it was written.
    pub fn source(&self) -> &str {
        self.program.source()
    }

    /// Whether the request's head must be kept until its response comes.
    pub fn reads_request(&self) -> bool {
        self.program.reads_request()
    }

    pub fn holds(&self, answered: &Answered<'_>) -> Result<bool, Undecided> {
        match self.program.evaluate(answered) {
            Ok(Value::Bool(holds)) => Ok(holds),
            Ok(_) => Err(Undecided::WrongType),
            Err(_) => Err(Undecided::EvaluationError),
        }
    }
}

impl Attributes for Answered<'_> {
    fn method(&self) -> &[u8] {
        self.request.as_ref().map_or(b"", |it| it.method())
    }

    fn path(&self) -> &[u8] {
        self.request.as_ref().map_or(b"", |it| it.path())
    }

    fn path_and_query(&self) -> &[u8] {
        self.request.as_ref().map_or(b"", |it| it.path_and_query())
    }

    fn host(&self) -> Option<&[u8]> {
        self.request.as_ref()?.host()
    }

    fn scheme(&self) -> &'static str {
        self.request.as_ref().map_or("", |it| it.scheme())
    }

    fn version(&self) -> &'static str {
        self.request.as_ref().map_or("", |it| it.version())
    }

    fn for_each_header<'a>(&'a self, see: &mut dyn FnMut(&'a [u8], &'a [u8])) {
        if let Some(request) = &self.request {
            request.for_each_header(see);
        }
    }

    fn source(&self) -> SocketAddr {
        let unspecified = SocketAddr::from((Ipv4Addr::UNSPECIFIED, 0));
        self.request.as_ref().map_or(unspecified, |it| it.source())
    }

    fn response_code(&self) -> Option<u16> {
        Some(self.head.status().code())
    }

    fn for_each_response_header<'a>(&'a self, see: &mut dyn FnMut(&'a [u8], &'a [u8])) {
        for field in self.head.fields().iter() {
            see(field.name(self.bytes), field.value(self.bytes));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::http::Method;
    use crate::http::h1::{HeadLimits, RequestHead};

    const RESPONSE: &str =
        "HTTP/1.1 429 Slow Down\r\nX-Shed: yes\r\nX-Twice: 1\r\nx-twice: 2\r\n\r\n";

    fn holds(source: &str) -> Result<bool, Undecided> {
        let condition = Condition::compile(source).expect(source);
        let limits = HeadLimits::default();
        let request = b"GET /health HTTP/1.1\r\nHost: h\r\nX-Probe: 1\r\n\r\n";
        let mut request_head = RequestHead::default();
        request_head.parse(request, &limits).expect("a valid head");
        let mut head = ResponseHead::default();
        head.parse(RESPONSE.as_bytes(), Method::Get, &limits)
            .expect("a valid head");
        condition.holds(&Answered {
            request: Some(affinity::Request {
                bytes: request,
                head: &request_head,
                source: "192.0.2.10:4711".parse().expect("an address"),
            }),
            bytes: RESPONSE.as_bytes(),
            head: &head,
        })
    }

    #[test]
    fn a_condition_may_ask_for_anything_of_a_response_and_its_request() {
        for (source, expected) in [
            ("response.code == 429", true),
            ("response.code >= 500", false),
            ("response.code >= 500 || response.code == 429", true),
            ("response.code > 428 && response.code < 430", true),
            ("response.code / 100 == 4", true),
            (r#"response.headers["x-shed"] == "yes""#, true),
            (r#"response.headers["X-Shed"] == "no""#, false),
            (r#""retry-after" in response.headers"#, false),
            (r#"response.headers["x-twice"][1] == "2""#, true),
            (
                r#"response.code == 429 && request.path != "/health""#,
                false,
            ),
            (r#""X-Probe" in request.headers"#, true),
            ("true", true),
        ] {
            assert_eq!(holds(source), Ok(expected), "{source}");
        }
    }

    #[test]
    fn what_is_neither_true_nor_false_decides_nothing() {
        for source in [
            r#"response.headers["x-missing"] == "1""#,
            r#"request.headers["x-missing"] == "1""#,
            "response.code == \"429\" + 1",
        ] {
            assert_eq!(holds(source), Err(Undecided::EvaluationError), "{source}");
        }
        let source = r#"response.headers["x-shed"]"#;
        assert_eq!(holds(source), Err(Undecided::WrongType));
    }

    #[test]
    fn what_can_never_be_true_or_false_is_no_condition() {
        for (source, found) in [
            ("response.code", "a number"),
            ("response.code / 100", "a number"),
            ("request.path + \"/\"", "text"),
            ("response.code == 500 ? 1 : 0", "a number"),
            ("[true]", "a list"),
            ("response.headers", "a map"),
            ("null", "null"),
            ("response.headers.map(name, name)", "a list"),
        ] {
            let error = Condition::compile(source).expect_err(source).to_string();
            assert!(error.starts_with(&format!("gives {found} ")), "{error}");
        }
        for source in [
            "response.headers.exists(name, name == \"x\")",
            "response.headers.exists_one(name, name == \"x\")",
            "has(response.headers.x)",
            "dyn(1)",
        ] {
            assert!(Condition::compile(source).is_ok(), "{source}");
        }
    }

    #[test]
    fn only_a_condition_that_asks_for_it_needs_the_request() {
        let reads = |source| Condition::compile(source).expect(source).reads_request();
        assert!(!reads("response.code >= 500"));
        assert!(!reads("true"));
        assert!(reads("response.code >= 500 && request.path != \"/\""));
        assert!(reads("cookie(\"a\") == \"b\""));
    }

    #[test]
    fn a_request_alone_has_no_response_to_ask_for() {
        assert!(affinity::Affinity::compile("response.code").is_err());
        assert!(affinity::Affinity::compile("response.headers.x").is_err());
        let error = Condition::compile("response.status").expect_err("unknown");
        assert!(
            error.to_string().contains("response has code, headers"),
            "{error}"
        );
    }
}
