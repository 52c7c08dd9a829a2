//! Stripes: the parts of a job that a worker's threads run beside each other.
//!
//! A job with N stripes (a power of two) divides its slices by their numbers: slice s belongs to stripe (s − 1) mod N.
//! A slot of the window therefore belongs to one stripe, and the stripes share no state. Each stripe counts the job's
//! operations alike. A large operation has elements in all stripes, and a small one only in the first.

use std::iter;
use std::ops::Range;

use tributary_wire::{Seq, SliceWidth};

use crate::config::ConfigError;
use crate::error::CollectiveError;
use crate::numbers::{
    Collective, GradientData, JointAllReduce, NotFinite, OwnedPart, Part, Reduced, Run, Sums, Tensor,
};
use crate::worker::WorkerProgress;

/// The largest number of stripes.
pub const MOST_STRIPES: u32 = 64;

/// The smallest number of slices of a stripe. An operation that has fewer for each stripe runs in the first
/// stripe only, because waking the other threads would take longer.
const LEAST_SLICES: usize = 32;

/// One of the stripes of a job.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Stripe {
    number: u32,
    /// The binary logarithm of the number of stripes.
    bits: u32,
}

impl Stripe {
    /// The only stripe of a job that has one.
    pub const WHOLE: Self = Self { number: 0, bits: 0 };

    /// Returns all stripes of a job with `count` stripes and this window, in order.
    ///
    /// # Errors
    /// [`ConfigError::Stripes`] if the number is not a power of two up to [`MOST_STRIPES`], or is larger than the window.
    pub fn all(count: u32, window: u32) -> Result<impl Iterator<Item = Self>, ConfigError> {
        if !count.is_power_of_two() || count > MOST_STRIPES.min(window) {
            return Err(ConfigError::Stripes { stripes: count, window });
        }
        Ok((0..count).map(move |number| Self { number, bits: count.ilog2() }))
    }

    /// Returns the number of the stripe, from 0.
    pub fn number(self) -> u32 {
        self.number
    }

    /// Returns the first slice of the stripe in a new job.
    pub fn first(self) -> Seq {
        Seq::FIRST.plus(self.number)
    }

    /// Returns true if the slice belongs to this stripe.
    pub fn contains(self, seq: Seq) -> bool {
        self.first().0 & self.mask() == seq.0 & self.mask()
    }

    fn mask(self) -> u32 {
        (1 << self.bits) - 1
    }

    /// Returns the number of the stripe's slots in a window of `window` slots.
    pub(crate) fn window(self, window: u32) -> u32 {
        window >> self.bits
    }

    /// Returns the index of a slice's slot among the slots of the stripe, if the window has enough slots.
    pub(crate) fn index(self, seq: Seq) -> u32 {
        seq.0 >> self.bits
    }

    /// Returns the stripe's slice that comes `count` slices of the stripe after `seq`.
    pub(crate) fn after(self, seq: Seq, count: u64) -> Seq {
        seq.plus((count as u32) << self.bits)
    }

    /// Returns the distance of `seq` ahead of `other`, in slices of the stripe.
    pub(crate) fn distance(self, seq: Seq, other: Seq) -> i32 {
        seq.distance(other) >> self.bits
    }
}

/// Returns the elements of each of `stripes` stripes in an operation on this tensor, with slices of this
/// width. There is one range if the operation runs in the first stripe only.
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

impl WorkerProgress {
    /// Returns the progress of a worker from that of its stripes, in the order of the stripes.
    pub fn of_stripes(stripes: &[Self]) -> Self {
        let begun = stripes.iter().map(|stripe| stripe.begun).max().unwrap_or_default();
        let idle = stripes.iter().all(|stripe| stripe.idle && stripe.begun == begun);
        let next = stripes.iter().flat_map(|stripe| stripe.next.iter().copied()).collect();
        let mut dues: Vec<Seq> = stripes.iter().flat_map(|stripe| stripe.dues.iter().copied()).collect();
        let mask = (dues.len() as u32).wrapping_sub(1);
        dues.sort_unstable_by_key(|due| due.0 & mask);
        Self { begun, next, idle, dues }
    }

    /// Returns the oldest slice whose result the worker awaits, in any stripe.
    pub fn oldest_awaited(&self) -> Option<Seq> {
        let mask = (self.next.len() as u32).wrapping_sub(1);
        let ahead = |due: &Seq| {
            let next = self.next.iter().find(|next| (next.0 ^ due.0) & mask == 0)?;
            next.is_newer_than(*due).then(|| (next.distance(*due), *due))
        };
        let oldest = self.dues.iter().filter_map(ahead).max_by_key(|(ahead, _)| *ahead);
        oldest.filter(|_| !self.idle).map(|(_, due)| due)
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
    /// Prepares the outcome of an operation whose stripes have these elements, in order.
    pub fn new(ranges: &[Range<usize>]) -> Self {
        Self {
            stripes: ranges.iter().map(|range| (range.start, None)).collect(),
            len: ranges.last().map_or(0, |range| range.end),
        }
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
            runs.into_iter().for_each(|run| push(&mut reduced.runs, run));
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

/// Adds a run at the end of `runs`. It extends the last run if its sums have the same members.
pub(crate) fn push(runs: &mut Vec<Run>, run: Run) {
    match runs.last_mut() {
        Some(last) if *last == (Run { len: last.len, ..run }) => last.len += run.len,
        _ => runs.push(run),
    }
}
