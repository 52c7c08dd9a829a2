//! The bounds of a contribution, measured by the caller of a worker.

use std::collections::TryReserveError;

use tributary_wire::SliceWidth;

use super::bound::{self, Bound};
use super::data::{ElementType, Tensor};
use super::vectors::Extent;

/// The bounds of each block of a member's contribution.
///
/// Without them, the worker measures the elements when it announces their slices, and must read all elements again for
/// that. A caller that copies the elements anyway can measure them piece by piece, while the processor has them in its
/// cache.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Bounds {
    width: SliceWidth,
    element_type: ElementType,
    bounds: Vec<Bound>,
    /// The number of elements that were measured.
    measured: usize,
}

impl Bounds {
    /// Makes the bounds of a contribution of `len` elements in slices of this width.
    /// No element is measured yet.
    ///
    /// # Errors
    /// [`TryReserveError`] if the allocation of memory fails.
    pub fn new(width: SliceWidth, element_type: ElementType, len: usize) -> Result<Self, TryReserveError> {
        let mut bounds = Vec::new();
        bounds.try_reserve_exact(len.div_ceil(element_type.elements_in_block(width)))?;
        Ok(Self { width, element_type, bounds, measured: 0 })
    }

    /// Splits off the bounds of the elements from `at` on, at the beginning of a slice.
    pub(crate) fn split_off(&mut self, at: usize) -> Self {
        let block = self.element_type.elements_in_block(self.width);
        let bounds = self.bounds.split_off((at / block).min(self.bounds.len()));
        let measured = self.measured.saturating_sub(at);
        self.measured -= measured;
        Self { bounds, measured, ..*self }
    }

    /// Measures the next elements, which are f32 or were widened to f32.
    /// Each call must pass whole slices; only the last piece of the contribution may end inside a slice. Does nothing
    /// if the contribution has another element type.
    pub fn add_floats(&mut self, elements: &[f32]) {
        if self.element_type.is_widened() {
            let (block, element_type) = (self.element_type.elements_in_block(self.width), self.element_type);
            let mut extents = [Extent::default(); 64];
            for elements in elements.chunks(block * extents.len()) {
                let blocks = elements.chunks(block);
                bound::extents(element_type, elements, block, &mut extents);
                self.bounds.extend(
                    blocks
                        .zip(extents)
                        .map(|(values, extent)| Bound::of_extent(element_type, values, extent)),
                );
            }
            self.measured += elements.len();
        }
    }

    /// Measures the next elements as [`add_floats`](Self::add_floats) does, for i32.
    pub fn add_integers(&mut self, elements: &[i32]) {
        if self.element_type == ElementType::I32 {
            self.add(elements, Bound::of_integers);
        }
    }

    /// Measures the next elements as [`add_floats`](Self::add_floats) does, for f64.
    pub fn add_doubles(&mut self, elements: &[f64]) {
        if self.element_type == ElementType::F64 {
            self.add(elements, |block| Bound::of_doubles(ElementType::F64, block));
        }
    }

    /// Measures the next elements as [`add_floats`](Self::add_floats) does, for i64.
    pub fn add_long_integers(&mut self, elements: &[i64]) {
        if self.element_type == ElementType::I64 {
            self.add(elements, Bound::of_long_integers);
        }
    }

    fn add<T>(&mut self, elements: &[T], bound: impl Fn(&[T]) -> Bound) {
        self.bounds.extend(elements.chunks(self.width.values_in_block()).map(bound));
        self.measured += elements.len();
    }

    /// Returns the bounds of these elements and of the `next` ones. These elements must be whole slices.
    #[must_use]
    pub fn followed_by(mut self, next: Self) -> Self {
        self.bounds.extend(next.bounds);
        self.measured += next.measured;
        self
    }

    /// Returns the bounds of a contribution from those of its parts, with their factors.
    /// `weight` is the total weight. `None` if the list is empty, or if the parts differ in type, width or length.
    pub fn of_parts(parts: impl IntoIterator<Item = (Self, u32)>, weight: u32) -> Option<Self> {
        let mut parts = parts.into_iter().map(|(mut part, factor)| {
            let element_type = part.element_type;
            part.bounds.iter_mut().for_each(|bound| *bound = bound.of_part(element_type, factor, weight));
            part
        });
        let mut all = parts.next()?;
        for part in parts {
            let shape = |bounds: &Self| (bounds.width, bounds.element_type, bounds.measured);
            if shape(&part) != shape(&all) {
                return None;
            }
            all.bounds.iter_mut().zip(part.bounds).for_each(|(all, part)| *all = all.joined(part));
        }
        Some(all)
    }

    /// Returns true if the weighted sums of all parts have at most `bits` bits. These must be the bounds of
    /// all parts of exact floats, with this total weight.
    pub(crate) fn sums_fit(&self, bits: u32, weight: u32) -> bool {
        self.bounds.iter().all(|bound| bound.sum_bits(self.element_type, weight) <= bits)
    }

    /// Returns true if an element that was measured is NaN or infinite.
    pub(crate) fn has_not_finite(&self) -> bool {
        self.bounds.iter().any(|bound| bound.has_not_finite())
    }

    /// Returns the bound of each block, if these bounds cover all elements of `tensor` in slices of this
    /// width.
    pub(crate) fn of(self, width: SliceWidth, tensor: &Tensor) -> Option<Vec<Bound>> {
        let is_its_type = self.element_type == tensor.element_type;
        let is_whole = self.bounds.len() == tensor.len.div_ceil(self.element_type.elements_in_block(width))
            && self.measured == tensor.len;
        (is_its_type && is_whole && self.width == width).then_some(self.bounds)
    }
}
