//! Expressions of the Common Expression Language over a request, or over a request and its response. An expression is
//! checked once: what it names exists, and its cost has a bound whatever request comes. Plain ones are then read straight
//! off the request; the others go through the interpreter, which gives the same answers.

mod attributes;
mod bound;
mod check;
mod fallback;
mod guard;
mod interpret;
mod kind;
mod names;
mod parse;
mod shape;
mod status_test;
#[cfg(test)]
mod tests;

pub use attributes::Attributes;
pub use kind::Kind;

use std::fmt;
use std::net::IpAddr;
use std::sync::Arc;

use cel_interpreter::IdedExpr;

use attributes::{Attribute, Subject};
use fallback::Fallback;
use shape::Shape;

/// Characters an expression may have.
pub const MAX_LENGTH: usize = 16_384;

/// An expression that was understood.
#[derive(Debug)]
pub struct Program {
    source: String,
    shape: Shape,
    kind: Option<Kind>,
    expression: IdedExpr,
    /// Calls that were taken out of it.
    fallbacks: Arc<[Fallback]>,
    /// What it reads, once each. Nothing else is looked up when it is interpreted.
    reads: Vec<Attribute>,
}

/// Why a text is no expression we evaluate, and where.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CompileError {
    #[error("an expression has 1 to {MAX_LENGTH} characters, and this one has {length}")]
    Length { length: usize },
    #[error("{position}: {message}")]
    Syntax { position: Position, message: String },
    #[error("{position}: `{name}` is not known here; {known}")]
    Unknown {
        position: Position,
        name: String,
        known: String,
    },
    #[error("{position}: `{name}` is not supported yet: {reason}")]
    Later {
        position: Position,
        name: String,
        reason: &'static str,
    },
    #[error("{position}: `{name}` takes {wanted}")]
    Arguments {
        position: Position,
        name: String,
        wanted: &'static str,
    },
    #[error("{position}: the pattern of `matches` must be written out in quotes")]
    Pattern { position: Position },
    #[error("{position}: the pattern of `matches` takes too much memory; repeat less in it")]
    LargePattern { position: Position },
    #[error("{position}: the pattern of `matches` is not a regular expression: {reason}")]
    BadPattern { position: Position, reason: String },
    /// No thread to parse on, or the parser gave up.
    #[error("the expression could not be parsed")]
    Unparsed,
    #[error("gives {found} for whatever comes; write one that gives {wanted}")]
    Kind { found: Kind, wanted: Kind },
    #[error("the expression is nested too deeply")]
    TooDeep,
    #[error("the expression could cost too much on a large request; make it simpler")]
    TooCostly,
}

/// In the text of an expression, counted from 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Position {
    pub line: usize,
    pub column: usize,
}

impl fmt::Display for Position {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "line {}, column {}", self.line, self.column)
    }
}

/// What an expression evaluated to.
#[derive(Clone, Debug, PartialEq)]
pub enum Value<'a> {
    /// Text of the request itself.
    Borrowed(&'a str),
    Text(String),
    Bytes(Vec<u8>),
    Address(IpAddr),
    Bool(bool),
    /// A number, a list, a map, null.
    Other,
}

/// Something the expression needs is missing, unreadable or of the wrong type. Says no more, so that nothing of a
/// request can leak into a log.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the expression has no value for this request")]
pub struct EvaluationError;

impl Program {
    /// An expression over a request.
    pub fn compile(source: &str) -> Result<Self, CompileError> {
        Self::compile_over(source, Subject::Request)
    }

    /// An expression over a request and its response.
    pub fn compile_over_response(source: &str) -> Result<Self, CompileError> {
        Self::compile_over(source, Subject::Response)
    }

    fn compile_over(source: &str, subject: Subject) -> Result<Self, CompileError> {
        let length = source.chars().count();
        if !(1..=MAX_LENGTH).contains(&length) {
            return Err(CompileError::Length { length });
        }
        guard::install();
        let (mut expression, reads) = parse::parse(source, subject)?;
        let (shape, kind) = (Shape::of(&expression), Kind::of(&expression));
        let mut fallbacks = Vec::new();
        fallback::take_out(&mut expression, &mut fallbacks);
        Ok(Self {
            source: source.to_owned(),
            shape,
            kind,
            expression,
            fallbacks: fallbacks.into(),
            reads,
        })
    }

    /// The text it was compiled from.
    pub fn source(&self) -> &str {
        &self.source
    }

    /// What its values are, if that can be told without a request.
    pub fn kind(&self) -> Option<Kind> {
        self.kind
    }

    /// Whether it is `source.address`, as text or as it is.
    pub fn is_source_address(&self) -> bool {
        self.shape == Shape::Attribute(Attribute::SourceAddress)
    }

    /// Whether it asks anything of the request.
    pub fn reads_request(&self) -> bool {
        !self.reads.iter().all(|one| one.is_of_response())
    }

    pub fn evaluate<'a>(
        &'a self,
        attributes: &'a dyn Attributes,
    ) -> Result<Value<'a>, EvaluationError> {
        match self.shape.read(attributes) {
            Some(value) => value,
            None => self.interpret(attributes),
        }
    }

    fn interpret<'a>(&self, attributes: &dyn Attributes) -> Result<Value<'a>, EvaluationError> {
        let mut context = interpret::context(&self.reads, attributes)?;
        if !self.fallbacks.is_empty() {
            let evaluator = fallback::evaluator(Arc::clone(&self.fallbacks));
            let added = context.add_function(fallback::FUNCTION, evaluator);
            added.map_err(|_| EvaluationError)?;
        }
        interpret::resolve(&self.expression, &context)
    }
}
