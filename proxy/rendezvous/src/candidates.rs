//! Finds the winner among many endpoints without computing their values: a bar that hardly ever has nobody above it
//! leaves a handful of them, and bounds of their values decide between those. None of it ever changes the winner.
//!
//! ```text
//! P(no value reaches t) = e^(-W/t), W the sum of the weights        bar t = W / 4: one key in 55 has nobody above it
//! value >= t  =>  1 - u < -ln u <= weight / t                        floor of the mix: 1 - weight / t
//! ```

use crate::hash::{AffinityKey, EndpointHash, Mix, Prepared, Stirred};

/// One endpoint that may win.
#[derive(Clone, Copy, Debug)]
pub struct Candidate {
    /// What it is called in answers.
    pub place: usize,
    /// Its relative share. One of weight 0 never wins.
    pub weight: u16,
    pub hash: EndpointHash,
}

/// Endpoints among which keys choose.
#[derive(Debug, Default)]
pub struct Candidates {
    blocks: Vec<Block>,
    members: Vec<Member>,
    /// Weights differ: values decide, and not the mix alone.
    is_weighted: bool,
    /// The value that each candidate offers at its own floor.
    bar: f64,
}

/// The part of a candidate that every key looks at.
#[derive(Clone, Copy, Debug)]
struct Lane {
    hash: Prepared,
    /// Below it the value is below the bar.
    floor: Stirred,
}

const BLOCK: usize = 8;
/// The last block is filled up.
#[derive(Clone, Copy, Debug)]
struct Block([Lane; BLOCK]);

#[derive(Clone, Copy, Debug)]
struct Member {
    place: usize,
    weight: u16,
}

/// How much lower than usual the bar lies, as a power of two.
type Lowering = u32;

impl Candidates {
    /// How many are above the bar, on average.
    const ABOVE: f64 = 4.0;

    /// Takes these in the place of all earlier ones.
    pub fn rebuild(&mut self, candidates: impl Iterator<Item = Candidate> + Clone) {
        let viable = candidates.filter(|candidate| candidate.weight > 0);
        let weights = viable.clone().map(|one| one.weight);
        let sum: u64 = weights.clone().map(u64::from).sum();
        self.bar = sum as f64 / Self::ABOVE;
        self.is_weighted = weights.clone().min() != weights.max();

        self.blocks.clear();
        self.members.clear();
        for candidate in viable {
            let lane = self.members.len() % BLOCK;
            if lane == 0 {
                self.blocks.push(Block::EMPTY);
            }
            if let Some(block) = self.blocks.last_mut() {
                block.0[lane] = Lane {
                    hash: candidate.hash.into(),
                    floor: floor_of(f64::from(candidate.weight) / self.bar),
                };
            }
            self.members.push(Member {
                place: candidate.place,
                weight: candidate.weight,
            });
        }
    }

    /// The place of the candidate with the highest value among those wanted.
    pub fn best(&self, key: AffinityKey, is_wanted: impl Fn(usize) -> bool) -> Option<usize> {
        let key = key.into();
        // The usual bar has somebody above it but for one key in 55, the next one always, unless nobody there is wanted.
        // Nobody is below the last one.
        const USUAL: Lowering = 0;
        const LOW: Lowering = 4;
        const LOWEST: Lowering = 63;
        let surely_best = [USUAL, LOW].into_iter().find_map(|lowering| {
            let best = self.best_above(key, lowering, &is_wanted)?;
            let bar = self.bar / f64::from(1 << lowering);
            (!self.is_weighted || best.is_worth(bar)).then_some(best)
        });
        let best = surely_best.or_else(|| self.best_above(key, LOWEST, &is_wanted));
        best.map(|best| best.member.place)
    }

    /// The best of those above a bar. With weights, a better one can be missed if this one's value is below the bar.
    fn best_above(
        &self,
        key: Prepared,
        lowering: Lowering,
        is_wanted: impl Fn(usize) -> bool,
    ) -> Option<Contender> {
        let mut best: Option<Contender> = None;
        let mut from = 0;
        while let Some(at) = self.next_block_above(from, key, lowering) {
            from = at + 1;
            let block = &self.blocks[at];
            for lane in ones(block.lanes_above(key, lowering)) {
                // Nobody's lanes are behind all members.
                let member = self.members.get(at * BLOCK + lane);
                let Some(member) = member.filter(|member| is_wanted(member.place)) else {
                    continue;
                };
                let contender = Contender {
                    member: *member,
                    mix: key.stir(block.0[lane].hash).finish(),
                };
                if best.is_none_or(|best| contender.beats(best)) {
                    best = Some(contender);
                }
            }
        }
        best
    }

    /// The next block with anybody above the bar. A function of its own, so that the loop has all registers: it takes two
    /// multiplications an endpoint, and nothing else of it shows.
    #[inline(never)]
    fn next_block_above(&self, from: usize, key: Prepared, lowering: Lowering) -> Option<usize> {
        let blocks = self.blocks.get(from..)?;
        let found = match lowering {
            0 => blocks.iter().position(|block| block.any_above(key, 0)),
            _ => blocks
                .iter()
                .position(|block| block.any_above(key, lowering)),
        };
        found.map(|at| from + at)
    }
}

/// Of the mix of an endpoint that offers the bar's value, where `share` is weight / bar.
fn floor_of(share: f64) -> Stirred {
    // Covers the rounding of u, which is at most 2^-53, and that of this line. Negative numbers become 0.
    const SLACK: f64 = 1e-12;
    let least = 1.0 - share - SLACK;
    Stirred::floor_of((least * (1_u128 << 64) as f64) as u64)
}

impl Block {
    const EMPTY: Self = Self(
        [Lane {
            hash: Prepared::NONE,
            floor: Stirred::MAX,
        }; BLOCK],
    );

    #[inline(always)]
    fn any_above(&self, key: Prepared, lowering: Lowering) -> bool {
        let mut lanes = self.0.iter();
        lanes.any(|lane| key.stir(lane.hash).reaches(lane.floor, lowering))
    }

    /// A bit for every lane above the bar.
    fn lanes_above(&self, key: Prepared, lowering: Lowering) -> u32 {
        let lanes = self.0.iter().rev();
        lanes.fold(0, |bits, lane| {
            bits << 1 | u32::from(key.stir(lane.hash).reaches(lane.floor, lowering))
        })
    }
}

/// The places of the bits that are set.
fn ones(mut bits: u32) -> impl Iterator<Item = usize> {
    std::iter::from_fn(move || {
        let place = bits.trailing_zeros() as usize;
        let is_set = bits != 0;
        bits &= bits.wrapping_sub(1);
        is_set.then_some(place)
    })
}

/// An endpoint that may be the best.
#[derive(Clone, Copy, Debug)]
struct Contender {
    member: Member,
    mix: Mix,
}

impl Contender {
    fn weight(&self) -> f64 {
        self.member.weight.into()
    }

    fn value(&self) -> f64 {
        self.mix.value(self.member.weight)
    }

    fn is_worth(&self, value: f64) -> bool {
        let (_, most) = self.mix.negative_ln_bounds();
        self.weight() >= value * most || self.value() >= value
    }

    /// Of equal values, which only neighbouring mixes have, the higher mix wins, as it does where all weights are 1.
    fn beats(&self, other: Self) -> bool {
        if self.member.weight == other.member.weight {
            return self.mix > other.mix;
        }
        // Values are weight / -ln u: compared crosswise, and exactly only where the bounds overlap.
        let (mine, others) = (
            self.mix.negative_ln_bounds(),
            other.mix.negative_ln_bounds(),
        );
        if self.weight() * others.0 > other.weight() * mine.1 {
            return true;
        }
        if self.weight() * others.1 < other.weight() * mine.0 {
            return false;
        }
        let (mine, others) = (self.value(), other.value());
        mine > others || (mine == others && self.mix > other.mix)
    }
}
