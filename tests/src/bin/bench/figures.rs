//! What is measured, and the figures a table shows of it.

use clap::ValueEnum;
use weir_tests::idle::Memory;

use crate::contender::Contender;
use crate::round::Round;

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, ValueEnum)]
pub enum Subject {
    SmallSplit,
    SmallShared,
    LargeSplit,
    HalfLoad,
    Memory,
    EbpfCost,
}

/// What one round gave.
#[derive(Clone, Debug, serde::Serialize)]
#[serde(untagged)]
pub enum Outcome {
    Round(Round),
    Memory(Memory),
}

/// A column: its title, its unit's digits after the point, and where it is in an outcome.
pub struct Figure {
    pub title: &'static str,
    pub digits: usize,
    of: fn(&Outcome) -> Option<f64>,
}

impl Figure {
    pub fn of(&self, outcome: &Outcome) -> Option<f64> {
        (self.of)(outcome)
    }
}

impl Subject {
    /// What is measured unless something else is asked for.
    pub const USUAL: [Subject; 5] = [
        Subject::SmallSplit,
        Subject::SmallShared,
        Subject::LargeSplit,
        Subject::HalfLoad,
        Subject::Memory,
    ];

    pub fn name(self) -> &'static str {
        match self {
            Subject::SmallSplit => "small GET, split",
            Subject::SmallShared => "small GET, shared",
            Subject::LargeSplit => "100 KiB bodies, split",
            Subject::HalfLoad => "small GET at half load, split",
            Subject::Memory => "idle clients",
            Subject::EbpfCost => "small GET over veth, shared",
        }
    }

    pub fn explanation(self) -> &'static str {
        match self {
            Subject::SmallSplit => {
                "proxy alone on one core, load and endpoints on the other, at saturation"
            }
            Subject::SmallShared => {
                "load, endpoints and proxy on one core, none interrupting another, at saturation"
            }
            Subject::LargeSplit => {
                "proxy alone on one core, load and endpoints on the other, at saturation"
            }
            Subject::HalfLoad => {
                "half the rate at which the slower of nginx and HAProxy saturates, evenly spaced"
            }
            Subject::Memory => {
                "user memory of a further client that has made a request and stays, and what the proxy takes itself"
            }
            Subject::EbpfCost => {
                "client, proxy and endpoints on hosts of their own, all on one core, at saturation"
            }
        }
    }

    /// Whom the others are compared with.
    pub fn yardsticks(self) -> &'static [Contender] {
        match self {
            Subject::EbpfCost => &[Contender::WeirWithoutBpf],
            _ => &[Contender::Nginx, Contender::Haproxy],
        }
    }

    /// Digits after the point that a ratio deserves.
    pub fn digits_of_ratio(self) -> usize {
        match self {
            Subject::EbpfCost => 3,
            _ => 2,
        }
    }

    /// The first figure is the one that is compared.
    pub fn figures(self) -> &'static [Figure] {
        match self {
            Subject::SmallSplit | Subject::SmallShared | Subject::LargeSplit => &SATURATED,
            Subject::EbpfCost => &PATH,
            Subject::HalfLoad => &HALF,
            Subject::Memory => &MEMORY,
        }
    }
}

static SATURATED: [Figure; 4] = [
    Figure {
        title: "CPU us/request",
        digits: 2,
        of: |outcome| Some(round(outcome)?.cpu_us),
    },
    Figure {
        title: "user",
        digits: 2,
        of: |outcome| Some(round(outcome)?.user_us),
    },
    Figure {
        title: "system",
        digits: 2,
        of: |outcome| Some(round(outcome)?.system_us),
    },
    Figure {
        title: "requests/s",
        digits: 0,
        of: |outcome| Some(round(outcome)?.per_second),
    },
];

static PATH: [Figure; 4] = [
    Figure {
        title: "whole path us/request",
        digits: 2,
        of: |outcome| Some(round(outcome)?.path_us),
    },
    Figure {
        title: "proxy us/request",
        digits: 2,
        of: |outcome| Some(round(outcome)?.cpu_us),
    },
    Figure {
        title: "its user",
        digits: 2,
        of: |outcome| Some(round(outcome)?.user_us),
    },
    Figure {
        title: "requests/s",
        digits: 0,
        of: |outcome| Some(round(outcome)?.per_second),
    },
];

static HALF: [Figure; 5] = [
    Figure {
        title: "p99 us",
        digits: 0,
        of: |outcome| Some(round(outcome)?.p99_us),
    },
    Figure {
        title: "p50 us",
        digits: 0,
        of: |outcome| Some(round(outcome)?.p50_us),
    },
    Figure {
        title: "kept waiting, ms/s",
        digits: 1,
        of: |outcome| Some(round(outcome)?.waited_ms),
    },
    Figure {
        title: "CPU us/request",
        digits: 2,
        of: |outcome| Some(round(outcome)?.cpu_us),
    },
    Figure {
        title: "requests/s",
        digits: 0,
        of: |outcome| Some(round(outcome)?.per_second),
    },
];

static MEMORY: [Figure; 3] = [
    Figure {
        title: "B/client",
        digits: 0,
        of: |outcome| Some(memory(outcome)?.per_client),
    },
    Figure {
        title: "at start, MiB",
        digits: 1,
        of: |outcome| Some(memory(outcome)?.at_start / 1048576.0),
    },
    Figure {
        title: "with 500 clients, MiB",
        digits: 1,
        of: |outcome| Some(memory(outcome)?.at_work / 1048576.0),
    },
];

fn round(outcome: &Outcome) -> Option<&Round> {
    match outcome {
        Outcome::Round(round) => Some(round),
        Outcome::Memory(_) => None,
    }
}

fn memory(outcome: &Outcome) -> Option<&Memory> {
    match outcome {
        Outcome::Memory(memory) => Some(memory),
        Outcome::Round(_) => None,
    }
}
