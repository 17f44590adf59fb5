//! Any expression, through the interpreter: what it reads is put into variables first, and nothing else.

use std::collections::HashMap;
use std::sync::Arc;

use cel_interpreter::extractors::Arguments;
use cel_interpreter::objects::Key;
use cel_interpreter::{Context, ExecutionError, FunctionContext, IdedExpr};

use super::attributes::{Attribute, Attributes, Found, cookie_in, header};
use super::check::ENV;
use super::shape::text;
use super::{EvaluationError, Value};

type Fields = HashMap<Key, cel_interpreter::Value>;

pub fn interpret<'a>(
    expression: &IdedExpr,
    reads: &[Attribute],
    attributes: &dyn Attributes,
) -> Result<Value<'a>, EvaluationError> {
    let mut context = Context::with_env(ENV.clone());
    for root in ["request", "source"] {
        context.add_variable_from_value(root, fields(root, reads, attributes));
    }
    if reads.contains(&Attribute::Cookies) {
        let cookies = Cookies::of(attributes);
        let value = move |call: &FunctionContext, Arguments(names): Arguments| match &names[..] {
            [cel_interpreter::Value::String(name)] => cookies.value(name),
            _ => Err(call.error("takes one name")),
        };
        context
            .add_function("cookie", value)
            .map_err(|_| EvaluationError)?;
    }
    match context.resolve(expression) {
        Ok(value) => Ok(value_of(value)),
        Err(_) => Err(EvaluationError),
    }
}

/// The attributes read below one root. What is missing or no text is left out, and an expression that wants it fails.
fn fields(root: &str, reads: &[Attribute], attributes: &dyn Attributes) -> Fields {
    let wanted = Attribute::ALL
        .iter()
        .filter(|one| one.0 == root && reads.contains(&one.2));
    wanted
        .filter_map(|(_, name, attribute)| Some((Key::from(*name), value(*attribute, attributes)?)))
        .collect()
}

fn value(attribute: Attribute, attributes: &dyn Attributes) -> Option<cel_interpreter::Value> {
    match attribute {
        Attribute::Headers => Some(headers(attributes).into()),
        Attribute::SourceAddress => Some(attributes.source().to_string().into()),
        _ => match text(attribute, attributes)? {
            Found::One(text) => Some(text.into()),
            _ => None,
        },
    }
}

/// By name in lower case: one entry is a text, several are a list.
fn headers(attributes: &dyn Attributes) -> Fields {
    let mut names: Vec<String> = Vec::new();
    attributes.for_each_header(&mut |name, _| {
        names.extend(std::str::from_utf8(name).map(str::to_ascii_lowercase));
    });
    names.sort_unstable();
    names.dedup();
    let entries = names.into_iter().filter_map(|name| {
        let value = match header(attributes, &name) {
            Found::One(text) => text.into(),
            Found::Several => all_of(attributes, &name).into(),
            Found::Nothing | Found::Unreadable => return None,
        };
        Some((Key::from(name), value))
    });
    entries.collect()
}

fn all_of(attributes: &dyn Attributes, name: &str) -> Vec<String> {
    let mut values = Vec::new();
    attributes.for_each_header(&mut |field, value| {
        if field.eq_ignore_ascii_case(name.as_bytes()) {
            values.extend(std::str::from_utf8(value).map(str::to_owned));
        }
    });
    values
}

/// The request's cookies, for a function that outlives the borrow of the request.
struct Cookies(Vec<Vec<u8>>);

impl Cookies {
    fn of(attributes: &dyn Attributes) -> Self {
        let mut lines = Vec::new();
        attributes.for_each_header(&mut |name, value| {
            if name.eq_ignore_ascii_case(b"cookie") {
                lines.push(value.to_vec());
            }
        });
        Self(lines)
    }

    fn value(&self, name: &str) -> Result<cel_interpreter::Value, ExecutionError> {
        match cookie_in(self.0.iter().map(Vec::as_slice), name) {
            Found::One(value) => Ok(value.into()),
            _ => Err(ExecutionError::NoSuchKey(Arc::new(name.to_owned()))),
        }
    }
}

fn value_of<'a>(value: cel_interpreter::Value) -> Value<'a> {
    match value {
        cel_interpreter::Value::String(text) => Value::Text(Arc::unwrap_or_clone(text)),
        cel_interpreter::Value::Bytes(bytes) => Value::Bytes(Arc::unwrap_or_clone(bytes)),
        cel_interpreter::Value::Bool(bool) => Value::Bool(bool),
        _ => Value::Other,
    }
}
