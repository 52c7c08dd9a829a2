//! The caller's side of an all-reduce: what goes in and what comes out.

use half::{bf16, f16};

/// One all-reduce, as one member gives it. Every member gives the same number of elements of the same
/// type, and starts its operations in the same order.
#[derive(Debug, Clone, PartialEq)]
pub struct AllReduce {
    /// Name of the tensor (or of the packed tensors), for errors. Need not be the same on all members.
    pub name: String,
    /// What this member contributes.
    pub data: GradientData,
    /// What this member's contribution is multiplied by. 0: it has nothing to give and `data` does not
    /// matter, except for its type and length.
    pub weight: u32,
}

/// The elements that one member contributes; any number of them, none included.
#[derive(Debug, Clone, PartialEq)]
pub enum GradientData {
    /// IEEE 754 single precision.
    F32(Vec<f32>),
    /// IEEE 754 half precision.
    F16(Vec<f16>),
    /// The upper half of single precision.
    BF16(Vec<bf16>),
    /// Integers, added exactly; a sum that might not fit is an error.
    I32(Vec<i32>),
}

impl GradientData {
    /// Number of elements.
    pub fn len(&self) -> usize {
        match self {
            Self::F32(values) => values.len(),
            Self::F16(values) => values.len(),
            Self::BF16(values) => values.len(),
            Self::I32(values) => values.len(),
        }
    }

    /// Whether there are no elements.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// The outcome of an all-reduce: the same bits on every member.
#[derive(Debug, Clone, PartialEq)]
pub struct Reduced {
    /// Per element: the sum over all members of weight times value.
    pub sums: Sums,
    /// Sum of the members' weights when the operation began.
    pub weight: u32,
    /// Members when the operation began.
    pub contributors: u32,
    /// What each stretch of elements was really summed over, in order, without gaps: one run, unless
    /// a member left while the operation was under way. Empty for no elements.
    pub runs: Vec<Run>,
}

/// Neighbouring elements that were summed over the same members.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Run {
    /// How many elements.
    pub len: usize,
    /// Sum of the weights inside.
    pub weight: u32,
    /// Members inside.
    pub contributors: u32,
}

/// Sums per element.
#[derive(Debug, Clone, PartialEq)]
pub enum Sums {
    /// Of floating-point input of any width: the exact fixed-point sum, rounded once.
    F32(Vec<f32>),
    /// Of integers: exact.
    I32(Vec<i32>),
}

impl Sums {
    /// Number of elements.
    pub fn len(&self) -> usize {
        match self {
            Self::F32(sums) => sums.len(),
            Self::I32(sums) => sums.len(),
        }
    }

    /// Whether there are no elements.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

impl Reduced {
    /// The weighted mean of each element: its sum divided by the weights that are inside. Zero where
    /// these are zero.
    pub fn means(&self) -> Vec<f32> {
        let weights = self.runs.iter().flat_map(|run| std::iter::repeat_n(run.weight, run.len));
        let mean =
            |(sum, weight): (f64, u32)| if weight == 0 { 0.0 } else { (sum / f64::from(weight)) as f32 };
        match &self.sums {
            Sums::F32(sums) => sums.iter().map(|&sum| f64::from(sum)).zip(weights).map(mean).collect(),
            Sums::I32(sums) => sums.iter().map(|&sum| f64::from(sum)).zip(weights).map(mean).collect(),
        }
    }
}
