//! The courses of events that policies are put through: who is there, how many requests come, and what goes wrong when.

use std::ops::Range;
use std::time::Duration;

use clap::ValueEnum;

use crate::endpoint::Capacity;

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Name {
    /// Ten equal endpoints
    Equal,
    /// One of ten 20 times slower for 20 seconds, then as before
    Slow,
    /// One of ten fails every request at once for 20 seconds, then as before
    Failing,
    /// Five of ten take twice as long as the others
    Halves,
    /// A tenth endpoint joins nine
    Join,
    /// 1,600 equal endpoints, each with little to do
    Many,
    /// As slow, through four replicas that share no state
    Replicas,
}

/// One course of events.
#[derive(Clone, Debug)]
pub struct Scenario {
    pub name: Name,
    pub title: &'static str,
    pub endpoints: Vec<Capacity>,
    /// How many of the endpoints, from the first, are there at the start.
    pub members: usize,
    /// Requests per second, all replicas together.
    pub rate: f64,
    /// Proxies in front of the endpoints, each with a balancer of its own.
    pub replicas: usize,
    pub phases: Vec<Phase>,
    /// The endpoints something happens to.
    pub watched: Range<usize>,
    /// The phase a policy is judged by.
    pub judged: usize,
    /// Whether an endpoint may fail or be flooded: without it ejection has nothing to do.
    pub may_fail: bool,
}

#[derive(Clone, Debug)]
pub struct Phase {
    pub name: &'static str,
    pub length: Duration,
    /// What happens as it begins.
    pub change: Change,
}

/// What happens to the watched endpoints.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Change {
    Nothing,
    /// They take so many times longer.
    Slow(f64),
    /// This part of their requests fails.
    Fail(f64),
    /// They work again as at the start.
    Recover,
    /// They become members.
    Join,
}

const FIVE_MS: Capacity = Capacity {
    servers: 8,
    service: Duration::from_millis(5),
};
const TEN_MS: Capacity = Capacity {
    servers: 8,
    service: Duration::from_millis(10),
};

/// Part of all servers that is busy on average while all endpoints are there and well.
const UTILISATION: f64 = 0.5;

impl Scenario {
    pub fn of(name: Name) -> Self {
        match name {
            Name::Equal => Self::new(name, "ten equal endpoints", vec![FIVE_MS; 10]).with_phase(
                "steady",
                30.0,
                Change::Nothing,
            ),
            Name::Slow => Self::new(
                name,
                "one of ten endpoints 20 times slower for 20 s, then as before",
                vec![FIVE_MS; 10],
            )
            .watching(0..1)
            .with_phase("healthy", 10.0, Change::Nothing)
            .with_phase("slow", 20.0, Change::Slow(20.0))
            .with_phase("recovered", 20.0, Change::Recover)
            .judged_by(1)
            .that_may_fail(),
            Name::Failing => Self::new(
                name,
                "one of ten endpoints fails every request at once for 20 s, then as before",
                vec![FIVE_MS; 10],
            )
            .watching(0..1)
            .with_phase("healthy", 10.0, Change::Nothing)
            .with_phase("failing", 20.0, Change::Fail(1.0))
            .with_phase("recovered", 30.0, Change::Recover)
            .judged_by(1)
            .that_may_fail(),
            Name::Halves => Self::new(
                name,
                "five of ten endpoints take twice as long as the others",
                [[FIVE_MS; 5], [TEN_MS; 5]].concat(),
            )
            .watching(5..10)
            .with_phase("steady", 30.0, Change::Nothing),
            Name::Join => Self {
                members: 9,
                ..Self::new(name, "a tenth endpoint joins nine", vec![FIVE_MS; 10])
            }
            .watching(9..10)
            .with_phase("nine", 10.0, Change::Nothing)
            .with_phase("joined", 20.0, Change::Join)
            .judged_by(1),
            Name::Many => Self {
                rate: 32_000.0,
                ..Self::new(
                    name,
                    "1,600 equal endpoints at low load",
                    vec![FIVE_MS; 1600],
                )
            }
            .with_phase("start", 10.0, Change::Nothing)
            .with_phase("steady", 500.0, Change::Nothing)
            .judged_by(1),
            Name::Replicas => Self {
                name,
                title: "one of ten endpoints 20 times slower for 20 s, behind four replicas without shared state",
                replicas: 4,
                ..Self::of(Name::Slow)
            },
        }
    }

    fn new(name: Name, title: &'static str, endpoints: Vec<Capacity>) -> Self {
        let scenario = Self {
            name,
            title,
            members: endpoints.len(),
            rate: 0.0,
            endpoints,
            replicas: 1,
            phases: Vec::new(),
            watched: 0..0,
            judged: 0,
            may_fail: false,
        };
        scenario.loaded(UTILISATION)
    }

    fn watching(mut self, watched: Range<usize>) -> Self {
        self.watched = watched;
        self
    }

    fn with_phase(mut self, name: &'static str, seconds: f64, change: Change) -> Self {
        self.phases.push(Phase {
            name,
            length: Duration::from_secs_f64(seconds),
            change,
        });
        self
    }

    fn judged_by(mut self, phase: usize) -> Self {
        self.judged = phase;
        self
    }

    fn that_may_fail(mut self) -> Self {
        self.may_fail = true;
        self
    }

    /// The same course in this time: every phase becomes shorter or longer alike.
    pub fn lasting(mut self, total: Duration) -> Self {
        let factor = total.as_secs_f64() / self.length().as_secs_f64();
        for phase in &mut self.phases {
            phase.length = phase.length.mul_f64(factor);
        }
        self
    }

    /// The same course with this part of all servers busy on average.
    pub fn loaded(mut self, part: f64) -> Self {
        self.rate = part * self.endpoints.iter().map(Capacity::rate).sum::<f64>();
        self
    }

    pub fn length(&self) -> Duration {
        self.phases.iter().map(|phase| phase.length).sum()
    }

    /// When each phase begins, after the start.
    pub fn starts(&self) -> Vec<Duration> {
        let mut start = Duration::ZERO;
        let mut starts = Vec::new();
        for phase in &self.phases {
            starts.push(start);
            start += phase.length;
        }
        starts
    }

    /// Members during a phase.
    pub fn members_in(&self, phase: usize) -> usize {
        let is_join = |phase: &Phase| phase.change == Change::Join;
        if self.phases[..=phase].iter().any(is_join) {
            self.endpoints.len()
        } else {
            self.members
        }
    }

    /// The part of the requests the watched endpoints would get if all members were treated alike.
    pub fn fair_share(&self, phase: usize) -> f64 {
        self.watched.len() as f64 / self.members_in(phase) as f64
    }

    /// When the watched endpoints are as good as the others again, or first there, after the start.
    pub fn turn(&self) -> Option<Duration> {
        let is_turn = |phase: &Phase| matches!(phase.change, Change::Recover | Change::Join);
        let phase = self.phases.iter().position(is_turn)?;
        Some(self.starts()[phase])
    }
}
