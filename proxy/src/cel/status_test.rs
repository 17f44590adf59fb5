//! Tests of a response's status and nothing else, as `response.code >= 500 || response.code == 429`: most conditions are
//! one, and every response of a backend that has one is looked at.

use cel_interpreter::IdedExpr;
use cel_interpreter::common::ast::{Expr, LiteralValue, operators};

use super::attributes::Attribute;
use super::shape::attribute;

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StatusTest {
    Is(Comparison, i64),
    Either(Box<[StatusTest; 2]>),
    Both(Box<[StatusTest; 2]>),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Comparison {
    Equal,
    Unequal,
    Less,
    LessOrEqual,
    Greater,
    GreaterOrEqual,
}

impl StatusTest {
    /// `None` if the expression is something else.
    pub fn of(expression: &IdedExpr) -> Option<Self> {
        let Expr::Call(call) = &expression.expr else {
            return None;
        };
        let (None, [left, right]) = (&call.target, &call.args[..]) else {
            return None;
        };
        let both = || Some(Box::new([Self::of(left)?, Self::of(right)?]));
        let comparison = match call.func_name.as_str() {
            operators::LOGICAL_OR => return both().map(Self::Either),
            operators::LOGICAL_AND => return both().map(Self::Both),
            operators::EQUALS => Comparison::Equal,
            operators::NOT_EQUALS => Comparison::Unequal,
            operators::LESS => Comparison::Less,
            operators::LESS_EQUALS => Comparison::LessOrEqual,
            operators::GREATER => Comparison::Greater,
            operators::GREATER_EQUALS => Comparison::GreaterOrEqual,
            _ => return None,
        };
        match (attribute(left)?, &right.expr) {
            (Attribute::ResponseCode, Expr::Literal(LiteralValue::Int(code))) => {
                Some(Self::Is(comparison, *code.inner()))
            }
            _ => None,
        }
    }

    pub fn holds(&self, code: u16) -> bool {
        match self {
            Self::Is(comparison, limit) => comparison.holds(i64::from(code), *limit),
            Self::Either(tests) => tests.iter().any(|test| test.holds(code)),
            Self::Both(tests) => tests.iter().all(|test| test.holds(code)),
        }
    }
}

impl Comparison {
    fn holds(self, code: i64, limit: i64) -> bool {
        match self {
            Self::Equal => code == limit,
            Self::Unequal => code != limit,
            Self::Less => code < limit,
            Self::LessOrEqual => code <= limit,
            Self::Greater => code > limit,
            Self::GreaterOrEqual => code >= limit,
        }
    }
}
