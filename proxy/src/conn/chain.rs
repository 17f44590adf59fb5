//! Doubly linked lists of small numbers, newest to oldest, in one array: a number is in at most one list of a chain.

/// The links of all lists.
#[derive(Debug, Default)]
pub struct Chain {
    links: Vec<Link>,
}

#[derive(Clone, Copy, Debug, Default)]
struct Link {
    newer: Option<Index>,
    older: Option<Index>,
}

/// Where one list begins and ends.
#[derive(Clone, Copy, Debug, Default)]
pub struct Ends {
    newest: Option<Index>,
    oldest: Option<Index>,
}

/// A number, one higher than it is: a link of two such takes eight bytes.
type Index = std::num::NonZeroU32;

impl Ends {
    pub fn newest(&self) -> Option<u32> {
        self.newest.map(number)
    }

    pub fn oldest(&self) -> Option<u32> {
        self.oldest.map(number)
    }
}

impl Chain {
    /// Puts a number that is in no list at the newest end of this one.
    pub fn push_newest(&mut self, ends: &mut Ends, number: u32) {
        let place = number as usize;
        if self.links.len() <= place {
            self.links.resize(place + 1, Link::default());
        }
        let index = Index::MIN.checked_add(number);
        self.links[place] = Link {
            newer: None,
            older: ends.newest,
        };
        match ends.newest {
            Some(newest) => self.link(newest).newer = index,
            None => ends.oldest = index,
        }
        ends.newest = index;
    }

    /// Takes a number out of the list it is in.
    pub fn remove(&mut self, ends: &mut Ends, number: u32) {
        let Link { newer, older } = self.links[number as usize];
        match newer {
            Some(newer) => self.link(newer).older = older,
            None => ends.newest = older,
        }
        match older {
            Some(older) => self.link(older).newer = newer,
            None => ends.oldest = newer,
        }
    }

    fn link(&mut self, index: Index) -> &mut Link {
        &mut self.links[number(index) as usize]
    }
}

fn number(index: Index) -> u32 {
    index.get() - 1
}

#[cfg(test)]
mod tests {
    use super::*;

    fn numbers(chain: &mut Chain, ends: &mut Ends) -> Vec<u32> {
        let mut numbers = Vec::new();
        while let Some(oldest) = ends.oldest() {
            chain.remove(ends, oldest);
            numbers.push(oldest);
        }
        assert_eq!(ends.newest(), None);
        numbers
    }

    #[test]
    fn a_number_can_be_taken_from_anywhere() {
        for (taken, left) in [(4, [0, 2]), (0, [4, 2]), (2, [4, 0])] {
            let (mut chain, mut ends) = (Chain::default(), Ends::default());
            for number in [4, 0, 2] {
                chain.push_newest(&mut ends, number);
            }
            chain.remove(&mut ends, taken);
            assert_eq!(numbers(&mut chain, &mut ends), left, "without {taken}");
        }
    }

    #[test]
    fn lists_of_a_chain_do_not_meet() {
        let mut chain = Chain::default();
        let mut lists = [Ends::default(), Ends::default()];
        for number in 0..6 {
            chain.push_newest(&mut lists[number as usize % 2], number);
        }
        let [even, odd] = &mut lists;
        assert_eq!(numbers(&mut chain, even), [0, 2, 4]);
        assert_eq!(numbers(&mut chain, odd), [1, 3, 5]);
    }
}
