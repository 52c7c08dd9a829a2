//! The caller's side of an all-reduce: contributions and results.

use std::collections::TryReserveError;
use std::fmt;

use tributary_wire::{Rank, SliceWidth};

/// The contribution of one member to an all-reduce.
/// Every member contributes an equal number of elements of the same type, and starts its operations in the same order.
#[derive(Debug, Clone, PartialEq)]
pub struct AllReduce {
    /// The name of the tensor, or of the packed tensors. It must be equal on all members.
    /// Tags cover the name. So if members reduce equal tensors in different orders, they get an error instead of a sum
    /// of different tensors.
    pub name: String,
    /// The elements that this member contributes.
    pub data: GradientData,
    /// The factor by which this member's elements are multiplied.
    /// With 0 the member contributes nothing, and only the type and length of `data` matter.
    pub weight: u32,
}

/// A part of a member's contribution.
#[derive(Debug, Clone)]
pub struct Part {
    /// The elements.
    pub data: GradientData,
    /// The factor by which the elements are multiplied.
    pub factor: u32,
}

/// The description of one operation's tensor, without its data.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Tensor {
    /// The name of the tensor, or of the packed tensors. It must be equal on all members.
    pub name: String,
    /// The type of the elements.
    pub element_type: ElementType,
    /// The number of elements.
    pub len: usize,
    /// The collective that the members run.
    pub collective: Collective,
}

/// A collective, with the parameters that must be equal on all members.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum Collective {
    /// All members contribute, and all receive all sums.
    #[default]
    AllReduce,
    /// All members contribute, and each receives the sums of its own parts.
    /// The parts divide the tensor in order; together they have its elements. A slice with elements of several members'
    /// parts goes to all members.
    ReduceScatter(Vec<OwnedPart>),
    /// One member sends words of 32 bits, and all receive them unchanged.
    Broadcast {
        /// The member that sends its words.
        root: Rank,
        /// The number of the process of that member whose words they are.
        /// Only the agreement of the members depends on it.
        process: u32,
    },
}

/// A part of the tensor of a reduce-scatter.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OwnedPart {
    /// The number of elements.
    pub len: usize,
    /// The member that receives their sums.
    pub owner: Rank,
    /// The number of the process of that member for which the sums are.
    /// Only the agreement of the members depends on it.
    pub process: u32,
}

impl Collective {
    /// Returns the member that sends the words of a broadcast.
    pub(crate) fn root(&self) -> Option<Rank> {
        match self {
            Self::Broadcast { root, .. } => Some(*root),
            Self::AllReduce | Self::ReduceScatter(_) => None,
        }
    }

    /// Returns the number of elements in all parts of a reduce-scatter; `None` for other collectives.
    pub fn owned(&self) -> Option<usize> {
        let Self::ReduceScatter(parts) = self else { return None };
        // The lengths come from outside, and their sum may not fit.
        Some(parts.iter().fold(0_usize, |sum, part| sum.saturating_add(part.len)))
    }

    /// Returns the parts of a reduce-scatter.
    pub(crate) fn parts(&self) -> &[OwnedPart] {
        match self {
            Self::ReduceScatter(parts) => parts,
            Self::AllReduce | Self::Broadcast { .. } => &[],
        }
    }
}

impl AllReduce {
    /// Returns the description of the tensor that this operation reduces.
    pub fn tensor(&self) -> Tensor {
        let (element_type, len) = (self.data.element_type(), self.data.len());
        Tensor { name: self.name.clone(), element_type, len, collective: Collective::AllReduce }
    }
}

/// A broadcast: one member sends words of 32 bits to all members, unchanged.
/// Every member starts it with the same name, number of words and root, in the same order as its all-reduces.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Broadcast {
    /// The name of the tensor. It must be equal on all members.
    pub name: String,
    /// The words to send. On other members than the root, the words that the root sends replace them.
    pub words: Vec<i32>,
    /// The member that sends its words.
    pub root: Rank,
    /// The number of the process of that member whose words they are.
    pub process: u32,
}

/// The elements that one member contributes. There may be none.
///
/// Floats of 16 bits are widened to 32 bits, which is exact. So the vector has room for their sums, which replace the
/// elements. Members must agree on the original element type, not on the widened type.
#[derive(Debug, Clone, PartialEq)]
pub enum GradientData {
    /// IEEE 754 single precision.
    F32(Vec<f32>),
    /// IEEE 754 half precision. Values are widened to single precision; their exact sum is rounded to half
    /// precision.
    F16(Vec<f32>),
    /// bfloat16, the upper half of single precision. Values are widened to single precision.
    BF16(Vec<f32>),
    /// IEEE 754 single precision. A sum is the f32 that is nearest to the exact sum.
    F32Exact(Vec<f32>),
    /// IEEE 754 half precision, two elements in each value of a slice.
    /// Values are widened to single precision.
    F16Paired(Vec<f32>),
    /// bfloat16, two elements in each value of a slice. Values are widened to single precision.
    BF16Paired(Vec<f32>),
    /// IEEE 754 double precision. A sum is the f64 that is nearest to the exact sum.
    F64(Vec<f64>),
    /// Integers of 32 bits, added exactly; a sum that does not fit is an error.
    I32(Vec<i32>),
    /// Integers of 64 bits, added exactly; a sum that does not fit is an error.
    I64(Vec<i64>),
}

impl GradientData {
    /// Makes elements of `element_type` from f32, to which 16-bit floats were widened.
    /// Types that are not f32 while they are reduced become [`F32`](Self::F32).
    pub fn of_floats(element_type: ElementType, values: Vec<f32>) -> Self {
        match element_type {
            ElementType::F16 => Self::F16(values),
            ElementType::BF16 => Self::BF16(values),
            ElementType::F32Exact => Self::F32Exact(values),
            ElementType::F16Paired => Self::F16Paired(values),
            ElementType::BF16Paired => Self::BF16Paired(values),
            ElementType::F32 | ElementType::F64 | ElementType::I32 | ElementType::I64 => Self::F32(values),
        }
    }

    /// Returns the number of elements.
    pub fn len(&self) -> usize {
        match self {
            Self::F32(values)
            | Self::F16(values)
            | Self::BF16(values)
            | Self::F32Exact(values)
            | Self::F16Paired(values)
            | Self::BF16Paired(values) => values.len(),
            Self::F64(values) => values.len(),
            Self::I32(values) => values.len(),
            Self::I64(values) => values.len(),
        }
    }

    /// Returns true if the data has no elements.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns the elements as they are while they are reduced.
    pub(crate) fn into_values(self) -> Sums {
        match self {
            Self::F32(values)
            | Self::F16(values)
            | Self::BF16(values)
            | Self::F32Exact(values)
            | Self::F16Paired(values)
            | Self::BF16Paired(values) => Sums::F32(values),
            Self::F64(values) => Sums::F64(values),
            Self::I32(values) => Sums::I32(values),
            Self::I64(values) => Sums::I64(values),
        }
    }

    /// Returns the type of the elements.
    pub fn element_type(&self) -> ElementType {
        match self {
            Self::F32(_) => ElementType::F32,
            Self::F16(_) => ElementType::F16,
            Self::BF16(_) => ElementType::BF16,
            Self::F32Exact(_) => ElementType::F32Exact,
            Self::F16Paired(_) => ElementType::F16Paired,
            Self::BF16Paired(_) => ElementType::BF16Paired,
            Self::F64(_) => ElementType::F64,
            Self::I32(_) => ElementType::I32,
            Self::I64(_) => ElementType::I64,
        }
    }
}

/// Makes a vector of `len` copies of `value`, or returns an error if the allocation of memory fails.
pub(crate) fn filled<T: Clone>(value: T, len: usize) -> Result<Vec<T>, TryReserveError> {
    let mut filled = Vec::new();
    filled.try_reserve_exact(len)?;
    filled.resize(len, value);
    Ok(filled)
}

/// The type of an operation's elements, and the precision of their sums.
/// Tags cover the discriminants, so they must not change.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ElementType {
    /// IEEE 754 single precision.
    /// The error of a sum is at most 2^-12 of the sum of its contributions' magnitudes.
    F32 = 1,
    /// IEEE 754 half precision. A sum is computed in single precision and then rounded.
    F16 = 2,
    /// bfloat16, the upper half of single precision; sums as for [`F16`](Self::F16).
    BF16 = 3,
    /// Integers of 32 bits.
    I32 = 4,
    /// IEEE 754 single precision. A sum is the f32 that is nearest to the exact sum.
    F32Exact = 5,
    /// IEEE 754 double precision. A sum is the f64 that is nearest to the exact sum.
    F64 = 6,
    /// Integers of 64 bits.
    I64 = 7,
    /// IEEE 754 half precision, two elements in each value of a slice.
    /// A contribution is rounded relative to the largest of eight neighbours, so that a sum's mean square error is about
    /// that of additions in half precision, or smaller.
    F16Paired = 8,
    /// bfloat16, two elements in each value of a slice; sums as for [`F16Paired`](Self::F16Paired).
    BF16Paired = 9,
}

impl ElementType {
    /// Returns the number of bytes of an element.
    pub fn bytes(self) -> usize {
        match self {
            Self::F64 | Self::I64 => 8,
            Self::F32 | Self::F32Exact | Self::I32 => 4,
            Self::F16 | Self::BF16 | Self::F16Paired | Self::BF16Paired => 2,
        }
    }

    /// Returns the number of elements in a value of a slice.
    pub fn elements_in_value(self) -> usize {
        if self.is_paired() { 2 } else { 1 }
    }

    /// Returns the number of elements in a block, which share a scale.
    pub(crate) fn elements_in_block(self, width: SliceWidth) -> usize {
        width.values_in_block() * self.elements_in_value()
    }

    /// Returns true if a value of a slice has two elements.
    pub(crate) fn is_paired(self) -> bool {
        matches!(self, Self::F16Paired | Self::BF16Paired)
    }

    /// Returns true if contributions may be rounded.
    pub(crate) fn is_rounded(self) -> bool {
        self == Self::F32 || self.is_paired()
    }

    /// Returns the number of bytes of an element's sum.
    /// An element takes this number of bytes while it is reduced.
    pub fn sum_bytes(self) -> usize {
        self.bytes().max(4)
    }

    /// Returns true if the elements are f32 while they are reduced.
    pub(crate) fn is_widened(self) -> bool {
        match self {
            Self::F32 | Self::F16 | Self::BF16 | Self::F32Exact | Self::F16Paired | Self::BF16Paired => true,
            Self::F64 | Self::I32 | Self::I64 => false,
        }
    }

    /// Returns the number of bits of a 16-bit float's mantissa, including the bit that is not stored.
    pub(crate) fn mantissa_bits(self) -> i32 {
        if self == Self::F16Paired { 11 } else { 8 }
    }

    /// Returns the exponents e that the tightest bound |x| < 2^e can have, for floats; `None` for integers.
    pub(crate) fn float_exponents(self) -> Option<std::ops::RangeInclusive<i32>> {
        match self {
            Self::F64 => Some(-1073..=1024),
            _ if self.is_widened() => Some(-148..=128),
            _ => None,
        }
    }

    /// Returns the precision of sums of floats, as two numbers.
    /// The first is the number of bits below a value's highest bit that its sum keeps. The second is the exponent of
    /// the type's smallest magnitude; sums need no bits below it.
    ///
    /// With 11 bits for f32, a value is rounded by at most 2^-12 of its magnitude. The 9 bits of paired elements count
    /// from the largest of eight neighbours. For the other types, the number of bits is the length of the mantissa, so
    /// nothing is rounded.
    pub(crate) fn grid(self) -> (i32, i32) {
        match self {
            Self::F32 => (11, -149),
            Self::F32Exact => (23, -149),
            Self::F16 => (10, -24),
            Self::BF16 => (7, -133),
            Self::F16Paired => (9, -24),
            Self::BF16Paired => (9, -133),
            Self::F64 => (52, -1074),
            Self::I32 | Self::I64 => (0, 0),
        }
    }
}

impl fmt::Display for ElementType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::F32 => "f32",
            Self::F16 => "f16 (precision float32)",
            Self::BF16 => "bf16 (precision float32)",
            Self::I32 => "i32",
            Self::F32Exact => "f32 (precision float32)",
            Self::F64 => "f64",
            Self::I64 => "i64",
            Self::F16Paired => "f16",
            Self::BF16Paired => "bf16",
        })
    }
}

/// A value that is NaN or infinite among the contributions to an all-reduce.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NotFinite {
    /// The index of the first element that is NaN or infinite on some member.
    pub element: usize,
    /// The member that contributes such an element; of several members, the member with the highest rank.
    pub rank: Rank,
}

/// The result of an all-reduce. It has the same bits on every member.
#[derive(Debug, Clone, PartialEq)]
pub struct Reduced {
    /// For each element, the sum over all members of weight times value.
    pub sums: Sums,
    /// The sum of the members' weights when the operation began.
    pub weight: u32,
    /// The number of members when the operation began.
    pub contributors: u32,
    /// The runs of elements, in order and without gaps, each with the number of members in its sums.
    /// There is one run, unless a member left while the operation was under way. Without elements, there is one run of no elements.
    pub runs: Vec<Run>,
    /// The first element to which a member contributed NaN or infinity; `None` if all contributions are
    /// finite.
    /// The sum of such an element follows the rules of IEEE 754.
    pub not_finite: Option<NotFinite>,
}

/// A run of neighbouring elements that were summed over the same members.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Run {
    /// The number of elements.
    pub len: usize,
    /// The sum of the weights of the members whose values are in the sums.
    pub weight: u32,
    /// The number of members whose values are in the sums.
    pub contributors: u32,
    /// The number of members whose values are in the sums with all of their limbs.
    /// The other members left after the first limbs of their floats were summed and before the further limbs were.
    /// Their values are in the sums only with the precision of the first limbs.
    pub complete: u32,
}

impl Run {
    /// Adds the run at the end of `runs`. It extends the last run if its sums have the same members.
    pub(crate) fn push_to(self, runs: &mut Vec<Self>) {
        match runs.last_mut() {
            Some(last) if *last == (Self { len: last.len, ..self }) => last.len += self.len,
            _ => runs.push(self),
        }
    }
}

/// The sums of the elements.
#[derive(Debug, Clone, PartialEq)]
pub enum Sums {
    /// Sums of floats of up to 32 bits: fixed-point sums, rounded once.
    F32(Vec<f32>),
    /// Sums of floats of 64 bits.
    F64(Vec<f64>),
    /// Sums of integers of up to 32 bits: exact.
    I32(Vec<i32>),
    /// Sums of integers of 64 bits: exact.
    I64(Vec<i64>),
}

impl Sums {
    /// Returns the number of elements.
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
}
