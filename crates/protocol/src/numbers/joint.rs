//! Contributions that consist of several parts.

use std::collections::TryReserveError;

use tributary_wire::SliceWidth;

use super::bounds::Bounds;
use super::data::{AllReduce, Broadcast, Collective, ElementType, GradientData, Part, Tensor};
use super::vectors;
use crate::error::StartError;

/// The bits of two f32 whose sum is a number: 24 each.
const BITS_OF_TWO: u32 = 48;

/// An all-reduce to which a member contributes the weighted sum of several parts, such as the gradients
/// of the processes on its host.
///
/// The parts are added exactly, except parts of [`ElementType::F32`] and of paired elements, which are added in f64.
/// The sum of a result is rounded once, like that of an [`AllReduce`].
///
/// It may also be a reduce-scatter, or a [`Broadcast`] of one part without a weight.
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
    /// True if the member withholds its contribution, so that the operation
    /// [fails](crate::CollectiveError::Withheld) on all members.
    pub is_withheld: bool,
    /// The collective. A broadcast has elements of [`GradientData::I32`].
    pub collective: Collective,
}

impl JointAllReduce {
    /// Returns the description of the tensor that this operation reduces.
    pub fn tensor(&self) -> Tensor {
        let Part { data, .. } = &self.first;
        Tensor {
            name: self.name.clone(),
            element_type: data.element_type(),
            len: data.len(),
            collective: self.collective.clone(),
        }
    }

    /// Checks that the parts and the collective fit each other.
    ///
    /// # Errors
    /// [`StartError::Parts`], [`StartError::Owners`] or [`StartError::Broadcast`], as for
    /// [`Worker::start_joint`](crate::Worker::start_joint).
    pub fn check(&self) -> Result<(), StartError> {
        let Self { name, first, further, weight, collective, .. } = self;
        let kind = |part: &Part| (part.data.element_type(), part.data.len());
        if further.iter().any(|part| kind(part) != kind(first)) {
            return Err(StartError::Parts { tensor: name.clone() });
        }
        let (tensor, len) = (name.clone(), first.data.len());
        if let Some(parts) = collective.owned().filter(|parts| *parts != len) {
            return Err(StartError::Owners { tensor, parts, len });
        }
        let is_words = matches!(first.data, GradientData::I32(_)) && further.is_empty() && *weight == 0;
        match collective.root() {
            Some(_) if !is_words => Err(StartError::Broadcast { tensor }),
            _ => Ok(()),
        }
    }
}

impl From<AllReduce> for JointAllReduce {
    fn from(AllReduce { name, data, weight }: AllReduce) -> Self {
        let first = Part { data, factor: weight };
        Self {
            name,
            first,
            further: Vec::new(),
            weight,
            bounds: None,
            is_withheld: false,
            collective: Collective::AllReduce,
        }
    }
}

impl From<Broadcast> for JointAllReduce {
    fn from(Broadcast { name, words, root, process }: Broadcast) -> Self {
        let first = Part { data: GradientData::I32(words), factor: 0 };
        let collective = Collective::Broadcast { root, process };
        Self { name, first, further: Vec::new(), weight: 0, bounds: None, is_withheld: false, collective }
    }
}

/// Adds parts of floats piece by piece, so that two vectors take the place of any number of parts.
///
/// The caller adds the next elements of each part, stores their sums, and repeats this until the end. A sum is stored
/// as two f32: the f32 that is nearest to it, and the rest. Both vectors have the factor 1 in a [`JointAllReduce`].
#[derive(Debug)]
pub struct PartsSum {
    factors: Vec<f64>,
    bounds: Vec<(Bounds, u32)>,
    weight: u32,
    element_type: ElementType,
    sums: Vec<f64>,
    /// True if no f32 that was stored is infinite.
    is_finite: bool,
}

impl PartsSum {
    /// Prepares the sum of `len` elements of parts with these factors, for a contribution of the total
    /// `weight`.
    ///
    /// # Errors
    /// [`TryReserveError`] if the allocation of memory fails.
    pub fn new(
        width: SliceWidth,
        (element_type, len): (ElementType, usize),
        factors: &[u32],
        weight: u32,
    ) -> Result<Self, TryReserveError> {
        let bounds = factors.iter().map(|factor| Ok((Bounds::new(width, element_type, len)?, *factor)));
        Ok(Self {
            factors: factors.iter().copied().map(f64::from).collect(),
            bounds: bounds.collect::<Result<_, TryReserveError>>()?,
            weight,
            element_type,
            sums: Vec::new(),
            is_finite: true,
        })
    }

    /// Adds the next elements of part number `part`. The call for the first part begins new sums. As in
    /// [`Bounds::add_floats`], only the last elements may end inside a slice.
    pub fn add(&mut self, part: usize, elements: &[f32]) {
        let (Some((bounds, _)), Some(factor)) = (self.bounds.get_mut(part), self.factors.get(part)) else {
            return;
        };
        bounds.add_floats(elements);
        if part == 0 {
            self.sums.clear();
            self.sums.resize(elements.len(), 0.0);
        }
        vectors::add(elements, *factor, &mut self.sums);
    }

    /// Stores the present sums.
    pub fn store(&mut self, nearest: &mut [f32], rest: &mut [f32]) {
        self.is_finite &= vectors::split(&self.sums, nearest, rest);
    }

    /// Returns the bounds of the parts; `None` if the two vectors are not good enough for the element type.
    /// That is so if an element or a sum is not finite, or if exact sums may have more than 48 bits.
    pub fn bounds(self) -> Option<Bounds> {
        let bounds = Bounds::of_parts(self.bounds, self.weight)?;
        let fits = self.element_type.is_rounded() || bounds.sums_fit(BITS_OF_TWO, self.weight);
        (self.is_finite && fits && !bounds.has_not_finite()).then_some(bounds)
    }
}
