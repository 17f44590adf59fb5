//! A store that gives its entries small numbers with a generation: a number is used again, a key never.

use std::marker::PhantomData;

/// Key of a [`Slab`].
pub trait SlabKey: Copy {
    fn from_parts(index: u32, generation: u32) -> Self;

    fn index(self) -> u32;

    fn generation(self) -> u32;
}

/// Entries of `T` under keys of type `K`.
#[derive(Debug)]
pub struct Slab<K, T> {
    slots: Vec<Slot<T>>,
    free: Vec<u32>,
    key: PhantomData<K>,
}

#[derive(Debug)]
struct Slot<T> {
    generation: u32,
    entry: Option<T>,
}

impl<K, T> Default for Slab<K, T> {
    fn default() -> Self {
        Self {
            slots: Vec::new(),
            free: Vec::new(),
            key: PhantomData,
        }
    }
}

impl<K: SlabKey, T> Slab<K, T> {
    pub fn insert(&mut self, entry: T) -> K {
        let index = self.free_index();
        let slot = &mut self.slots[index as usize];
        slot.entry = Some(entry);
        K::from_parts(index, slot.generation)
    }

    /// A key nothing is under: whoever has it keeps what belongs to it elsewhere. It counts as an entry until it is
    /// [released](Self::release).
    pub fn reserve(&mut self) -> K {
        let index = self.free_index();
        K::from_parts(index, self.slots[index as usize].generation)
    }

    /// Gives a reserved key back.
    pub fn release(&mut self, key: K) {
        let slot = self.slots.get_mut(key.index() as usize);
        let slot = slot.filter(|it| it.generation == key.generation() && it.entry.is_none());
        if let Some(slot) = slot {
            slot.generation = slot.generation.wrapping_add(1);
            self.free.push(key.index());
        }
    }

    fn free_index(&mut self) -> u32 {
        self.free.pop().unwrap_or_else(|| {
            self.slots.push(Slot {
                generation: 0,
                entry: None,
            });
            u32::try_from(self.slots.len() - 1)
                .expect("descriptors run out long before 2^32 connections")
        })
    }

    pub fn get(&self, key: K) -> Option<&T> {
        let slot = self.slots.get(key.index() as usize)?;
        slot.entry
            .as_ref()
            .filter(|_| slot.generation == key.generation())
    }

    pub fn get_mut(&mut self, key: K) -> Option<&mut T> {
        let slot = self.slots.get_mut(key.index() as usize)?;
        slot.entry
            .as_mut()
            .filter(|_| slot.generation == key.generation())
    }

    pub fn remove(&mut self, key: K) -> Option<T> {
        let slot = self.slots.get_mut(key.index() as usize)?;
        if slot.generation != key.generation() {
            return None;
        }
        let entry = slot.entry.take()?;
        slot.generation = slot.generation.wrapping_add(1);
        self.free.push(key.index());
        Some(entry)
    }

    pub fn len(&self) -> usize {
        self.slots.len() - self.free.len()
    }

    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    pub fn iter(&self) -> impl Iterator<Item = (K, &T)> {
        self.slots.iter().enumerate().filter_map(|(index, slot)| {
            let key = K::from_parts(index as u32, slot.generation);
            slot.entry.as_ref().map(|entry| (key, entry))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::seam::ConnId;

    #[test]
    fn an_old_key_finds_nothing_although_its_number_is_used_again() {
        let mut slab: Slab<ConnId, &str> = Slab::default();
        let first = slab.insert("first");
        assert_eq!(slab.remove(first), Some("first"));
        let second = slab.insert("second");
        assert_eq!(second.index, first.index);
        assert_eq!(slab.get(first), None);
        assert_eq!(slab.get_mut(first), None);
        assert_eq!(slab.remove(first), None);
        assert_eq!(slab.get(second), Some(&"second"));
        assert_eq!(slab.len(), 1);
    }

    #[test]
    fn a_reserved_key_is_nobodys_until_it_is_released() {
        let mut slab: Slab<ConnId, &str> = Slab::default();
        let reserved = slab.reserve();
        let other = slab.insert("other");
        assert_ne!(other.index, reserved.index);
        assert_eq!(slab.get(reserved), None);
        assert_eq!(slab.remove(reserved), None);
        assert_eq!(slab.len(), 2);
        slab.release(reserved);
        slab.release(reserved);
        slab.release(other);
        assert_eq!((slab.len(), slab.get(other)), (1, Some(&"other")));
        let next = slab.insert("next");
        assert_eq!(next.index, reserved.index);
        assert_ne!(next, reserved);
    }
}
