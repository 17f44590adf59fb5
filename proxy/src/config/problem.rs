//! What is wrong with a configuration, where, and what to do about it.

use std::cell::{Cell, RefCell};
use std::collections::HashSet;
use std::fmt;

/// Where in a file; lines and columns count from 1.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Position {
    pub line: u64,
    pub column: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Severity {
    /// The configuration is refused.
    Error,
    /// It is served, and perhaps not what was meant.
    Warning,
}

impl Severity {
    pub fn name(self) -> &'static str {
        match self {
            Self::Error => "error",
            Self::Warning => "warning",
        }
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    pub severity: Severity,
    pub file: String,
    pub position: Position,
    /// The resource and the key in it, such as `Gateway default/web: spec.listeners[0].port`.
    pub key: String,
    /// What is wrong, and how to mend it.
    pub message: String,
}

impl fmt::Display for Problem {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Position { line, column } = self.position;
        let severity = self.severity.name();
        write!(out, "{}:{line}:{column}: {severity}: ", self.file)?;
        if !self.key.is_empty() {
            write!(out, "{}: ", self.key)?;
        }
        out.write_str(&self.message)
    }
}

/// Collects problems while everything is looked at.
#[derive(Debug, Default)]
pub struct Problems {
    list: RefCell<Vec<Problem>>,
    /// Kind, namespace and name of each document that is there, whatever is wrong with it.
    seen: RefCell<HashSet<String>>,
    /// How many names mistyped ones were compared with.
    compared: Cell<usize>,
}

impl Problems {
    pub fn push(&self, problem: Problem) {
        self.list.borrow_mut().push(problem);
    }

    /// This document is there. If it cannot be read, what refers to it is no second problem.
    pub fn saw(&self, resource: &str) {
        self.seen.borrow_mut().insert(resource.to_owned());
    }

    pub fn has_seen(&self, resource: &str) -> bool {
        self.seen.borrow().contains(resource)
    }

    pub fn has_errors(&self) -> bool {
        let problems = self.list.borrow();
        problems.iter().any(|one| one.severity == Severity::Error)
    }

    /// Whether to look for what is meant among so many names. Not without end: who has thousands of names that name
    /// nothing has not mistyped them one by one.
    pub fn may_guess(&self, among: usize) -> bool {
        const MAX_COMPARED: usize = 200_000;
        let compared = self.compared.get().saturating_add(among);
        self.compared.set(compared);
        compared <= MAX_COMPARED
    }

    /// By file, in the order of positions.
    pub fn into_sorted(self) -> Vec<Problem> {
        let mut problems = self.list.into_inner();
        problems.sort_by(|one, two| {
            (&one.file, one.position, &one.key).cmp(&(&two.file, two.position, &two.key))
        });
        problems
    }
}
