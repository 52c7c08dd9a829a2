//! Contributions that consist of several parts.

use super::bounds::Bounds;
use super::data::{AllReduce, Part, Tensor};

/// An all-reduce to which a member contributes the weighted sum of several parts, such as the gradients
/// of the processes on its host.
///
/// The parts are added exactly, except parts of [`ElementType::F32`], which are added in f64. The sum of a result is
/// rounded once, like that of an [`AllReduce`].
#[derive(Debug, Clone)]
pub struct JointAllReduce {
    /// The name of the tensor, as in [`AllReduce::name`].
    pub name: String,
    /// The first part.
    pub first: Part,
    /// The other parts, of the same element type and length as the first.
    pub further: Vec<Part>,
    /// The weight of the contribution: normally the sum of the factors. The magnitude of the parts' sum
    /// must be at most the weight times the largest magnitude of an element.
    pub weight: u32,
    /// The bounds of all parts together, if they were measured before.
    pub bounds: Option<Bounds>,
}

impl JointAllReduce {
    /// Returns the description of the tensor that this operation reduces.
    pub fn tensor(&self) -> Tensor {
        let Part { data, .. } = &self.first;
        Tensor { name: self.name.clone(), element_type: data.element_type(), len: data.len() }
    }
}

impl From<AllReduce> for JointAllReduce {
    fn from(AllReduce { name, data, weight }: AllReduce) -> Self {
        Self { name, first: Part { data, factor: weight }, further: Vec::new(), weight, bounds: None }
    }
}
