//! Vectors that a session keeps from one all-reduce to the next.
//!
//! A training process reduces the same tensors in every step. New memory costs a page fault for every 4 KiB, and all of
//! these take longer than aggregating the contents.

use std::collections::VecDeque;

/// The smallest vector that is kept, in bytes: allocating a smaller one is faster than looking for it.
const KEPT_FROM: u64 = 64 << 10;

/// Vectors of 32-bit elements of any type, in the order in which they were given back.
#[derive(Debug, Default)]
pub(super) struct KeptVectors(VecDeque<Vec<u32>>);

impl KeptVectors {
    /// Takes a vector of exactly this length, with arbitrary contents, or an empty one if there is none.
    /// Longer ones do not qualify: the session would use more memory than is counted.
    pub(super) fn take(&mut self, len: usize) -> Vec<u32> {
        let at = self.0.iter().rposition(|vector| vector.len() == len);
        at.and_then(|at| self.0.remove(at)).unwrap_or_default()
    }

    /// Keeps a vector, and drops the oldest ones beyond `most` bytes in all.
    pub(super) fn keep(&mut self, vector: Vec<u32>, most: u64) {
        if bytes(&vector) >= KEPT_FROM {
            self.0.push_back(vector);
        }
        self.keep_at_most(most);
    }

    /// Drops the oldest vectors until all of them take at most `most` bytes.
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
