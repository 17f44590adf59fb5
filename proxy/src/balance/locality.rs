//! Near endpoints first. A backend may name scopes in the order in which they matter; an endpoint's rank is how many of
//! them, from the first on, it shares with the proxy.
//!
//! ```text
//! bucket = scopes - rank      0 shares them all
//! ```

use std::fmt;

use super::endpoint::Bucket;

/// Where something stands. Empty: not said.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Locality {
    pub region: String,
    pub zone: String,
    pub subzone: String,
    pub node: String,
    pub cluster: String,
    pub network: String,
}

/// One part of a locality.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scope {
    Region,
    Zone,
    Subzone,
    Node,
    Cluster,
    Network,
}

/// What becomes of endpoints that do not share all scopes with the proxy.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum LocalityMode {
    /// They are as good as the others.
    #[default]
    Standard,
    /// They stand in for the nearer ones, the nearest first.
    Failover,
    /// They are not used at all.
    Strict,
}

/// How much a backend cares where its endpoints are. By default not at all.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LocalityPolicy {
    /// The most important first.
    pub scopes: &'static [Scope],
    pub mode: LocalityMode,
}

impl Locality {
    pub fn is_unknown(&self) -> bool {
        *self == Self::default()
    }

    fn part(&self, scope: Scope) -> &str {
        match scope {
            Scope::Region => &self.region,
            Scope::Zone => &self.zone,
            Scope::Subzone => &self.subzone,
            Scope::Node => &self.node,
            Scope::Cluster => &self.cluster,
            Scope::Network => &self.network,
        }
    }
}

impl LocalityPolicy {
    /// The bucket of an endpoint; `None`: it is not used. A proxy that does not know where it stands (`own`) prefers
    /// none.
    pub fn bucket(&self, own: Option<&Locality>, endpoint: &Locality) -> Option<Bucket> {
        let Some(own) = own else {
            return Some(Bucket::default());
        };
        let is_shared = |scope: &&Scope| own.part(**scope) == endpoint.part(**scope);
        let rank = self.scopes.iter().take_while(is_shared).count();
        let missed = u8::try_from(self.scopes.len() - rank).unwrap_or(u8::MAX);
        match self.mode {
            LocalityMode::Standard => Some(Bucket::default()),
            LocalityMode::Failover => Some(Bucket(missed)),
            LocalityMode::Strict => (missed == 0).then(Bucket::default),
        }
    }
}

impl fmt::Display for Scope {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(match self {
            Self::Region => "region",
            Self::Zone => "zone",
            Self::Subzone => "subzone",
            Self::Node => "node",
            Self::Cluster => "cluster",
            Self::Network => "network",
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SCOPES: &[Scope] = &[Scope::Network, Scope::Region, Scope::Zone];

    fn at(region: &str, zone: &str) -> Locality {
        Locality {
            region: region.into(),
            zone: zone.into(),
            ..Locality::default()
        }
    }

    fn bucket(mode: LocalityMode, own: Option<&Locality>, endpoint: &Locality) -> Option<u8> {
        let policy = LocalityPolicy {
            scopes: SCOPES,
            mode,
        };
        policy.bucket(own, endpoint).map(|bucket| bucket.0)
    }

    #[test]
    fn failover_ranks_by_the_leading_scopes_that_are_shared() {
        let own = at("r1", "a");
        let of = |endpoint| bucket(LocalityMode::Failover, Some(&own), &endpoint);
        assert_eq!(of(at("r1", "a")), Some(0));
        assert_eq!(of(at("r1", "b")), Some(1));
        assert_eq!(of(at("r2", "a")), Some(2), "a zone of another region");
        assert_eq!(of(at("", "a")), Some(2), "a region that is not said");
        let elsewhere = Locality {
            network: "n2".into(),
            ..at("r1", "a")
        };
        assert_eq!(of(elsewhere), Some(3));
    }

    #[test]
    fn strict_drops_all_but_full_matches() {
        let own = at("r1", "a");
        let of = |endpoint| bucket(LocalityMode::Strict, Some(&own), &endpoint);
        assert_eq!(of(at("r1", "a")), Some(0));
        assert_eq!(of(at("r1", "b")), None);
        assert_eq!(of(at("r1", "")), None);
    }

    #[test]
    fn standard_has_one_bucket_wherever_endpoints_are() {
        let own = at("r1", "a");
        let of = |endpoint| bucket(LocalityMode::Standard, Some(&own), &endpoint);
        assert_eq!(of(at("r1", "a")), Some(0));
        assert_eq!(of(at("r2", "b")), Some(0));
    }

    #[test]
    fn nothing_equals_nothing() {
        let own = at("r1", "");
        let of = |endpoint| bucket(LocalityMode::Failover, Some(&own), &endpoint);
        assert_eq!(of(at("r1", "")), Some(0));
        assert_eq!(of(at("r1", "a")), Some(1));
    }

    #[test]
    fn a_proxy_that_does_not_know_where_it_is_prefers_none_in_any_mode() {
        use LocalityMode::{Failover, Standard, Strict};
        for mode in [Standard, Failover, Strict] {
            assert_eq!(bucket(mode, None, &at("r2", "b")), Some(0), "{mode:?}");
        }
    }

    #[test]
    fn without_scopes_all_match_in_full() {
        let policy = LocalityPolicy {
            scopes: &[],
            mode: LocalityMode::Strict,
        };
        let bucket = policy.bucket(Some(&at("r1", "a")), &at("r2", "b"));
        assert_eq!(bucket, Some(Bucket(0)));
    }
}
