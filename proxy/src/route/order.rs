//! Which of two rules goes first when both match.

use std::cmp::{Ordering, Reverse};

use super::{Host, PathMatch, Rule};

/// Where a rule came from. What came first decides between rules that are alike.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Origin {
    /// When the route was made. Those that do not say come last.
    pub created: Created,
    pub namespace: Box<str>,
    pub name: Box<str>,
    /// Place of the rule in its route.
    pub rule: usize,
}

/// `creationTimestamp` of a resource, which sorts as text (RFC 3339 in UTC).
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Created {
    At(Box<str>),
    #[default]
    Unknown,
}

impl Rule {
    /// `Less`: this rule goes first. Rules of one host stand together, and in these those of one path; it matters to no
    /// request, as it has one host and one path.
    pub(super) fn precedence(&self, other: &Self) -> Ordering {
        self.rank()
            .cmp(&other.rank())
            .then_with(|| self.origin.cmp(&other.origin))
    }

    /// The smaller, the earlier.
    fn rank(&self) -> impl Ord {
        let matches = &self.matches;
        (
            host_rank(&self.host),
            path_rank(&matches.path),
            matches.method.is_none(),
            Reverse(matches.headers.len()),
            Reverse(matches.query.len()),
        )
    }
}

fn host_rank(host: &Host) -> (u8, Reverse<usize>, &str) {
    match host {
        Host::Exact(name) => (0, Reverse(name.len()), name),
        Host::Wildcard(suffix) => (1, Reverse(suffix.len()), suffix),
        Host::Any => (2, Reverse(0), ""),
    }
}

fn path_rank(path: &PathMatch) -> (u8, Reverse<usize>, &str) {
    match path {
        PathMatch::Exact(path) => (0, Reverse(path.len()), path),
        // Two of them may be for one path: what else they ask for decides between equally long ones.
        PathMatch::Regex(pattern) => (1, Reverse(pattern.as_str().len()), ""),
        PathMatch::Prefix(prefix) => (2, Reverse(prefix.len()), prefix),
        PathMatch::Any => (2, Reverse(0), ""),
    }
}
