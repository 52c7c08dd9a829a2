//! The bounds of a contribution, worked out by whoever has its elements at hand.

use std::collections::TryReserveError;

use tributary_wire::{Rank, SliceWidth};

use super::bound;
use super::data::{ElementType, Tensor};

/// For each slice of a member's contribution, [how large](bound) its elements are.
///
/// A worker without them works them out when it announces the slices, and reads all elements once more for it. Whoever
/// copies the elements anyway measures them meanwhile, piece by piece, while the processor has them in its cache.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Bounds {
    rank: Rank,
    width: SliceWidth,
    are_of_integers: bool,
    bounds: Vec<u32>,
    /// How many elements were measured.
    measured: usize,
}

impl Bounds {
    /// Those of the member `rank`'s contribution to slices of this width: `len` elements of this type, none of them measured.
    ///
    /// # Errors
    /// The system does not give the memory for them.
    pub fn new(
        rank: Rank,
        width: SliceWidth,
        element_type: ElementType,
        len: usize,
    ) -> Result<Self, TryReserveError> {
        let mut bounds = Vec::new();
        bounds.try_reserve_exact(len.div_ceil(width.values()))?;
        Ok(Self { rank, width, are_of_integers: element_type == ElementType::I32, bounds, measured: 0 })
    }

    /// Measures the next elements, unless they are integers: so many that the slices are whole, but for the contribution's
    /// last one.
    pub fn add_floats(&mut self, elements: &[f32]) {
        let rank = self.rank;
        if !self.are_of_integers {
            self.add(elements, |slice| bound::of_floats(slice, rank));
        }
    }

    /// As [`add_floats`](Self::add_floats), for integers.
    pub fn add_integers(&mut self, elements: &[i32]) {
        if self.are_of_integers {
            self.add(elements, bound::of_integers);
        }
    }

    fn add<T>(&mut self, elements: &[T], bound: impl Fn(&[T]) -> u32) {
        self.bounds.extend(elements.chunks(self.width.values()).map(bound));
        self.measured += elements.len();
    }

    /// All of them, if they are of this tensor's elements.
    pub(crate) fn of(self, rank: Rank, width: SliceWidth, tensor: &Tensor) -> Option<Vec<u32>> {
        let is_its_type = self.are_of_integers == (tensor.element_type == ElementType::I32);
        let is_whole =
            self.bounds.len() == tensor.len.div_ceil(width.values()) && self.measured == tensor.len;
        (is_its_type && is_whole && (self.rank, self.width) == (rank, width)).then_some(self.bounds)
    }
}
