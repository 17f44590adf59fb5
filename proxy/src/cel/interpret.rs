//! Any expression, through the interpreter: what it reads is put into variables first, and nothing else.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use cel_interpreter::extractors::Arguments;
use cel_interpreter::objects::Key;
use cel_interpreter::{Context, ExecutionError, FunctionContext, IdedExpr};

use super::attributes::{Attribute, Attributes, Found, cookie_in};
use super::guard::guarded;
use super::parse::ENV;
use super::shape::text;
use super::{EvaluationError, Value};

type Fields = HashMap<Key, cel_interpreter::Value>;

/// Variables and functions of an expression that reads these.
pub fn context<'v>(
    reads: &[Attribute],
    attributes: &dyn Attributes,
) -> Result<Context<'v, 'v>, EvaluationError> {
    let mut context = Context::with_env(ENV.clone());
    for root in ["request", "source", "response"] {
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
    Ok(context)
}

pub fn resolve<'a>(
    expression: &IdedExpr,
    context: &Context<'_, '_>,
) -> Result<Value<'a>, EvaluationError> {
    match guarded(|| context.resolve(expression)) {
        Some(Ok(value)) => Ok(value_of(value)),
        Some(Err(_)) | None => Err(EvaluationError),
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
        Attribute::Headers => Some(table(|see| attributes.for_each_header(see)).into()),
        Attribute::ResponseHeaders => {
            Some(table(|see| attributes.for_each_response_header(see)).into())
        }
        Attribute::ResponseCode => Some(i64::from(attributes.response_code()?).into()),
        Attribute::Uri => Some(uri(attributes)?.into()),
        Attribute::SourceAddress => Some(attributes.source().ip().to_string().into()),
        Attribute::SourcePort => Some(i64::from(attributes.source().port()).into()),
        _ => match text(attribute, attributes)? {
            Found::One(text) => Some(text.into()),
            _ => None,
        },
    }
}

/// As RFC 9112 puts it together from the request line and the host (section 3.3); there is none of what names no path.
fn uri(attributes: &dyn Attributes) -> Option<String> {
    let host = std::str::from_utf8(attributes.host()?).ok()?;
    let path = std::str::from_utf8(attributes.path_and_query()).ok()?;
    let scheme = attributes.scheme();
    path.starts_with('/')
        .then(|| format!("{scheme}://{host}{path}"))
}

/// By name in lower case: one entry is a text, several are a list. Of what is no text in any of its entries there is
/// nothing.
fn table<'a>(each: impl FnOnce(&mut dyn FnMut(&'a [u8], &'a [u8]))) -> Fields {
    let mut entries: BTreeMap<String, Vec<Option<&str>>> = BTreeMap::new();
    each(&mut |name, value| {
        if let Ok(name) = std::str::from_utf8(name) {
            let values = entries.entry(name.to_ascii_lowercase()).or_default();
            values.push(std::str::from_utf8(value).ok());
        }
    });
    let entries = entries.into_iter().filter_map(|(name, values)| {
        let values: Option<Vec<&str>> = values.into_iter().collect();
        let value = match &values?[..] {
            [text] => (*text).into(),
            texts => texts.to_vec().into(),
        };
        Some((Key::from(name), value))
    });
    entries.collect()
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
