//! Finds the first rule that matches without looking at all of them: by host, then by path. What is left to try are rules
//! of one host and one path, and the regular expressions of that host.
//!
//! Rules that take precedence by host or path stand before the others (`order`), and those alike in both stand together;
//! so the index is made of spans of the list. Nothing is allocated to find a rule.

use super::paths::Paths;
use super::table::Table;
use super::{Host, Request, Rule};

/// Characters of a host name (RFC 1035, section 2.3.4), and with it of any rule's.
const MAX_HOST: usize = 253;

/// Neighbours in a list of rules.
#[derive(Clone, Copy, Debug, Default)]
pub struct Span {
    start: usize,
    end: usize,
}

impl Span {
    pub fn rules(self, rules: &[Rule]) -> &[Rule] {
        rules.get(self.start..self.end).unwrap_or_default()
    }
}

/// Where the rules of a host stand in a list of them.
#[derive(Clone, Debug, Default)]
pub struct Index {
    exact: Table<Paths>,
    /// By what follows the asterisk.
    wildcard: Table<Paths>,
    /// Of the keys of `wildcard`, the longest first.
    suffix_lengths: Vec<usize>,
    any: Option<Paths>,
}

impl Index {
    /// Of rules in the order of precedence.
    pub fn new(rules: &[Rule]) -> Self {
        let mut index = Self::default();
        for (span, rules) in spans(rules, 0, |one, two| one.host == two.host) {
            let paths = Paths::new(rules, span.start);
            match &rules[0].host {
                Host::Exact(name) => drop(index.exact.insert(name.as_bytes().into(), paths)),
                Host::Wildcard(suffix) => {
                    index.suffix_lengths.push(suffix.len());
                    index.wildcard.insert(suffix.as_bytes().into(), paths);
                }
                Host::Any => index.any = Some(paths),
            }
        }
        index.suffix_lengths.dedup();
        index
    }

    /// The first of the rules, which are those it was made of, that matches.
    pub fn find<'r>(&self, rules: &'r [Rule], request: Request<'_>) -> Option<&'r Rule> {
        let by_name = || {
            let mut buffer = [0; MAX_HOST];
            let host = request.host_name();
            // The end of a longer one may still be that of a wildcard.
            let is_whole = host.len() <= MAX_HOST;
            let host = &host[host.len().saturating_sub(MAX_HOST)..];
            let name = &mut buffer[..host.len()];
            name.copy_from_slice(host);
            name.make_ascii_lowercase();
            let exact = self.exact.get(&*name).filter(|_| is_whole);
            let found = exact.and_then(|paths| paths.find(rules, request));
            found.or_else(|| self.find_wildcard(name, is_whole, rules, request))
        };
        let has_names = !self.exact.is_empty() || !self.wildcard.is_empty();
        let found = has_names.then(by_name).flatten();
        found.or_else(|| self.any.as_ref()?.find(rules, request))
    }

    fn find_wildcard<'r>(
        &self,
        name: &[u8],
        is_whole: bool,
        rules: &'r [Rule],
        request: Request<'_>,
    ) -> Option<&'r Rule> {
        self.suffix_lengths.iter().find_map(|length| {
            let start = name.len().checked_sub(*length)?;
            // The asterisk stands for something.
            let is_suffix = name.get(start) == Some(&b'.') && !(start == 0 && is_whole);
            let paths = is_suffix.then(|| self.wildcard.get(&name[start..]))??;
            paths.find(rules, request)
        })
    }
}

/// Rules that are alike in something and stand together, with where they stand; the first of all stands at `start`.
pub fn spans<'r>(
    rules: &'r [Rule],
    start: usize,
    alike: impl Fn(&Rule, &Rule) -> bool + 'r,
) -> impl Iterator<Item = (Span, &'r [Rule])> {
    let mut at = start;
    rules.chunk_by(alike).map(move |rules| {
        let span = Span {
            start: at,
            end: at + rules.len(),
        };
        at = span.end;
        (span, rules)
    })
}
