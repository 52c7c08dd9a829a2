//! Conversion of gradients between the caller's types and the integers that travel.
//!
//! Gradients travel as 32-bit integers. For each block of values, all members first agree on [bounds](bound) by a MAX
//! slice: the range and the finest unit of the values. From the bounds and the total weight, every member computes the
//! same [scale](fixed_point), and the number of integers for each value. The sums of the integers cannot overflow.
//! Integer addition is associative, so every member gets the same bits, independent of the tree, the order and losses.

pub(crate) mod bound;
mod bounds;
mod data;
mod elements;
pub(crate) mod fixed_point;
mod joint;
pub(crate) mod lanes;
mod prefetch;
pub(crate) mod vectors;

pub use bounds::Bounds;
pub(crate) use data::filled;
pub use data::{
    AllReduce, Broadcast, Collective, ElementType, GradientData, NotFinite, OwnedPart, Part, Reduced, Run,
    Sums, Tensor,
};
pub(crate) use elements::{Class, DoesNotFit, Elements};
pub use joint::{JointAllReduce, PartsSum};
