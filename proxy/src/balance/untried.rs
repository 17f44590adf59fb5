//! Whom a request may be tried at again: everyone who has not had it, in the order in which picks look. Only further
//! attempts come here, so that looking through the whole backend is affordable.

use rand::Rng;

use super::active::is_all_active_drained;
use super::backend::Backend;
use super::endpoint::Endpoint;
use super::lease::Method;
use super::p2c::below;

/// Endpoints of one bucket that a request has not been tried at. Kept for its memory.
#[derive(Debug, Default)]
pub struct Untried {
    /// Places among the backend's endpoints, each with the sum of the shares up to it.
    shares: Vec<(usize, u64)>,
}

impl Untried {
    /// Finds the first bucket with an active endpoint whose row is not in `tried`, else the first with an ejected one.
    /// `None` if there is neither.
    pub fn find(
        &mut self,
        backend: &Backend,
        tried: &[u32],
        is_active: impl Fn(&Endpoint) -> bool,
    ) -> Option<Method> {
        let mut has_any = |first: usize, bucket: &[Endpoint], wanted: Method| {
            let mut total = 0;
            let untried = (first..).zip(bucket).filter(|(_, endpoint)| {
                !endpoint.weight.is_drained()
                    && is_active(endpoint) == (wanted == Method::P2c)
                    && !tried.contains(&endpoint.row.index)
            });
            self.shares.clear();
            self.shares.extend(untried.map(|(place, endpoint)| {
                // Among ejected endpoints weights do not count.
                total += match wanted {
                    Method::P2c => u64::from(endpoint.weight.share()),
                    _ => 1,
                };
                (place, total)
            }));
            total > 0
        };
        let is_open = |bucket: &[Endpoint]| !is_all_active_drained(bucket, &is_active);
        if backend
            .buckets()
            .any(|(first, bucket)| has_any(first, bucket, Method::P2c))
        {
            return Some(Method::P2c);
        }
        backend
            .buckets()
            .any(|(first, bucket)| is_open(bucket) && has_any(first, bucket, Method::Rejected))
            .then_some(Method::Rejected)
    }

    /// The place of one of those found. Only after [`find`](Self::find) has found any.
    pub fn draw(&self, random: &mut impl Rng) -> usize {
        let total = self.shares.last().map_or(0, |(_, total)| *total);
        let drawn = below(total as usize, random) as u64;
        let at = self.shares.partition_point(|(_, up_to)| *up_to <= drawn);
        self.shares[at].0
    }
}
