//! By what an attempt is judged when it ends. Leases outlive the snapshot they were made under, and are moved about: so
//! each worker keeps what it takes apart, once for a backend of a snapshot, for as long as a lease of it is out.

use super::backend::{Backend, BackendId};
use super::outlier::{HealthPolicy, Percent};
use super::policy::Scoring;
use super::rows::EndpointRow;

/// Of one backend, as a snapshot had it.
#[derive(Debug)]
pub struct Terms {
    pub backend: BackendId,
    pub health: HealthPolicy,
    pub scoring: Scoring,
    pub max_ejected: Option<Percent>,
    /// All endpoints that are not drained, where the policy bounds how many of them may be out.
    pub members: Vec<EndpointRow>,
}

impl Terms {
    fn of(backend: &Backend) -> Self {
        let policy = &backend.policy;
        let members = backend
            .endpoints()
            .iter()
            .filter(|_| policy.max_ejected.is_some());
        let members = members.filter(|endpoint| !endpoint.weight.is_drained());
        Self {
            backend: backend.id,
            health: policy.health,
            scoring: policy.scoring,
            max_ejected: policy.max_ejected,
            members: members.map(|endpoint| endpoint.row).collect(),
        }
    }
}

/// Which terms a lease was made under.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TermsId(u32);

/// One worker's.
#[derive(Debug, Default)]
pub struct Contracts {
    kept: Vec<Kept>,
    free: Vec<TermsId>,
}

#[derive(Debug)]
struct Kept {
    terms: Terms,
    /// Leases that are out.
    leases: u32,
    /// No lease will be made under them any more.
    is_past: bool,
}

impl Contracts {
    /// Terms for leases of this backend: those of `current`, unless they are another's or another snapshot's.
    #[cold]
    pub fn renew(&mut self, current: Option<TermsId>, backend: &Backend) -> TermsId {
        if let Some(current) = current {
            if self.terms(current).backend == backend.id {
                return current;
            }
            self.kept[current.place()].is_past = true;
            self.forget_if_over(current);
        }
        let kept = Kept {
            terms: Terms::of(backend),
            leases: 0,
            is_past: false,
        };
        match self.free.pop() {
            Some(id) => {
                self.kept[id.place()] = kept;
                id
            }
            None => {
                self.kept.push(kept);
                TermsId((self.kept.len() - 1) as u32)
            }
        }
    }

    #[inline]
    pub fn terms(&self, id: TermsId) -> &Terms {
        &self.kept[id.place()].terms
    }

    #[inline]
    pub fn on_pick(&mut self, id: TermsId) {
        self.kept[id.place()].leases += 1;
    }

    #[inline]
    pub fn on_finish(&mut self, id: TermsId) {
        let kept = &mut self.kept[id.place()];
        kept.leases -= 1;
        if kept.is_past {
            self.forget_if_over(id);
        }
    }

    #[cold]
    fn forget_if_over(&mut self, id: TermsId) {
        let kept = &mut self.kept[id.place()];
        if kept.is_past && kept.leases == 0 {
            kept.terms.members = Vec::new();
            self.free.push(id);
        }
    }
}

impl TermsId {
    #[inline]
    fn place(self) -> usize {
        self.0 as usize
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::balance::BackendKind;

    fn backend(place: usize, revision: u64) -> Backend {
        let id = BackendId { place, revision };
        Backend::new(id, BackendKind::Service, "shop", "tests", Vec::new())
    }

    #[test]
    fn terms_hold_for_a_snapshot_and_are_kept_as_long_as_a_lease_is_out() {
        let mut contracts = Contracts::default();
        let first = contracts.renew(None, &backend(0, 1));
        assert_eq!(contracts.renew(Some(first), &backend(0, 1)), first);
        contracts.on_pick(first);
        let second = contracts.renew(Some(first), &backend(0, 2));
        assert_ne!(second, first);
        assert_eq!(contracts.terms(first).backend.revision, 1);
        contracts.on_finish(first);
        let third = contracts.renew(Some(second), &backend(0, 3));
        let fourth = contracts.renew(None, &backend(1, 3));
        let mut ids = [third, fourth].map(TermsId::place);
        ids.sort();
        assert_eq!(ids, [0, 1], "nothing is out: both places are used again");
        assert_eq!(contracts.terms(fourth).backend.place, 1);
    }
}
