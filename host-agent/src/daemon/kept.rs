//! Vectors that a session keeps from one all-reduce to the next.
//!
//! A training process reduces the same tensors in every step. New memory costs a page fault for every 4 KiB. Together,
//! these page faults take longer than the aggregation of the contents.

use std::collections::VecDeque;

/// The smallest vector that is kept, in bytes. Allocating a smaller vector is faster than searching
/// for it here.
const KEPT_FROM: u64 = 64 << 10;

/// Vectors of 32-bit elements of any type, in the order in which the session returned them.
#[derive(Debug, Default)]
pub(super) struct KeptVectors(VecDeque<Vec<u32>>);

impl KeptVectors {
    /// Takes a vector of exactly `len` elements with arbitrary contents, or returns an empty vector if
    /// none is kept. A longer vector does not qualify, because the session would then use more memory than is counted.
    pub(super) fn take(&mut self, len: usize) -> Vec<u32> {
        let at = self.0.iter().rposition(|vector| vector.len() == len);
        at.and_then(|at| self.0.remove(at)).unwrap_or_default()
    }

    /// Keeps a vector. Then drops the oldest vectors until the vectors take at most `most` bytes.
    pub(super) fn keep(&mut self, vector: Vec<u32>, most: u64) {
        if bytes(&vector) >= KEPT_FROM {
            self.0.push_back(vector);
        }
        self.keep_at_most(most);
    }

    /// Drops the oldest vectors until the vectors take at most `most` bytes.
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
