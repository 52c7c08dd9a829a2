//! Vectors that a session keeps from one all-reduce to the next.
//!
//! A training process reduces the same tensors in every step. Memory that is new costs a page fault for every 4 KiB of it,
//! which together take longer than to aggregate what they hold.

use std::collections::VecDeque;

/// Smaller ones are got faster than they are looked for.
const KEPT_FROM: u64 = 64 << 10;

/// Vectors of elements of 32 bits, whatever they mean, in the order in which they were given back.
#[derive(Debug, Default)]
pub(super) struct KeptVectors(VecDeque<Vec<u32>>);

impl KeptVectors {
    /// One of exactly this length, whatever is in it; an empty one if there is none. Not a longer one: then what the session
    /// uses would be more than what is counted.
    pub(super) fn take(&mut self, len: usize) -> Vec<u32> {
        let at = self.0.iter().rposition(|vector| vector.len() == len);
        at.and_then(|at| self.0.remove(at)).unwrap_or_default()
    }

    /// Keeps one more, and of all of them the latest that are so many bytes together.
    pub(super) fn keep(&mut self, vector: Vec<u32>, most: u64) {
        if bytes(&vector) >= KEPT_FROM {
            self.0.push_back(vector);
        }
        self.keep_at_most(most);
    }

    /// Lets go of the oldest ones until all are at most so many bytes together.
    pub(super) fn keep_at_most(&mut self, most: u64) {
        let mut kept: u64 = self.0.iter().map(bytes).sum();
        while kept > most
            && let Some(oldest) = self.0.pop_front()
        {
            kept -= bytes(&oldest);
        }
    }
}

fn bytes(vector: &Vec<u32>) -> u64 {
    (vector.capacity() * size_of::<u32>()) as u64
}
