//! The allocation of the slots of one switch to jobs.

use std::collections::BTreeMap;

use thiserror::Error;

/// The slots of one switch, allocated in aligned blocks whose sizes are powers of two.
/// The slot of a slice in a block is therefore `base | (seq & (size - 1))` for every sequence number.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct SlotMap {
    capacity: u32,
    /// The size of each allocated block, by its base.
    taken: BTreeMap<u32, u32>,
}

/// An aligned block of slots. Its size is a power of two.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct SlotBlock {
    pub(crate) base: u32,
    pub(crate) size: u32,
}

/// Error: no free block of the needed size is left.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[error("{needed} slots needed in one block; {free} of {capacity} are free, {largest} in the largest block")]
pub(crate) struct NoSlots {
    pub(crate) needed: u32,
    pub(crate) free: u32,
    pub(crate) largest: u32,
    pub(crate) capacity: u32,
}

impl SlotMap {
    /// Creates the map of a switch with `capacity` slots, all free.
    pub(crate) fn new(capacity: u32) -> Self {
        Self { capacity, taken: BTreeMap::new() }
    }

    /// Changes the number of slots. Returns false if an allocated block would not fit any more.
    pub(crate) fn resize(&mut self, capacity: u32) -> bool {
        let fits = self.taken.iter().all(|(base, len)| base.saturating_add(*len) <= capacity);
        if fits {
            self.capacity = capacity;
        }
        fits
    }

    /// Allocates the first free block of `size` slots, and returns its base. `size` must be a power of two.
    pub(crate) fn allocate(&mut self, size: u32) -> Result<u32, NoSlots> {
        match self.first_fit(size) {
            Some(base) => {
                self.taken.insert(base, size);
                Ok(base)
            }
            None => Err(NoSlots {
                needed: size,
                free: self.free(),
                largest: self.largest_block(),
                capacity: self.capacity,
            }),
        }
    }

    /// Allocates exactly this block, for a job that had it under an earlier controller.
    /// Returns false if the block is not free or not valid.
    pub(crate) fn claim(&mut self, base: u32, size: u32) -> bool {
        let Some(end) = base.checked_add(size).filter(|end| *end <= self.capacity) else { return false };
        let is_block = size.is_power_of_two() && base.is_multiple_of(size);
        let free = self.taken.iter().all(|(other, len)| end <= *other || base >= other + len);
        if is_block && free {
            self.taken.insert(base, size);
        }
        is_block && free
    }

    /// Releases the block at `base`. Has no effect if there is none.
    pub(crate) fn release(&mut self, base: u32) {
        self.taken.remove(&base);
    }

    /// Returns the number of slots.
    pub(crate) fn capacity(&self) -> u32 {
        self.capacity
    }

    /// Returns the size of the largest block when all slots are free; 0 without slots.
    pub(crate) fn largest_possible_block(&self) -> u32 {
        self.capacity.checked_ilog2().map_or(0, |exponent| 1 << exponent)
    }

    /// Returns the number of free slots, which need not be contiguous.
    pub(crate) fn free(&self) -> u32 {
        self.capacity.saturating_sub(self.taken.values().sum())
    }

    /// Returns the size of the largest block that [`allocate`](Self::allocate) can return; 0 if there is
    /// none.
    pub(crate) fn largest_block(&self) -> u32 {
        let mut sizes = (0..u32::BITS).rev().map(|exponent| 1u32 << exponent);
        sizes.find(|size| self.first_fit(*size).is_some()).unwrap_or(0)
    }

    fn first_fit(&self, size: u32) -> Option<u32> {
        if !size.is_power_of_two() {
            return None;
        }
        let mut base = 0u32;
        for (&taken, &len) in &self.taken {
            if taken >= base.checked_add(size)? {
                break;
            }
            base = base.max(taken.checked_add(len)?.checked_next_multiple_of(size)?);
        }
        (base.checked_add(size)? <= self.capacity).then_some(base)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::collection::vec;
    use proptest::prelude::*;

    #[derive(Debug, Clone)]
    enum Step {
        Allocate(u32),
        /// Releases a block. The number is the position of the block among the blocks that are allocated at
        /// that time.
        Release(usize),
    }

    fn step() -> impl Strategy<Value = Step> {
        prop_oneof![
            (0u32..8).prop_map(|exponent| Step::Allocate(1 << exponent)),
            any::<usize>().prop_map(Step::Release),
        ]
    }

    proptest! {
        /// Compares the map with an array that stores for each slot if it is taken.
        #[test]
        fn blocks_are_aligned_inside_and_apart(capacity in 0u32..300, steps in vec(step(), 0..60)) {
            let mut map = SlotMap::new(capacity);
            let mut owned = vec![false; capacity as usize];
            let mut blocks = Vec::new();
            for step in steps {
                match step {
                    Step::Allocate(size) => {
                        let fits = |base: &usize| owned[*base..].len() >= size as usize
                            && owned[*base..][..size as usize].iter().all(|slot| !slot);
                        let expected = (0..capacity as usize).step_by(size as usize).find(fits);
                        match map.allocate(size) {
                            Ok(base) => {
                                prop_assert_eq!(Some(base as usize), expected);
                                owned[base as usize..][..size as usize].fill(true);
                                blocks.push((base, size));
                            }
                            Err(error) => {
                                prop_assert_eq!(None, expected);
                                prop_assert!(error.largest < size);
                            }
                        }
                    }
                    Step::Release(_) if blocks.is_empty() => {}
                    Step::Release(which) => {
                        let (base, size) = blocks.swap_remove(which % blocks.len());
                        map.release(base);
                        owned[base as usize..][..size as usize].fill(false);
                    }
                }
                prop_assert_eq!(map.free() as usize, owned.iter().filter(|slot| !**slot).count());
                let largest = map.largest_block();
                prop_assert!(largest == 0 || map.clone().allocate(largest).is_ok());
                prop_assert!(map.clone().allocate((2 * largest).max(1)).is_err());
            }
        }
    }

    #[test]
    fn a_switch_grows_and_shrinks_as_far_as_nobody_owns_what_goes() {
        let mut map = SlotMap::new(64);
        map.allocate(32).unwrap();
        assert!(map.resize(128) && map.allocate(64).is_ok());
        assert!(!map.resize(64), "half of it is owned");
        assert_eq!(map.free(), 32);
        map.release(64);
        assert!(map.resize(32) && map.free() == 0);
    }

    #[test]
    fn a_block_that_is_no_power_of_two_is_refused() {
        assert!(SlotMap::new(64).allocate(0).is_err());
        assert!(SlotMap::new(64).allocate(3).is_err());
    }

    #[test]
    fn the_error_tells_pieces_from_blocks() {
        let mut map = SlotMap::new(64);
        let bases = [map.allocate(16), map.allocate(16), map.allocate(32)].map(Result::unwrap);
        map.release(bases[0]);
        let error = map.allocate(32).unwrap_err();
        assert_eq!(
            error.to_string(),
            "32 slots needed in one block; 16 of 64 are free, 16 in the largest block"
        );
    }
}
