//! The caller's side of an all-reduce: what goes in and what comes out.

use std::collections::TryReserveError;
use std::fmt;

use tributary_wire::Rank;

use super::bound;
use super::fixed_point::Scale;

/// One all-reduce, as one member gives it. Every member gives the same number of elements of the same
/// type, and starts its operations in the same order.
#[derive(Debug, Clone, PartialEq)]
pub struct AllReduce {
    /// Name of the tensor (or of the packed tensors): the same on all members. It is part of the check, so that members
    /// which reduce equal tensors in another order have an error, and no sum of different things.
    pub name: String,
    /// What this member contributes.
    pub data: GradientData,
    /// What this member's contribution is multiplied by. 0: it has nothing to give and `data` does not
    /// matter, except for its type and length.
    pub weight: u32,
}

/// What one operation reduces: as much of it as is known without any data.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Tensor {
    /// Its name (or that of the packed tensors): the same everywhere.
    pub name: String,
    /// What its elements are.
    pub element_type: ElementType,
    /// Number of elements.
    pub len: usize,
}

impl AllReduce {
    /// What it reduces.
    pub fn tensor(&self) -> Tensor {
        Tensor { name: self.name.clone(), element_type: self.data.element_type(), len: self.data.len() }
    }
}

/// The elements that one member contributes; any number of them, none included.
///
/// Floats of 16 bits come widened to 32, which is exact: the vector is as long as that of their sums, and these take its
/// place. Their own type is what members have to agree on.
#[derive(Debug, Clone, PartialEq)]
pub enum GradientData {
    /// IEEE 754 single precision.
    F32(Vec<f32>),
    /// IEEE 754 half precision, each widened.
    F16(Vec<f32>),
    /// The upper half of single precision, each widened.
    BF16(Vec<f32>),
    /// Integers, added exactly; a sum that might not fit is an error.
    I32(Vec<i32>),
}

impl GradientData {
    /// Number of elements.
    pub fn len(&self) -> usize {
        match self {
            Self::F32(values) | Self::F16(values) | Self::BF16(values) => values.len(),
            Self::I32(values) => values.len(),
        }
    }

    /// Whether there are no elements.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// What the elements are.
    pub fn element_type(&self) -> ElementType {
        match self {
            Self::F32(_) => ElementType::F32,
            Self::F16(_) => ElementType::F16,
            Self::BF16(_) => ElementType::BF16,
            Self::I32(_) => ElementType::I32,
        }
    }
}

/// A vector of `len` times the same, or an error where the system does not give the memory for it.
pub(crate) fn filled<T: Clone>(value: T, len: usize) -> Result<Vec<T>, TryReserveError> {
    let mut filled = Vec::new();
    filled.try_reserve_exact(len)?;
    filled.resize(len, value);
    Ok(filled)
}

/// What the elements of an operation are; the numbers are part of the check.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ElementType {
    /// IEEE 754 single precision.
    F32 = 1,
    /// IEEE 754 half precision.
    F16 = 2,
    /// The upper half of single precision.
    BF16 = 3,
    /// Integers.
    I32 = 4,
}

impl ElementType {
    /// The number of bytes of an element.
    pub fn bytes(self) -> usize {
        match self {
            Self::F32 | Self::I32 => 4,
            Self::F16 | Self::BF16 => 2,
        }
    }
}

impl fmt::Display for ElementType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::F32 => "f32",
            Self::F16 => "f16",
            Self::BF16 => "bf16",
            Self::I32 => "i32",
        })
    }
}

/// How the values of one SUM slice travel.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Scaling {
    /// No member has anything but zeros.
    Zeros,
    /// Integers travel as they are, times their member's weight.
    Whole,
    /// Floats travel as fixed-point numbers.
    Fixed(Scale),
}

/// Why a slice cannot be summed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum SumError {
    /// This rank has NaN or infinity in it.
    NotFinite(Rank),
    /// The sum might not fit.
    Overflow,
}

impl ElementType {
    /// How a slice travels whose members agreed on `largest` as their bound and have `weight` together.
    pub(crate) fn scaling(self, largest: u32, weight: u32) -> Result<Scaling, SumError> {
        if self == Self::I32 {
            // One below the limit, since a bound at the limit means "at least".
            let fits = u64::from(largest) * u64::from(weight) < u64::from(bound::TOO_LARGE);
            return if fits && largest < bound::TOO_LARGE {
                Ok(Scaling::Whole)
            } else {
                Err(SumError::Overflow)
            };
        }
        if let Some(rank) = bound::not_finite(largest) {
            return Err(SumError::NotFinite(rank));
        }
        Ok(bound::exponent(largest).map_or(Scaling::Zeros, |e| Scaling::Fixed(Scale::new(e, weight))))
    }

    /// Whether some member can have sent this bound.
    pub(crate) fn is_plausible(self, bound: u32) -> bool {
        self == Self::I32 || bound::is_plausible(bound)
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
