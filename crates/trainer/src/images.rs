//! Images with their labels, as matrices.

use ndarray::{Array2, ArrayView2, Axis};

/// The number of pixels of one image: 8 rows of 8.
pub const PIXELS: usize = 64;

/// The number of digits that an image can show.
pub const CLASSES: usize = 10;

/// Images and the digit that each shows.
#[derive(Debug, Clone)]
pub struct Images {
    /// One image per row. The value 0 is paper, and 1 is ink.
    pixels: Array2<f32>,
    /// One label per image, each below [`CLASSES`].
    labels: Vec<u8>,
}

impl Images {
    /// Makes a set of images. The caller must have checked that each row has a label below [`CLASSES`].
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

    /// Returns the images at `indices`, in that order. Each index must be below [`len`](Self::len).
    pub fn select(&self, indices: &[usize]) -> Self {
        Self {
            pixels: self.pixels.select(Axis(0), indices),
            labels: indices.iter().map(|&index| self.labels[index]).collect(),
        }
    }

    /// Returns the pixels: for each image, one row of [`PIXELS`] values from 0 to 1.
    pub(crate) fn pixels(&self) -> ArrayView2<'_, f32> {
        self.pixels.view()
    }

    /// Returns the digit that each image shows.
    pub fn labels(&self) -> impl ExactSizeIterator<Item = usize> + '_ {
        self.labels.iter().map(|&label| usize::from(label))
    }
}
