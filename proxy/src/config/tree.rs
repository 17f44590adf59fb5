//! YAML and JSON as values that know where they stand. JSON is read as the YAML it is.

use std::fmt;

use serde::de::{Deserialize, Deserializer, Error, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde_saphyr::{DuplicateKeyPolicy, Location, NonFiniteFloatPolicy, Spanned};

use super::Source;
use super::problem::{Position, Problem, Problems, Severity};

#[derive(Debug)]
pub struct Node {
    pub position: Position,
    pub value: Value,
}

#[derive(Debug)]
pub enum Value {
    Null,
    Boolean(bool),
    Whole(i128),
    Fraction(f64),
    Text(String),
    List(Vec<Node>),
    Map(Vec<Entry>),
}

#[derive(Debug)]
pub struct Entry {
    /// Where the key stands.
    pub position: Position,
    pub key: String,
    pub node: Node,
}

impl Node {
    pub fn child(&self, key: &str) -> Option<&Node> {
        let Value::Map(entries) = &self.value else {
            return None;
        };
        let entry = entries.iter().find(|entry| entry.key == key)?;
        Some(&entry.node)
    }

    pub fn is_empty(&self) -> bool {
        match &self.value {
            Value::Null => true,
            Value::List(list) => list.is_empty(),
            Value::Map(map) => map.is_empty(),
            _ => false,
        }
    }

    pub fn as_text(&self) -> Option<&str> {
        match &self.value {
            Value::Text(text) => Some(text),
            _ => None,
        }
    }
}

/// The documents of a file; none if it cannot be read to its end.
pub fn parse(source: &Source, problems: &Problems) -> Vec<Node> {
    let options = serde_saphyr::options! {
        // Repeated keys are reported with everything else instead of ending the reading.
        duplicate_keys: DuplicateKeyPolicy::PassThrough,
        with_snippet: false,
        non_finite_float_policy: NonFiniteFloatPolicy::PassThrough,
        // Room for some 100,000 endpoints in a file, and none for what aliases multiply.
        budget: serde_saphyr::budget! {
            max_documents: 100_000,
            max_nodes: 4_000_000,
            max_events: 16_000_000,
        },
        alias_limits: serde_saphyr::alias_limits! {
            max_total_replayed_events: 100_000,
        },
    };
    match serde_saphyr::from_multiple_with_options(&source.text, options) {
        Ok(documents) => documents,
        Err(error) => {
            let as_json = source.name.ends_with(".json").then(|| json_error(source));
            let (position, message) = as_json.flatten().unwrap_or_else(|| yaml_error(&error));
            problems.push(Problem {
                severity: Severity::Error,
                file: source.name.clone(),
                position,
                key: String::new(),
                message,
            });
            Vec::new()
        }
    }
}

fn yaml_error(error: &serde_saphyr::Error) -> (Position, String) {
    let render = serde_saphyr::render_options! {
        snippets: serde_saphyr::SnippetMode::Off,
    };
    let text = error.render_with_options(render);
    let position = error.location().map(position).unwrap_or_default();
    let message = without_place(&text);
    (
        position,
        format!("cannot be read as YAML or JSON: {message}"),
    )
}

/// What a reader of JSON has to say: one of YAML takes much for something else at first, and stumbles later.
fn json_error(source: &Source) -> Option<(Position, String)> {
    let documents = serde_json::Deserializer::from_str(&source.text).into_iter::<IgnoredAny>();
    let error = documents.filter_map(Result::err).next()?;
    let position = Position {
        line: error.line() as u64,
        column: error.column() as u64,
    };
    let text = error.to_string();
    let message = without_place(&text);
    Some((position, format!("cannot be read as JSON: {message}")))
}

/// The place is said in front already.
fn without_place(message: &str) -> &str {
    message.split(" at line ").next().unwrap_or_default()
}

fn position(location: Location) -> Position {
    Position {
        line: location.line(),
        column: location.column(),
    }
}

impl<'de> Deserialize<'de> for Node {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let spanned = Spanned::<Value>::deserialize(deserializer)?;
        Ok(Self {
            position: position(spanned.referenced),
            value: spanned.value,
        })
    }
}

impl<'de> Deserialize<'de> for Value {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(ValueVisitor)
    }
}

struct ValueVisitor;

impl<'de> Visitor<'de> for ValueVisitor {
    type Value = Value;

    fn expecting(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("a value")
    }

    fn visit_unit<E: Error>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_none<E: Error>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_some<D: Deserializer<'de>>(self, deserializer: D) -> Result<Value, D::Error> {
        Value::deserialize(deserializer)
    }

    fn visit_bool<E: Error>(self, value: bool) -> Result<Value, E> {
        Ok(Value::Boolean(value))
    }

    fn visit_i64<E: Error>(self, value: i64) -> Result<Value, E> {
        Ok(Value::Whole(value.into()))
    }

    fn visit_u64<E: Error>(self, value: u64) -> Result<Value, E> {
        Ok(Value::Whole(value.into()))
    }

    fn visit_f64<E: Error>(self, value: f64) -> Result<Value, E> {
        Ok(Value::Fraction(value))
    }

    fn visit_str<E: Error>(self, value: &str) -> Result<Value, E> {
        Ok(Value::Text(value.to_owned()))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Value, A::Error> {
        let mut list = Vec::new();
        while let Some(node) = items.next_element()? {
            list.push(node);
        }
        Ok(Value::List(list))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut entries: A) -> Result<Value, A::Error> {
        let mut map = Vec::new();
        while let Some((key, node)) = entries.next_entry::<Spanned<String>, Node>()? {
            map.push(Entry {
                position: position(key.referenced),
                key: key.value,
                node,
            });
        }
        Ok(Value::Map(map))
    }
}
