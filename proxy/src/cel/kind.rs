//! Of which kind the values of an expression are, where that can be seen without a request. Only what is certain is said:
//! an expression of an unknown kind may still be right.

use std::fmt;

use cel_interpreter::IdedExpr;
use cel_interpreter::common::ast::{CallExpr, Expr, LiteralValue, operators};

use super::attributes::Attribute;
use super::names::{COALESCE, DEFAULT};
use super::shape::attribute;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    Bool,
    Number,
    Text,
    Bytes,
    List,
    Map,
    Null,
}

impl fmt::Display for Kind {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(match self {
            Self::Bool => "true or false",
            Self::Number => "a number",
            Self::Text => "text",
            Self::Bytes => "bytes",
            Self::List => "a list",
            Self::Map => "a map",
            Self::Null => "null",
        })
    }
}

impl Kind {
    pub fn of(expression: &IdedExpr) -> Option<Self> {
        if let Some(attribute) = attribute(expression) {
            return Some(match attribute {
                Attribute::Headers | Attribute::ResponseHeaders => Self::Map,
                Attribute::ResponseCode | Attribute::SourcePort => Self::Number,
                _ => Self::Text,
            });
        }
        match &expression.expr {
            Expr::Literal(literal) => of_literal(literal),
            Expr::Select(select) if select.test => Some(Self::Bool),
            Expr::Call(call) => of_call(call),
            Expr::List(_) => Some(Self::List),
            Expr::Map(_) => Some(Self::Map),
            // What a loop ends with is what it began with, or made of that.
            Expr::Comprehension(it) => match &it.result.expr {
                Expr::Ident(_) => Self::of(&it.accu_init),
                _ => Self::of(&it.result),
            },
            _ => None,
        }
    }
}

fn of_literal(literal: &LiteralValue) -> Option<Kind> {
    match literal {
        LiteralValue::Boolean(_) => Some(Kind::Bool),
        LiteralValue::Int(_) | LiteralValue::UInt(_) | LiteralValue::Double(_) => {
            Some(Kind::Number)
        }
        LiteralValue::String(_) => Some(Kind::Text),
        LiteralValue::Bytes(_) => Some(Kind::Bytes),
        LiteralValue::Null => Some(Kind::Null),
    }
}

fn of_call(call: &CallExpr) -> Option<Kind> {
    match (call.func_name.as_str(), &call.args[..]) {
        (
            operators::LOGICAL_AND
            | operators::LOGICAL_OR
            | operators::LOGICAL_NOT
            | operators::EQUALS
            | operators::NOT_EQUALS
            | operators::GREATER
            | operators::GREATER_EQUALS
            | operators::LESS
            | operators::LESS_EQUALS
            | operators::IN
            | "contains"
            | "startsWith"
            | "endsWith"
            | "matches"
            | "hasValue"
            | "bool",
            _,
        ) => Some(Kind::Bool),
        ("size" | "int" | "uint" | "double" | "indexOf" | "lastIndexOf", _) => Some(Kind::Number),
        (
            "string" | "cookie" | "charAt" | "lowerAscii" | "upperAscii" | "replace" | "join"
            | "substring" | "trim" | "format" | "quote",
            _,
        ) => Some(Kind::Text),
        ("bytes", _) => Some(Kind::Bytes),
        ("split", _) => Some(Kind::List),
        (operators::CONDITIONAL, [_, one, two])
        | (
            operators::ADD
            | operators::SUBSTRACT
            | operators::MULTIPLY
            | operators::DIVIDE
            | operators::MODULO,
            [one, two],
        ) => Kind::of(one).filter(|kind| Some(*kind) == Kind::of(two)),
        (DEFAULT | COALESCE, [first, others @ ..]) => {
            let kind = Kind::of(first);
            kind.filter(|_| others.iter().all(|one| Kind::of(one) == kind))
        }
        (operators::NEGATE, [one]) => Kind::of(one),
        _ => None,
    }
}
