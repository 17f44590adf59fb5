//! Reads values of the types that are wanted, and reports what is something else, missing, or unknown. A value that was
//! reported is left out, and reading goes on.

use std::collections::HashSet;
use std::ops::RangeInclusive;

use super::problem::{Position, Problem, Problems, Severity};
use super::tree::{Entry, Node, Value};

/// One value, and all that is needed to complain about it.
#[derive(Clone, Debug)]
pub struct Cursor<'a> {
    pub context: Context<'a>,
    node: &'a Node,
    path: String,
}

/// Which document is read.
#[derive(Clone, Debug)]
pub struct Context<'a> {
    pub file: &'a str,
    /// Kind, namespace and name.
    pub resource: String,
    pub problems: &'a Problems,
    /// Problems say of what sort a value is, and never quote it.
    pub is_secret: bool,
}

impl<'a> Cursor<'a> {
    pub fn root(context: Context<'a>, node: &'a Node) -> Self {
        Self {
            context,
            node,
            path: String::new(),
        }
    }

    pub fn node(&self) -> &'a Node {
        self.node
    }

    /// The same value, of which no problem says more than that it is of the wrong type. Its keys are told.
    pub fn secret(mut self) -> Self {
        self.context.is_secret = true;
        self
    }

    pub fn error(&self, message: impl Into<String>) {
        self.report(Severity::Error, self.node.position, &self.path, message);
    }

    pub fn warning(&self, message: impl Into<String>) {
        self.report(Severity::Warning, self.node.position, &self.path, message);
    }

    /// Of a key in this map.
    pub fn key_error(&self, key: &str, message: impl Into<String>) {
        self.report_key(Severity::Error, key, message);
    }

    /// Of a key in this map.
    pub fn key_warning(&self, key: &str, message: impl Into<String>) {
        self.report_key(Severity::Warning, key, message);
    }

    fn report_key(&self, severity: Severity, key: &str, message: impl Into<String>) {
        let mut entries = self.entries().iter();
        let entry = entries.find(|entry| entry.key == key);
        let position = entry.map_or(self.node.position, |entry| entry.position);
        self.report(severity, position, &joined(&self.path, key), message);
    }

    fn report(
        &self,
        severity: Severity,
        position: Position,
        path: &str,
        message: impl Into<String>,
    ) {
        let key = match (self.context.resource.as_str(), path) {
            (resource, "") => resource.to_owned(),
            ("", path) => path.to_owned(),
            (resource, path) => format!("{resource}: {path}"),
        };
        self.context.problems.push(Problem {
            severity,
            file: self.context.file.to_owned(),
            position,
            key,
            message: message.into(),
        });
    }

    /// Where this stands, for problems of other documents that point here.
    pub fn place(&self) -> String {
        let Position { line, column } = self.node.position;
        format!("{}:{line}:{column}", self.context.file)
    }

    /// The keys of keys and values; none of anything else.
    pub fn keys(&self) -> impl Iterator<Item = &'a str> {
        self.entries().iter().map(|entry| entry.key.as_str())
    }

    fn entries(&self) -> &'a [Entry] {
        match &self.node.value {
            Value::Map(entries) => entries,
            _ => &[],
        }
    }

    pub fn object(&self) -> Option<Object<'a>> {
        let Value::Map(entries) = &self.node.value else {
            self.wrong_type("keys and values");
            return None;
        };
        let mut seen = HashSet::new();
        for entry in entries {
            if !seen.insert(entry.key.as_str()) {
                self.report(
                    Severity::Error,
                    entry.position,
                    &joined(&self.path, &entry.key),
                    "stands here a second time; leave one out",
                );
            }
        }
        Some(Object {
            cursor: self.clone(),
            entries,
            known: Vec::new(),
        })
    }

    pub fn is_list(&self) -> bool {
        matches!(self.node.value, Value::List(_))
    }

    pub fn is_text(&self) -> bool {
        matches!(self.node.value, Value::Text(_))
    }

    pub fn list(&self) -> Vec<Self> {
        let Value::List(nodes) = &self.node.value else {
            self.wrong_type("a list");
            return Vec::new();
        };
        let items = nodes.iter().enumerate();
        items
            .map(|(place, node)| Self {
                context: self.context.clone(),
                node,
                path: format!("{}[{place}]", self.path),
            })
            .collect()
    }

    pub fn text(&self) -> Option<&'a str> {
        self.text_for("text (in quotes if it looks like something else)")
    }

    /// Text that is to be this.
    pub fn text_for(&self, wanted: &str) -> Option<&'a str> {
        match &self.node.value {
            Value::Text(text) => Some(text),
            _ => {
                self.wrong_type(wanted);
                None
            }
        }
    }

    /// The whole number that stands here, if it is one.
    pub fn whole_number(&self) -> Option<i128> {
        match self.node.value {
            Value::Whole(number) => Some(number),
            _ => None,
        }
    }

    pub fn boolean(&self) -> Option<bool> {
        match &self.node.value {
            Value::Boolean(value) => Some(*value),
            _ => {
                self.wrong_type("true or false");
                None
            }
        }
    }

    /// A whole number in this range.
    pub fn whole<T: TryFrom<i128>>(&self, range: RangeInclusive<i128>) -> Option<T> {
        let wanted = format!("a whole number from {} to {}", range.start(), range.end());
        match &self.node.value {
            Value::Whole(number) if range.contains(number) => T::try_from(*number).ok(),
            Value::Whole(number) => {
                self.error(format!("{number} is out of range; write {wanted}"));
                None
            }
            _ => {
                self.wrong_type(&wanted);
                None
            }
        }
    }

    /// A number, whole or not, of at least this.
    pub fn number(&self, least: f64) -> Option<f64> {
        let wanted = format!("a number of at least {least}");
        let number = match self.node.value {
            Value::Whole(number) => number as f64,
            Value::Fraction(number) => number,
            _ => {
                self.wrong_type(&wanted);
                return None;
            }
        };
        let fits = number.is_finite() && number >= least;
        if !fits {
            self.error(format!("{number} is out of range; write {wanted}"));
        }
        fits.then_some(number)
    }

    pub fn port(&self) -> Option<u16> {
        self.whole(1..=65535)
    }

    /// One of these words.
    pub fn choice<T: Copy>(&self, choices: &[(&str, T)]) -> Option<T> {
        let text = self.text()?;
        let chosen = choices.iter().find(|(word, _)| *word == text);
        if chosen.is_none() {
            let words: Vec<&str> = choices.iter().map(|(word, _)| *word).collect();
            self.error(format!("`{text}` is not one of {}", words.join(", ")));
        }
        chosen.map(|(_, value)| *value)
    }

    /// One of these words, of which only the first ones are implemented.
    pub fn supported_choice<T: Copy>(&self, choices: &[(&str, T)], later: &[&str]) -> Option<T> {
        if let Value::Text(text) = &self.node.value
            && later.contains(&text.as_str())
        {
            let words: Vec<&str> = choices.iter().map(|(word, _)| *word).collect();
            self.error(format!(
                "`{text}` is not supported yet; write {}",
                words.join(" or ")
            ));
            return None;
        }
        self.choice(choices)
    }

    fn wrong_type(&self, wanted: &str) {
        let found = match &self.node.value {
            Value::Null => "nothing".to_owned(),
            Value::List(_) => "a list".to_owned(),
            Value::Map(_) => "keys and values".to_owned(),
            Value::Text(_) if self.context.is_secret => "text".to_owned(),
            _ if self.context.is_secret => "something else".to_owned(),
            Value::Boolean(value) => format!("`{value}`"),
            Value::Whole(value) => format!("the number {value}"),
            Value::Fraction(value) => format!("the number {value}"),
            Value::Text(text) => format!("the text `{text}`"),
        };
        self.error(format!("is {found}; write {wanted}"));
    }
}

/// Keys and values of one map. [`finish`](Self::finish) reports what nobody asked for.
pub struct Object<'a> {
    pub cursor: Cursor<'a>,
    entries: &'a [Entry],
    known: Vec<&'static str>,
}

impl<'a> Object<'a> {
    /// The value of a key; one that is null is not there.
    pub fn optional(&mut self, key: &'static str) -> Option<Cursor<'a>> {
        self.known.push(key);
        let entry = self.entries.iter().find(|entry| entry.key == key)?;
        if matches!(entry.node.value, Value::Null) {
            return None;
        }
        Some(Cursor {
            context: self.cursor.context.clone(),
            node: &entry.node,
            path: joined(&self.cursor.path, key),
        })
    }

    pub fn required(&mut self, key: &'static str) -> Option<Cursor<'a>> {
        let value = self.optional(key);
        if value.is_none() {
            self.cursor.error(format!("has no `{key}`; add it"));
        }
        value
    }

    /// The items of a list that may be left out.
    pub fn items(&mut self, key: &'static str) -> Vec<Cursor<'a>> {
        self.optional(key)
            .map(|list| list.list())
            .unwrap_or_default()
    }

    /// Keys that mean nothing here.
    pub fn ignored(&mut self, keys: &[&'static str]) {
        self.known.extend(keys);
    }

    /// Keys that others understand and Weir does not yet: to ignore them would be to serve something else. Empty ones
    /// ask for nothing.
    pub fn unsupported(&mut self, keys: &[&'static str]) {
        self.known.extend(keys);
        for entry in self.entries {
            if !keys.contains(&entry.key.as_str()) || entry.node.is_empty() {
                continue;
            }
            let path = joined(&self.cursor.path, &entry.key);
            let message = "is not supported yet; leave it out";
            self.cursor
                .report(Severity::Error, entry.position, &path, message);
        }
    }

    /// Keys that belong under another one beside them.
    pub fn elsewhere(&mut self, keys: &[&'static str], under: &str) {
        self.known.extend(keys);
        for key in keys {
            if self.cursor.keys().any(|there| there == *key) {
                let message = format!("stands in the wrong place; put it under `{under}`");
                self.cursor.key_error(key, message);
            }
        }
    }

    /// Reports the keys nobody asked for.
    pub fn finish(self) {
        for entry in self.entries {
            if self.known.contains(&entry.key.as_str()) {
                continue;
            }
            let path = joined(&self.cursor.path, &entry.key);
            let message = match closest(&entry.key, &self.known) {
                Some(known) => format!("is not a known field; did you mean `{known}`?"),
                None => "is not a known field; leave it out".to_owned(),
            };
            self.cursor
                .report(Severity::Error, entry.position, &path, message);
        }
    }
}

fn joined(path: &str, key: &str) -> String {
    if path.is_empty() {
        key.to_owned()
    } else {
        format!("{path}.{key}")
    }
}

/// The word a mistyped one was meant to be: at most two letters away.
pub fn closest<'w>(word: &str, known: &[&'w str]) -> Option<&'w str> {
    let by_distance = known.iter().map(|known| (distance(word, known), *known));
    let (distance, known) = by_distance.min()?;
    (distance <= 2 && distance < word.len()).then_some(known)
}

/// Letters to insert, remove or replace (Levenshtein), whatever their case.
fn distance(one: &str, two: &str) -> usize {
    let two: Vec<char> = two.to_lowercase().chars().collect();
    let mut row: Vec<usize> = (0..=two.len()).collect();
    for (place, letter) in one.to_lowercase().chars().enumerate() {
        let mut diagonal = row[0];
        row[0] = place + 1;
        for (column, other) in two.iter().enumerate() {
            let replaced = diagonal + usize::from(letter != *other);
            diagonal = row[column + 1];
            row[column + 1] = replaced.min(diagonal + 1).min(row[column] + 1);
        }
    }
    row[two.len()]
}
