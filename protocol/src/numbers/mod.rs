//! Gradients as the caller has them, as they travel, and what comes back.
//!
//! They travel as 32-bit integers. For each SUM slice all members first agree, by a MAX slice, on a
//! [bound](bound) of the values; from it and the total weight follows the [scale](fixed_point) that every
//! member uses. The integers' sum cannot overflow, and since integer addition is associative, every member
//! gets the same bits, whatever the tree, the order or the losses.

pub(crate) mod bound;
mod bounds;
mod data;
mod elements;
pub(crate) mod fixed_point;
mod prefetch;
mod vectors;

pub use bounds::Bounds;
pub use data::{AllReduce, ElementType, GradientData, Reduced, Run, Sums, Tensor};
pub(crate) use data::{Scaling, SumError, filled};
pub(crate) use elements::Elements;
