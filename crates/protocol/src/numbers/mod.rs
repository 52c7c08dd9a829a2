//! Gradients as the caller has them, as they travel, and what comes back.
//!
//! They travel as 32-bit integers. For each block of values all members first agree, by a MAX slice, on
//! [bounds](bound): how large and how fine the values are. From these and the total weight follows the
//! [scale](fixed_point) that every member uses, and how many integers stand for one value. The integers' sums cannot
//! overflow, and since integer addition is associative, every member gets the same bits, whatever the tree, the order or the
//! losses.

pub(crate) mod bound;
mod bounds;
mod data;
mod elements;
pub(crate) mod fixed_point;
mod lanes;
mod prefetch;
pub(crate) mod vectors;

pub use bounds::Bounds;
pub(crate) use data::filled;
pub use data::{AllReduce, ElementType, GradientData, NotFinite, Reduced, Run, Sums, Tensor};
pub(crate) use elements::{Class, DoesNotFit, Elements};
