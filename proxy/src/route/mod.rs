//! Which backend a request is for. Rules are put in the Gateway API's order of precedence once, when a snapshot is made;
//! a request goes by the first one that matches it.
//!
//! Precedence, most important first: host name (exact before wildcard, then the longer), path (exact, then regular
//! expression, then prefix; the longer first), a method, more header matches, more query matches, the older route, its
//! namespace and name, the earlier rule. Where the Gateway API leaves regular expressions open, this is our choice.

mod filters;
mod host;
mod index;
mod mirror;
mod order;
mod path;
mod paths;
mod pattern;
mod query;
mod redirect;
mod request;
mod retry;
mod split;
mod table;
#[cfg(test)]
mod tests;
mod timeouts;

pub use filters::{Filters, PathRewrite, Rewrite};
pub use host::{Host, HostError};
pub use mirror::{Fraction, Mirror};
pub use order::{Created, Origin};
pub use path::PathMatch;
pub use pattern::{Pattern, PatternError};
pub use redirect::{NoHost, Redirect, RedirectScheme};
pub use request::Request;
pub use retry::{Retry, RetryBudget, RetryOn, StatusCodes};
pub use split::{Portion, Share, Split};
pub use timeouts::Timeouts;

use std::cell::LazyCell;
use std::sync::Arc;

use index::Index;

/// The rules of one listener, the one that takes precedence first.
#[derive(Clone, Debug, Default)]
pub struct Rules {
    rules: Vec<Rule>,
    index: Index,
}

/// The index is made of the rules.
impl PartialEq for Rules {
    fn eq(&self, other: &Self) -> bool {
        self.rules == other.rules
    }
}

/// One way to match a request, and where those go that do.
#[derive(Clone, Debug, PartialEq)]
pub struct Rule {
    pub host: Host,
    pub matches: Match,
    pub origin: Origin,
    pub handling: Arc<Handling>,
}

/// What becomes of the requests that match a rule.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Handling {
    pub split: Split,
    pub retry: Retry,
    pub timeouts: Timeouts,
    /// `None`: nothing is done to what passes.
    pub filters: Option<Arc<Filters>>,
}

impl Handling {
    /// What is done to requests of this share, and to their responses.
    pub fn filters_of<'a>(&'a self, share: &'a Share) -> Option<&'a Arc<Filters>> {
        share.filters.as_ref().or(self.filters.as_ref())
    }

    /// Where clients are sent, if no endpoint is to be asked.
    pub fn redirect(&self) -> Option<&Redirect> {
        self.filters.as_ref()?.redirect.as_ref()
    }
}

impl From<Split> for Handling {
    fn from(split: Split) -> Self {
        Self {
            split,
            ..Self::default()
        }
    }
}

/// Conditions that must all hold. The default holds for every request.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Match {
    pub path: PathMatch,
    /// As it stands in requests.
    pub method: Option<Box<str>>,
    pub headers: Vec<FieldMatch>,
    pub query: Vec<FieldMatch>,
}

/// A header field or query parameter that must be there.
#[derive(Clone, Debug, PartialEq)]
pub struct FieldMatch {
    pub name: Box<str>,
    pub value: Pattern,
}

impl Rules {
    pub fn new(mut rules: Vec<Rule>) -> Self {
        rules.sort_by(Rule::precedence);
        let index = Index::new(&rules);
        Self { rules, index }
    }

    /// The same becomes of every request.
    pub fn always(handling: impl Into<Handling>) -> Self {
        Self::new(vec![Rule {
            host: Host::Any,
            matches: Match::default(),
            origin: Origin::default(),
            handling: Arc::new(handling.into()),
        }])
    }

    /// So many are looked at one by one sooner than their index is asked.
    const FEW: usize = 6;

    /// The rule this request goes by; `None` if no rule matches.
    pub fn find(&self, request: Request<'_>) -> Option<&Rule> {
        if self.rules.len() > Self::FEW {
            return self.index.find(&self.rules, request);
        }
        let name = LazyCell::new(|| request.host_name());
        self.rules.iter().find(|rule| {
            (rule.host == Host::Any || rule.host.covers(&name))
                && rule.matches.path.covers(request.path())
                && rule.matches.holds_but_for_path(request)
        })
    }

    /// In the order of precedence.
    pub fn iter(&self) -> impl Iterator<Item = &Rule> {
        self.rules.iter()
    }

    /// Places of all backends these rules lead to, in ascending order.
    pub fn backends(&self) -> Vec<usize> {
        let mut places: Vec<usize> = self
            .iter()
            .flat_map(|rule| rule.handling.split.backends())
            .collect();
        places.sort_unstable();
        places.dedup();
        places
    }
}

impl Match {
    fn holds_but_for_path(&self, request: Request<'_>) -> bool {
        let method = self.method.as_ref();
        method.is_none_or(|method| request.method() == method.as_bytes())
            && self.headers.iter().all(|header| header.is_in(request))
            && self.query.iter().all(|query| query.is_in_query(request))
    }
}

impl FieldMatch {
    /// Whether any line of a header field has this value.
    fn is_in(&self, request: Request<'_>) -> bool {
        request
            .header(self.name.as_bytes())
            .any(|value| self.value.matches(value))
    }

    /// Whether the first query parameter of this name has this value.
    fn is_in_query(&self, request: Request<'_>) -> bool {
        request
            .query()
            .and_then(|text| query::value(text, &self.name))
            .is_some_and(|value| self.value.matches(&value))
    }
}
