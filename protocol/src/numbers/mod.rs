//! Gradients as the caller has them, as they travel, and what comes back.

mod data;

pub use data::{AllReduce, GradientData, Reduced, Run, Sums};
