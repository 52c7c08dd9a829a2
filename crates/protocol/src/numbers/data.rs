//! The caller's side of an all-reduce: what goes in and what comes out.

use std::collections::TryReserveError;
use std::fmt;

use tributary_wire::Rank;

/// One all-reduce, as one member gives it. Every member gives the same number of elements of the same
/// type, and starts its operations in the same order.
#[derive(Debug, Clone, PartialEq)]
pub struct AllReduce {
    /// Name of the tensor (or of the packed tensors): the same on all members.
    /// It is part of the check, so that members which reduce equal tensors in another order have an error, and no sum
    /// of different things.
    pub name: String,
    /// The elements that this member contributes.
    pub data: GradientData,
    /// The factor of this member's contribution.
    /// With 0 the member contributes nothing, and only the type and length of `data` matter.
    pub weight: u32,
}

/// The description of one operation's tensor: as much of it as is known without any data.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Tensor {
    /// Its name (or that of the packed tensors): the same everywhere.
    pub name: String,
    /// The type of the elements.
    pub element_type: ElementType,
    /// Number of elements.
    pub len: usize,
}

impl AllReduce {
    /// Returns the description of the tensor that this operation reduces.
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
    /// IEEE 754 half precision. Values are widened to single precision; their exact sum is rounded to half
    /// precision.
    F16(Vec<f32>),
    /// The upper half of single precision, each widened.
    BF16(Vec<f32>),
    /// IEEE 754 single precision, whose sum is the nearest f32 to the exact one.
    F32Exact(Vec<f32>),
    /// IEEE 754 double precision, whose sum is the nearest f64 to the exact one.
    F64(Vec<f64>),
    /// Integers, added exactly; a sum that does not fit is an error.
    I32(Vec<i32>),
    /// Integers of 64 bits, added exactly; a sum that does not fit is an error.
    I64(Vec<i64>),
}

impl GradientData {
    /// Number of elements.
    pub fn len(&self) -> usize {
        match self {
            Self::F32(values) | Self::F16(values) | Self::BF16(values) | Self::F32Exact(values) => {
                values.len()
            }
            Self::F64(values) => values.len(),
            Self::I32(values) => values.len(),
            Self::I64(values) => values.len(),
        }
    }

    /// Returns true if the data has no elements.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The elements' type.
    pub fn element_type(&self) -> ElementType {
        match self {
            Self::F32(_) => ElementType::F32,
            Self::F16(_) => ElementType::F16,
            Self::BF16(_) => ElementType::BF16,
            Self::F32Exact(_) => ElementType::F32Exact,
            Self::F64(_) => ElementType::F64,
            Self::I32(_) => ElementType::I32,
            Self::I64(_) => ElementType::I64,
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

/// The type of an operation's elements, and how precise their sums are; the
/// numbers are part of the tag.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ElementType {
    /// IEEE 754 single precision: a sum is off by at most 2^-12 of the sum of its
    /// contributions' magnitudes.
    F32 = 1,
    /// IEEE 754 half precision. A sum is computed in single precision and then rounded.
    F16 = 2,
    /// The upper half of single precision; sums as for [`F16`](Self::F16).
    BF16 = 3,
    /// Integers.
    I32 = 4,
    /// IEEE 754 single precision: a sum is the nearest f32 to the exact one.
    F32Exact = 5,
    /// IEEE 754 double precision: a sum is the nearest f64 to the exact one.
    F64 = 6,
    /// Integers of 64 bits.
    I64 = 7,
}

impl ElementType {
    /// The number of bytes of an element.
    pub fn bytes(self) -> usize {
        match self {
            Self::F64 | Self::I64 => 8,
            Self::F32 | Self::F32Exact | Self::I32 => 4,
            Self::F16 | Self::BF16 => 2,
        }
    }

    /// The number of bytes of an element's sum, and of the element while it is reduced.
    pub fn sum_bytes(self) -> usize {
        self.bytes().max(4)
    }

    /// Returns true if the elements are f32 while they are reduced.
    pub(crate) fn is_widened(self) -> bool {
        matches!(self, Self::F32 | Self::F16 | Self::BF16 | Self::F32Exact)
    }

    /// For floats, the exponents e that the tightest |x| < 2^e can have; `None` for integers.
    pub(crate) fn float_exponents(self) -> Option<std::ops::RangeInclusive<i32>> {
        match self {
            Self::F32 | Self::F16 | Self::BF16 | Self::F32Exact => Some(-148..=128),
            Self::F64 => Some(-1073..=1024),
            Self::I32 | Self::I64 => None,
        }
    }

    /// For floats: the number of bits below the highest one of a value that its sum keeps, and the exponent
    /// of the type's smallest number, below which there is nothing to keep.
    ///
    /// With 11 bits of f32, a value is rounded by at most 2^-12 of itself. For the other types the number of bits is
    /// the length of the mantissa: nothing is rounded.
    pub(crate) fn grid(self) -> (i32, i32) {
        match self {
            Self::F32 => (11, -149),
            Self::F32Exact => (23, -149),
            Self::F16 => (10, -24),
            Self::BF16 => (7, -133),
            Self::F64 => (52, -1074),
            Self::I32 | Self::I64 => (0, 0),
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
            Self::F32Exact => "f32 (precision float32)",
            Self::F64 => "f64",
            Self::I64 => "i64",
        })
    }
}

/// A value that is NaN or infinite among the contributions to an all-reduce.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NotFinite {
    /// The first element for which some member has one.
    pub element: usize,
    /// The member that contributes such an element; of several members, the member with the highest rank.
    pub rank: Rank,
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
    /// The stretches of elements with the members that each was summed over, in order, without gaps: one
    /// run, unless a member left while the operation was under way. Empty for no elements.
    pub runs: Vec<Run>,
    /// Where some member has contributed NaN or infinity.
    /// The sum of such an element is what IEEE 754 makes of it.
    pub not_finite: Option<NotFinite>,
}

/// Neighbouring elements that were summed over the same members.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Run {
    /// Number of elements.
    pub len: usize,
    /// Sum of the weights inside.
    pub weight: u32,
    /// Members inside.
    pub contributors: u32,
    /// Members whose values are inside with all of their limbs.
    /// The others have left after the first limbs of their floats were summed and before the further ones were: their
    /// values are inside only as precise as the first limbs are.
    pub complete: u32,
}

/// Sums per element.
#[derive(Debug, Clone, PartialEq)]
pub enum Sums {
    /// Sums of floats of up to 32 bits: the fixed-point sum, rounded once.
    F32(Vec<f32>),
    /// Sums of floats of 64 bits.
    F64(Vec<f64>),
    /// Sums of integers of up to 32 bits: exact.
    I32(Vec<i32>),
    /// Sums of integers of 64 bits: exact.
    I64(Vec<i64>),
}

impl Sums {
    /// Number of elements.
    pub fn len(&self) -> usize {
        match self {
            Self::F32(sums) => sums.len(),
            Self::F64(sums) => sums.len(),
            Self::I32(sums) => sums.len(),
            Self::I64(sums) => sums.len(),
        }
    }

    /// Returns true if the sums have no elements.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The sums as f64. Sums of 64-bit integers may be rounded.
    fn doubles(&self) -> Box<dyn Iterator<Item = f64> + '_> {
        match self {
            Self::F32(sums) => Box::new(sums.iter().map(|sum| f64::from(*sum))),
            Self::F64(sums) => Box::new(sums.iter().copied()),
            Self::I32(sums) => Box::new(sums.iter().map(|sum| f64::from(*sum))),
            Self::I64(sums) => Box::new(sums.iter().map(|sum| *sum as f64)),
        }
    }
}

impl Reduced {
    /// The weighted mean of each element: its sum divided by the weights that are inside. Zero where
    /// these are zero.
    pub fn means(&self) -> Vec<f32> {
        let weights = self.runs.iter().flat_map(|run| std::iter::repeat_n(run.weight, run.len));
        let mean =
            |(sum, weight): (f64, u32)| if weight == 0 { 0.0 } else { (sum / f64::from(weight)) as f32 };
        self.sums.doubles().zip(weights).map(mean).collect()
    }
}
