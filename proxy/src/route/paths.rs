//! The rules of one host by path: exact ones in a table, regular expressions in a row, prefixes in a tree of their
//! elements.

use super::index::{Span, spans};
use super::table::Table;
use super::{PathMatch, Request, Rule};

#[derive(Clone, Debug, Default)]
pub struct Paths {
    exact: Table<Span>,
    regexes: Span,
    /// The root is the prefix `/`; each element leads to a node further down.
    prefixes: Vec<Node>,
}

#[derive(Clone, Debug, Default)]
struct Node {
    /// The root is its own.
    parent: usize,
    children: Table<usize>,
    rules: Span,
}

impl Paths {
    /// Of the rules of one host, in the order of precedence; the first of them stands at `start`.
    pub fn new(rules: &[Rule], start: usize) -> Self {
        let mut paths = Self {
            prefixes: vec![Node::default()],
            ..Self::default()
        };
        for (span, rules) in spans(rules, start, are_together) {
            match &rules[0].matches.path {
                PathMatch::Exact(path) => drop(paths.exact.insert(path.as_bytes().into(), span)),
                PathMatch::Regex(_) => paths.regexes = span,
                PathMatch::Prefix(prefix) => paths.add(prefix.as_bytes(), span),
                PathMatch::Any => paths.add(b"", span),
            }
        }
        paths
    }

    fn add(&mut self, prefix: &[u8], rules: Span) {
        let mut node = 0;
        for element in elements(prefix) {
            let next = self.prefixes.len();
            let child = *self.prefixes[node]
                .children
                .entry(element.into())
                .or_insert(next);
            if child == next {
                self.prefixes.push(Node {
                    parent: node,
                    ..Node::default()
                });
            }
            node = child;
        }
        self.prefixes[node].rules = rules;
    }

    /// The first of the rules that matches, apart from its host.
    pub fn find<'r>(&self, rules: &'r [Rule], request: Request<'_>) -> Option<&'r Rule> {
        let path = request.path();
        let exact = self.exact.get(path).copied().unwrap_or_default();
        let fits = |rule: &&Rule| rule.matches.holds_but_for_path(request);
        let by_expression =
            |rule: &&Rule| matches!(&rule.matches.path, PathMatch::Regex(it) if it.matches(path));
        let mut regexes = self.regexes.rules(rules).iter().filter(by_expression);
        exact
            .rules(rules)
            .iter()
            .find(fits)
            .or_else(|| regexes.find(fits))
            .or_else(|| {
                self.longest_first(path)
                    .find_map(|span| span.rules(rules).iter().find(fits))
            })
    }

    /// The rules of each prefix of the path.
    fn longest_first(&self, path: &[u8]) -> impl Iterator<Item = Span> {
        let mut node = 0;
        for element in elements(path) {
            match self.prefixes[node].children.get(element) {
                Some(child) => node = *child,
                None => break,
            }
        }
        let up = |node: &usize| (*node != 0).then(|| self.prefixes[*node].parent);
        std::iter::successors(Some(node), up).map(|node| self.prefixes[node].rules)
    }
}

/// Whether two rules are looked at for the same paths.
fn are_together(one: &Rule, two: &Rule) -> bool {
    match (&one.matches.path, &two.matches.path) {
        (PathMatch::Regex(_), PathMatch::Regex(_)) => true,
        (one, two) => one == two,
    }
}

/// What follows each slash. A path without a leading one has none: only the prefix `/` is for it.
fn elements(path: &[u8]) -> impl Iterator<Item = &[u8]> {
    let behind = path.strip_prefix(b"/");
    behind
        .into_iter()
        .flat_map(|behind| behind.split(|byte| *byte == b'/'))
}
