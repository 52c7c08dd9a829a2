//! Operations that the [stripes](crate::Stripe) of a worker run together.

use std::iter;
use std::ops::Range;

use tributary_wire::SliceWidth;

use crate::error::CollectiveError;
use crate::numbers::{
    Collective, GradientData, JointAllReduce, NotFinite, OwnedPart, Part, Reduced, Sums, Tensor,
};

/// The smallest number of slices of a stripe.
/// An operation that has fewer for each stripe runs in the first stripe only, because waking the other threads would take
/// longer.
const LEAST_SLICES: usize = 32;

/// Returns the elements of each of `stripes` stripes in an operation on this tensor.
/// There is one range if the operation runs in the first stripe only.
pub fn ranges(stripes: u32, tensor: &Tensor, width: SliceWidth) -> Vec<Range<usize>> {
    let in_slice = width.values() * tensor.element_type.elements_in_value();
    let (stripes, slices) = (stripes as usize, tensor.len.div_ceil(in_slice));
    if stripes < 2 || slices / stripes < LEAST_SLICES {
        return iter::once(0..tensor.len).collect();
    }
    let begin = |stripe: usize| (slices * stripe / stripes * in_slice).min(tensor.len);
    (0..stripes).map(|stripe| begin(stripe)..begin(stripe + 1)).collect()
}

impl Collective {
    /// Returns the collective of the elements in `range`.
    pub fn within(&self, range: &Range<usize>) -> Self {
        let Self::ReduceScatter(parts) = self else { return self.clone() };
        let mut end = 0_usize;
        let cut = parts.iter().filter_map(|part| {
            let begin = end;
            end = end.saturating_add(part.len);
            let len = end.min(range.end).saturating_sub(begin.max(range.start));
            (len > 0).then_some(OwnedPart { len, ..*part })
        });
        Self::ReduceScatter(cut.collect())
    }
}

impl JointAllReduce {
    /// Divides the operation into the operations of `stripes` stripes. There is one if it runs in the first
    /// stripe only.
    pub fn divided(self, stripes: u32, width: SliceWidth) -> Vec<Self> {
        let ranges = ranges(stripes, &self.tensor(), width);
        if ranges.len() < 2 {
            return vec![self];
        }
        let Self { name, mut first, mut further, weight, mut bounds, is_withheld, collective } = self;
        let mut divided = Vec::with_capacity(ranges.len());
        for range in ranges.iter().rev() {
            let mut cut = |part: &mut Part| Part { data: split_off(&mut part.data, range.start), ..*part };
            divided.push(Self {
                name: name.clone(),
                first: cut(&mut first),
                further: further.iter_mut().map(&mut cut).collect(),
                weight,
                bounds: bounds.as_mut().map(|bounds| bounds.split_off(range.start)),
                is_withheld,
                collective: collective.within(range),
            });
        }
        divided.reverse();
        divided
    }
}

fn split_off(data: &mut GradientData, at: usize) -> GradientData {
    match data {
        GradientData::F32(values) => GradientData::F32(values.split_off(at)),
        GradientData::F16(values) => GradientData::F16(values.split_off(at)),
        GradientData::BF16(values) => GradientData::BF16(values.split_off(at)),
        GradientData::F32Exact(values) => GradientData::F32Exact(values.split_off(at)),
        GradientData::F16Paired(values) => GradientData::F16Paired(values.split_off(at)),
        GradientData::BF16Paired(values) => GradientData::BF16Paired(values.split_off(at)),
        GradientData::F64(values) => GradientData::F64(values.split_off(at)),
        GradientData::I32(values) => GradientData::I32(values.split_off(at)),
        GradientData::I64(values) => GradientData::I64(values.split_off(at)),
    }
}

/// The outcomes of an operation's stripes, until all have arrived.
#[derive(Debug, Clone)]
pub struct StripedOutcome {
    /// The first element of each stripe, and the stripe's result; `None` until it has arrived.
    stripes: Vec<(usize, Option<Reduced>)>,
    len: usize,
}

impl StripedOutcome {
    /// Prepares the outcome of an operation whose stripes have these numbers of elements, in order.
    pub fn new(lens: impl Iterator<Item = usize>) -> Self {
        let mut len = 0;
        let mut first = |stripe: usize| {
            len += stripe;
            len - stripe
        };
        let stripes = lens.map(|stripe| (first(stripe), None)).collect();
        Self { stripes, len }
    }

    /// Stores the result of a stripe. Returns the results of all stripes, in order, if they have arrived.
    pub fn complete(&mut self, stripe: usize, reduced: Reduced) -> Option<StripedReduced> {
        if let Some((_, result)) = self.stripes.get_mut(stripe) {
            *result = Some(reduced);
        }
        if self.stripes.iter().any(|(_, result)| result.is_none()) {
            return None;
        }
        let results = std::mem::take(&mut self.stripes).into_iter();
        Some(StripedReduced::of(results.filter_map(|(at, result)| Some((at, result?)))))
    }

    /// Returns the error of the operation, from the error of a stripe.
    pub fn error(&self, stripe: usize, error: CollectiveError) -> CollectiveError {
        let first = self.stripes.get(stripe).map_or(0, |(first, _)| *first);
        match error {
            CollectiveError::Overflow { tensor, element, element_type } => {
                CollectiveError::Overflow { tensor, element: first + element, element_type }
            }
            CollectiveError::WrongSum { tensor, operation, seq, reason, contributors, contributors_got } => {
                CollectiveError::WrongSum {
                    tensor: Tensor { len: self.len, ..tensor },
                    operation,
                    seq,
                    reason,
                    contributors,
                    contributors_got,
                }
            }
            error => error,
        }
    }
}

/// The result of an operation, with the sums of each stripe.
#[derive(Debug, Clone, PartialEq)]
pub struct StripedReduced {
    /// The result. Its sums are those of the first stripe.
    pub reduced: Reduced,
    /// The sums of the further stripes, in order.
    pub further: Vec<Sums>,
}

impl From<Reduced> for StripedReduced {
    fn from(reduced: Reduced) -> Self {
        Self { reduced, further: Vec::new() }
    }
}

impl StripedReduced {
    /// Puts the results of the stripes together. Each comes with the stripe's first element.
    fn of(mut stripes: impl Iterator<Item = (usize, Reduced)>) -> Self {
        let none = Reduced {
            sums: Sums::F32(Vec::new()),
            weight: 0,
            contributors: 0,
            runs: Vec::new(),
            not_finite: None,
        };
        let mut all = Self::from(stripes.next().map_or(none, |(_, reduced)| reduced));
        for (first, Reduced { sums, weight, contributors, runs, not_finite }) in stripes {
            let reduced = &mut all.reduced;
            // A member may have left between the beginnings of the stripes.
            reduced.weight = reduced.weight.max(weight);
            reduced.contributors = reduced.contributors.max(contributors);
            runs.into_iter().for_each(|run| run.push_to(&mut reduced.runs));
            let at = not_finite.map(|found| NotFinite { element: first + found.element, ..found });
            reduced.not_finite = reduced.not_finite.or(at);
            all.further.push(sums);
        }
        all
    }

    /// Returns the result with all sums in one vector.
    pub fn joined(self) -> Reduced {
        let Self { mut reduced, further } = self;
        for sums in further {
            match (&mut reduced.sums, sums) {
                (Sums::F32(all), Sums::F32(sums)) => all.extend(sums),
                (Sums::F64(all), Sums::F64(sums)) => all.extend(sums),
                (Sums::I32(all), Sums::I32(sums)) => all.extend(sums),
                (Sums::I64(all), Sums::I64(sums)) => all.extend(sums),
                // The stripes of an operation have elements of one type.
                _ => {}
            }
        }
        reduced
    }
}
