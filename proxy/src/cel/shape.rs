//! Expressions that only pick something out of a request, told apart when they are compiled and read without the
//! interpreter.

use cel_interpreter::IdedExpr;
use cel_interpreter::common::ast::{Expr, LiteralValue, operators};

use super::attributes::{Attribute, Attributes, Found, cookie, header};
use super::names::{COALESCE, DEFAULT};
use super::status_test::StatusTest;
use super::{EvaluationError, Value};

/// What an expression is, as far as that can be seen at a glance.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Shape {
    Header(String),
    Cookie(String),
    /// Anything but the headers.
    Attribute(Attribute),
    Status(StatusTest),
    /// Written out.
    Text(String),
    /// The first of these that there is: what `default` and `coalesce` come to where nothing else can go wrong.
    First(Vec<Shape>),
    /// For the interpreter.
    Other,
}

impl Shape {
    pub fn of(expression: &IdedExpr) -> Self {
        match &expression.expr {
            Expr::Select(select) if !select.test => match attribute(expression) {
                Some(attribute) if attribute.is_headers() => Self::Other,
                Some(attribute) => Self::Attribute(attribute),
                None if is_request_headers(&select.operand) => Self::Header(select.field.clone()),
                None => Self::Other,
            },
            Expr::Call(call) => match (call.func_name.as_str(), &call.target, &call.args[..]) {
                (operators::INDEX, None, [map, key]) if is_request_headers(map) => {
                    literal(key).map_or(Self::Other, |name| Self::Header(name.to_owned()))
                }
                ("cookie", None, [name]) => {
                    literal(name).map_or(Self::Other, |name| Self::Cookie(name.to_owned()))
                }
                // Text made text is itself. A header may be a list, of which there is no text.
                ("string", None, [inner]) => match Self::of(inner) {
                    shape @ (Self::Attribute(_) | Self::Cookie(_)) => shape,
                    _ => Self::Other,
                },
                (DEFAULT | COALESCE, None, args) => Self::first(args),
                _ => StatusTest::of(expression).map_or(Self::Other, Self::Status),
            },
            Expr::Literal(LiteralValue::String(text)) => Self::Text(text.inner().to_owned()),
            _ => Self::Other,
        }
    }

    fn first(arguments: &[IdedExpr]) -> Self {
        let shapes: Vec<Self> = arguments.iter().map(Self::of).collect();
        if shapes.iter().all(Self::is_quick) {
            Self::First(shapes)
        } else {
            Self::Other
        }
    }

    /// Whether it is never left to the interpreter.
    fn is_quick(&self) -> bool {
        match self {
            Self::Attribute(attribute) => !attribute.is_assembled(),
            Self::Other => false,
            _ => true,
        }
    }

    /// The value; `None` if only the interpreter knows.
    pub fn read<'a>(
        &'a self,
        attributes: &'a dyn Attributes,
    ) -> Option<Result<Value<'a>, EvaluationError>> {
        let found = match self {
            Self::Header(name) => header(attributes, name),
            Self::Cookie(name) => cookie(attributes, name),
            Self::Attribute(Attribute::SourceAddress) => {
                return Some(Ok(Value::Address(attributes.source().ip())));
            }
            Self::Status(test) => {
                let code = attributes.response_code().ok_or(EvaluationError);
                return Some(code.map(|code| Value::Bool(test.holds(code))));
            }
            Self::Text(text) => Found::One(text),
            Self::First(shapes) => {
                let mut read = shapes.iter().map(|shape| shape.read(attributes));
                let found = read.find(|value| matches!(value, Some(Ok(_)) | None));
                return found.unwrap_or(Some(Err(EvaluationError)));
            }
            Self::Attribute(attribute) => text(*attribute, attributes)?,
            Self::Other => return None,
        };
        Some(match found {
            Found::One(text) => Ok(Value::Borrowed(text)),
            Found::Several => Ok(Value::Other),
            Found::Nothing | Found::Unreadable => Err(EvaluationError),
        })
    }
}

/// An attribute that is one text; `None` for the others.
pub fn text(attribute: Attribute, attributes: &dyn Attributes) -> Option<Found<'_>> {
    let bytes = match attribute {
        Attribute::Method => attributes.method(),
        Attribute::Path => attributes.path(),
        Attribute::PathAndQuery => attributes.path_and_query(),
        Attribute::Host => match attributes.host() {
            Some(host) => host,
            None => return Some(Found::Nothing),
        },
        Attribute::Scheme => attributes.scheme().as_bytes(),
        Attribute::Version => attributes.version().as_bytes(),
        Attribute::Uri | Attribute::SourcePort => return None,
        Attribute::Headers | Attribute::Cookies | Attribute::SourceAddress => return None,
        Attribute::ResponseCode | Attribute::ResponseHeaders => return None,
    };
    Some(std::str::from_utf8(bytes).map_or(Found::Unreadable, Found::One))
}

/// The attribute an expression names.
pub fn attribute(expression: &IdedExpr) -> Option<Attribute> {
    let Expr::Select(select) = &expression.expr else {
        return None;
    };
    match &select.operand.expr {
        Expr::Ident(root) => Attribute::find(root, &select.field),
        _ => None,
    }
}

/// Of the request or its response.
pub fn is_headers(expression: &IdedExpr) -> bool {
    attribute(expression).is_some_and(Attribute::is_headers)
}

fn is_request_headers(expression: &IdedExpr) -> bool {
    attribute(expression) == Some(Attribute::Headers)
}

pub fn literal(expression: &IdedExpr) -> Option<&str> {
    match &expression.expr {
        Expr::Literal(LiteralValue::String(text)) => Some(text.inner()),
        _ => None,
    }
}
