//! Finds the winner among many endpoints without computing their values: a bar that hardly ever has nobody above it
//! leaves a handful of them, bounds of their values decide between those, and whoever leads raises the bar. None of it
//! ever changes the winner.
//!
//! ```text
//! P(no value reaches t) = e^(-W/t), W the sum of the weights        bar t = W / 4: one key in 55 has nobody above it
//! value >= t  =>  1 - u < -ln u <= weight / t                        its mix is within weight / t of the highest
//! ```

use std::cmp::Reverse;
use std::iter::{repeat, repeat_n};

use crate::hash::{AffinityKey, EndpointHash, Mix, Prepared, Stirred};
use crate::reach::{Reach, Share};

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
    /// The heaviest first, so that those of a block weigh about the same.
    members: Vec<Member>,
    /// Of the members, and behind them a block of nobody: so any place is followed by whole blocks up to the last member.
    hashes: Vec<Prepared>,
    /// Of the heaviest in each block.
    shares: Vec<Share>,
    /// All weigh the same: mixes decide, and not values.
    is_even: bool,
}

#[derive(Clone, Copy, Debug)]
struct Member {
    place: usize,
    weight: u16,
    hash: EndpointHash,
    /// The bar over its weight.
    per_weight: f64,
}

/// So many are looked at together.
const BLOCK: usize = 16;

impl Candidates {
    /// How many are above the bar, on average.
    const ABOVE: f64 = 4.0;

    /// Takes these in the place of all earlier ones.
    pub fn rebuild(&mut self, candidates: impl Iterator<Item = Candidate>) {
        let viable = candidates.filter(|candidate| candidate.weight > 0);
        self.members.clear();
        self.members.extend(viable.map(|one| Member {
            place: one.place,
            weight: one.weight,
            hash: one.hash,
            per_weight: 0.0,
        }));
        self.members
            .sort_unstable_by_key(|one| (Reverse(one.weight), one.place));
        let sum: u64 = self.members.iter().map(|one| u64::from(one.weight)).sum();
        let bar = sum as f64 / Self::ABOVE;
        for member in &mut self.members {
            member.per_weight = bar / f64::from(member.weight);
        }
        let weight = |one: &Member| one.weight;
        self.is_even = self.members.first().map(weight) == self.members.last().map(weight);
        self.hashes.clear();
        let hashes = self.members.iter().map(|one| one.hash.into());
        let nobodys = repeat_n(Prepared::NONE, BLOCK);
        self.hashes.extend(hashes.chain(nobodys));
        self.shares.clear();
        let heaviest = self.members.iter().step_by(BLOCK);
        let shares = heaviest.map(|one| Share::of(f64::from(one.weight) / bar));
        self.shares.extend(shares.chain([Share::NONE]));
    }

    /// The place of the candidate with the highest value among those wanted.
    pub fn best(&self, key: AffinityKey, is_wanted: impl Fn(usize) -> bool) -> Option<usize> {
        let key = key.into();
        // Few are all above the bar.
        let is_large = self.members.len() > Self::ABOVE as usize;
        let reaches = [Reach::USUAL, Reach::LONG].into_iter();
        let mut reaches = reaches.filter(|_| is_large);
        if self.is_even {
            let highest = |reach| self.highest_within(key, reach, &is_wanted);
            let found = reaches.find_map(highest);
            return found.or_else(|| highest(Reach::ENDLESS));
        }
        let surely_best = reaches.find_map(|reach| {
            let best = self.best_within(key, reach, &is_wanted)?;
            // A better one can have been missed if this one is out of reach.
            best.is_within(reach).then_some(best)
        });
        let best = surely_best.or_else(|| self.best_within(key, Reach::ENDLESS, &is_wanted));
        best.map(|best| best.member.place)
    }

    /// Of equal weights, the place of the highest mix of those wanted. Whoever leads raises the floor for the others.
    fn highest_within(
        &self,
        key: Prepared,
        reach: Reach,
        is_wanted: impl Fn(usize) -> bool,
    ) -> Option<usize> {
        let mut floor = reach.floor(*self.shares.first()?).aligned();
        let mut best = None;
        let mut from = 0;
        while let Some(at) = next_above(&self.hashes, from, key, repeat(floor)) {
            from = at + 1;
            // Nobody's hashes are behind all members.
            let Some(member) = self.members.get(at) else {
                break;
            };
            let mix = key.stir(self.hashes[at]).finish();
            if best.is_none_or(|(_, highest)| mix > highest) && is_wanted(member.place) {
                best = Some((member.place, mix));
                floor = mix.floor();
            }
        }
        best.map(|(place, _)| place)
    }

    /// The best of those wanted within reach. Whoever leads shortens the reach for the others.
    fn best_within(
        &self,
        key: Prepared,
        mut reach: Reach,
        is_wanted: impl Fn(usize) -> bool,
    ) -> Option<Contender> {
        let mut best: Option<Contender> = None;
        let mut from = 0;
        loop {
            // Where blocks do not begin as those of the shares do, their heaviest is no heavier.
            let shares = self.shares.get(from / BLOCK..)?.iter();
            let floors = shares.map(|share| reach.floor(*share));
            let Some(at) = next_above(&self.hashes, from, key, floors) else {
                return best;
            };
            from = at + 1;
            let Some(member) = self.members.get(at) else {
                return best;
            };
            let contender = Contender::new(*member, key.stir(self.hashes[at]).finish());
            if best.is_none_or(|best| contender.beats(best)) && is_wanted(member.place) {
                reach = reach.min(Reach::of(contender.most));
                best = Some(contender);
            }
        }
    }
}

/// The place of the next hash that comes up to the floor of its block; blocks begin at `from`. A function of its own, so
/// that the loop has all registers: it takes two multiplications an endpoint, and little else of it shows.
#[inline(never)]
fn next_above(
    hashes: &[Prepared],
    from: usize,
    key: Prepared,
    floors: impl Iterator<Item = Stirred>,
) -> Option<usize> {
    let (blocks, _) = hashes.get(from..)?.as_chunks::<BLOCK>();
    let mut at = from;
    for (block, floor) in blocks.iter().zip(floors) {
        let mut hashes = block.iter();
        if let Some(lane) = hashes.position(|hash| key.stir(*hash) >= floor) {
            return Some(at + lane);
        }
        at += BLOCK;
    }
    None
}

/// An endpoint that may be the best.
#[derive(Clone, Copy, Debug)]
struct Contender {
    member: Member,
    mix: Mix,
    /// What the bar over its value lies between: the lower, the better.
    least: f64,
    most: f64,
}

impl Contender {
    #[inline]
    fn new(member: Member, mix: Mix) -> Self {
        let (least, most) = mix.negative_ln_bounds();
        Self {
            member,
            mix,
            least: least * member.per_weight,
            most: most * member.per_weight,
        }
    }

    fn value(&self) -> f64 {
        self.mix.value(self.member.weight)
    }

    #[inline]
    fn is_within(&self, reach: Reach) -> bool {
        let bar = self.member.per_weight * f64::from(self.member.weight);
        self.most <= reach.as_f64() || self.value() * reach.as_f64() >= bar * (1.0 + 1e-14)
    }

    /// Of equal values, which only neighbouring mixes have, the higher mix wins, as it does where all weights are 1.
    #[inline]
    fn beats(&self, other: Self) -> bool {
        if self.member.weight == other.member.weight {
            return self.mix > other.mix;
        }
        // Exactly only where the bounds overlap.
        if self.most < other.least || self.least > other.most {
            return self.most < other.least;
        }
        let (mine, others) = (self.value(), other.value());
        mine > others || (mine == others && self.mix > other.mix)
    }
}
