//! Images with their labels, as matrices.

use ndarray::{Array2, ArrayView2, Axis};

/// Pixels of one image: 8 rows of 8.
pub const PIXELS: usize = 64;

/// Digits that an image can show.
pub const CLASSES: usize = 10;

/// Images and the digit that each shows.
#[derive(Debug, Clone)]
pub struct Images {
    /// One image per row; 0 is paper, 1 is ink.
    pixels: Array2<f32>,
    /// One label per image, each below [`CLASSES`].
    labels: Vec<u8>,
}

impl Images {
    /// The caller has checked that there is a label below [`CLASSES`] for each row.
    pub(crate) fn new(pixels: &[[f32; PIXELS]], labels: Vec<u8>) -> Self {
        debug_assert_eq!(pixels.len(), labels.len());
        Self { pixels: ArrayView2::from(pixels).to_owned(), labels }
    }

    /// Returns the number of images.
    pub fn len(&self) -> usize {
        self.labels.len()
    }

    /// Returns true if the set has no images.
    pub fn is_empty(&self) -> bool {
        self.labels.is_empty()
    }

    /// The images at `indices` in that order; each index must be below [`len`](Self::len).
    pub fn select(&self, indices: &[usize]) -> Self {
        Self {
            pixels: self.pixels.select(Axis(0), indices),
            labels: indices.iter().map(|&index| self.labels[index]).collect(),
        }
    }

    /// One row of [`PIXELS`] values from 0 to 1 for each image.
    pub(crate) fn pixels(&self) -> ArrayView2<'_, f32> {
        self.pixels.view()
    }

    /// The digit that each image shows.
    pub fn labels(&self) -> impl ExactSizeIterator<Item = usize> + '_ {
        self.labels.iter().map(|&label| usize::from(label))
    }
}
