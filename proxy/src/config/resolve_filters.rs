//! Filters of a rule and of its backends, joined: a request looks at one set of them, that of the share it falls to or,
//! where that asks for nothing of its own, that of the rule.

use std::sync::Arc;

use super::resolve_backends::Backends;
use super::resolve_policies::Way;
use super::resources::{Filtering, RouteRule};
use crate::route::{Filters, Handling, Mirror, Portion, Split};

/// What is done to requests that come this way, and where they go.
pub fn handling<'r>(
    rule: &'r RouteRule<'r>,
    backends: &mut Backends<'r>,
    way: &Way<'_>,
) -> Handling {
    let common = &rule.filters.filters;
    let mirrors = mirrors(&rule.filters, common, backends, way);
    let portions: Vec<Portion> = rule
        .backends
        .iter()
        .filter_map(|backend| {
            let place = backends.place(backend, way)?;
            let own = &backend.filters;
            let filters = if own.is_empty() {
                None
            } else {
                let filters = common.followed_by(&own.filters);
                let own = self::mirrors(own, &filters, backends, way);
                joined(&filters, mirrors.iter().cloned().chain(own).collect())
            };
            Some(Portion {
                backend: place,
                weight: backend.weight,
                filters,
            })
        })
        .collect();
    Handling {
        filters: joined(common, mirrors),
        ..Split::of(portions).into()
    }
}

/// Who gets copies; `filters` are done to them.
fn mirrors<'r>(
    filtering: &'r Filtering<'r>,
    filters: &Filters,
    backends: &mut Backends<'r>,
    way: &Way<'_>,
) -> Vec<Mirror> {
    let filters = joined(filters, Vec::new());
    let mirrors = filtering.mirrors.iter();
    mirrors
        .filter_map(|mirror| {
            Some(Mirror {
                backend: backends.place(&mirror.backend, way)?,
                fraction: mirror.fraction,
                filters: filters.clone(),
            })
        })
        .collect()
}

/// `None` if they do nothing.
fn joined(filters: &Filters, mirrors: Vec<Mirror>) -> Option<Arc<Filters>> {
    let joined = Filters {
        mirrors,
        ..filters.clone()
    };
    (joined != Filters::default()).then(|| Arc::new(joined))
}
