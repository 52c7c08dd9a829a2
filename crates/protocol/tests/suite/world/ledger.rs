//! The conditions that must hold for every operation, independent of the events in the job.

use std::collections::HashSet;
use std::ops::Range;

use tributary_protocol::{
    AllReduce, Broadcast, CollectiveError, GradientData, OperationId, OwnedPart, Reduced, Run, Sums,
};
use tributary_wire::Rank;

use super::host::{Host, OperationOutcome, is_missed};
use super::{broadcast, parts};

/// The members of each generation, and the operations whose outcomes were checked.
#[derive(Debug)]
pub(crate) struct Ledger {
    /// The members of each generation.
    pub(crate) generations: Vec<Vec<Rank>>,
    checked: HashSet<OperationId>,
}

impl Ledger {
    pub(crate) fn new(members: Vec<Rank>) -> Self {
        Self { generations: vec![members], checked: HashSet::new() }
    }

    pub(crate) fn members(&self) -> &[Rank] {
        self.generations.last().map_or(&[], Vec::as_slice)
    }

    pub(crate) fn is_checked(&self, id: OperationId) -> bool {
        self.checked.contains(&id)
    }

    /// Checks an operation once all present members have an outcome of it.
    /// The outcome must be correct, and equal on all of them.
    pub(crate) fn check(
        &mut self,
        id: OperationId,
        hosts: &[Host],
        inputs: &[Vec<Vec<AllReduce>>],
    ) -> Result<(), String> {
        let members = self.members().iter().map(|rank| &hosts[usize::from(rank.get())]);
        let since =
            members.clone().filter_map(|host| host.begun_in.get(&id)).min().copied().unwrap_or_default();
        let Some(outcomes) = members.map(|host| host.outcomes.get(&id)).collect::<Option<Vec<_>>>() else {
            return Ok(());
        };
        let abandoned =
            |outcome: &OperationOutcome| matches!(outcome, Err(CollectiveError::Abandoned { .. }));
        let mut told = outcomes.into_iter().filter(|outcome| !is_missed(outcome) && !abandoned(outcome));
        self.checked.insert(id);
        let Some(first) = told.next() else { return Ok(()) };
        // A member that abandons the operation contributes everything, or the operation fails on the others.
        let withheld = |outcome: &OperationOutcome| match outcome {
            Err(CollectiveError::Withheld { rank, .. }) => {
                hosts.iter().any(|host| host.rank == *rank && host.abandoned.contains(&id))
            }
            _ => false,
        };
        if withheld(first) && told.clone().all(withheld) {
            return Ok(());
        }
        let input = &inputs[0][id.0 as usize][0];
        let parts = parts(input, hosts.len());
        if !parts.is_empty() {
            return self.check_parts((id, since), hosts, inputs, &parts);
        }
        if let Some(other) = told.find(|outcome| !is_same_outcome(outcome, first)) {
            let errors = [first, other].map(|outcome| outcome.as_ref().err());
            return Err(format!("operation {}: not the same bits on all members; errors: {errors:?}", id.0));
        }
        if let Some(Broadcast { root, .. }) = broadcast(input) {
            let words = &inputs[usize::from(root.get())][id.0 as usize][0].data;
            return match first {
                Ok(Reduced { sums: Sums::I32(sums), .. }) if GradientData::I32(sums.clone()) == *words => {
                    Ok(())
                }
                Err(CollectiveError::RootLeft { .. })
                    if self.generations[since..].iter().any(|members| !members.contains(&root)) =>
                {
                    Ok(())
                }
                outcome => Err(format!("broadcast {} of rank {root}: {outcome:?}", id.0)),
            };
        }
        let reduced = first.as_ref().map_err(|error| format!("operation {}: {error}", id.0))?;
        self.check_sum((id, since), reduced, inputs, 0..usize::MAX)
    }

    /// Checks the outcomes of a reduce-scatter: each member has the sums of its part.
    /// If the server that had them died, the member has an error.
    fn check_parts(
        &self,
        (id, since): (OperationId, usize),
        hosts: &[Host],
        inputs: &[Vec<Vec<AllReduce>>],
        parts: &[OwnedPart],
    ) -> Result<(), String> {
        for host in self.members().iter().map(|rank| &hosts[usize::from(rank.get())]) {
            let reduced = match &host.outcomes[&id] {
                Ok(reduced) => reduced,
                Err(CollectiveError::Lost { .. } | CollectiveError::Abandoned { .. }) => continue,
                outcome if is_missed(outcome) => continue,
                Err(error) => return Err(format!("operation {}: {error}", id.0)),
            };
            let own = parts.iter().position(|part| part.owner == host.rank).unwrap();
            let begin: usize = parts[..own].iter().map(|part| part.len).sum();
            self.check_sum((id, since), reduced, inputs, begin..begin + parts[own].len)?;
        }
        Ok(())
    }

    /// Checks a result against the sums over the members that can have taken part in each run.
    /// `since` is the generation in which the first of the present members began the operation. Only elements in `range`
    /// count.
    fn check_sum(
        &self,
        (id, since): (OperationId, usize),
        reduced: &Reduced,
        inputs: &[Vec<Vec<AllReduce>>],
        range: Range<usize>,
    ) -> Result<(), String> {
        let of = |rank: &Rank| &inputs[usize::from(rank.get())][id.0 as usize];
        let mut at = 0;
        for run in &reduced.runs {
            let members = self.members_in(id, since, run)?;
            let inside: Vec<_> = members.iter().flat_map(of).collect();
            let inner = at.max(range.start)..(at + run.len).min(range.end);
            let at_start: Vec<_> = inputs.iter().flat_map(|operations| &operations[id.0 as usize]).collect();
            if !is_sum(&reduced.sums, inner, run, [&inside, &at_start], run.complete < run.contributors) {
                let (first, end) = (at, at + run.len);
                return Err(format!("operation {}: elements {first}..{end} are no sum of {members:?}", id.0));
            }
            at += run.len;
        }
        let len = inputs[0][id.0 as usize][0].data.len();
        let complete = at == len && reduced.sums.len() == len;
        if complete { Ok(()) } else { Err(format!("operation {}: {at} of {len} elements", id.0)) }
    }

    /// Returns the members that took part in a run.
    /// They are the only set of members of that size since the operation began, because members only leave during an
    /// operation.
    fn members_in(&self, id: OperationId, since: usize, run: &Run) -> Result<&[Rank], String> {
        let of_this_size = |members: &&Vec<Rank>| members.len() == run.contributors as usize;
        let mut possible = self.generations[since..].iter().filter(of_this_size);
        let members =
            possible.next().ok_or(format!("operation {}: {} contributors", id.0, run.contributors))?;
        match possible.find(|other| *other != members) {
            None => Ok(members),
            Some(other) => Err(format!("operation {} was summed over {members:?} or {other:?}", id.0)),
        }
    }
}

/// Returns true if a run is the sum of exactly the contributions `inside`, with their weight.
/// The precision of paired elements depends on the contributions `at_start`, when the members agreed on the scales.
/// The precision must be the precision of the elements' type. With `is_cut`, it is the precision of first limbs of
/// values below 4.
fn is_sum(
    sums: &Sums,
    range: Range<usize>,
    run: &Run,
    [inside, at_start]: [&[&AllReduce]; 2],
    is_cut: bool,
) -> bool {
    let weight: u32 = inside.iter().map(|operation| operation.weight).sum();
    let contributions: Vec<_> = inside.iter().map(|operation| contribution(operation)).collect();
    let precise: i32 = match inside.first().map(|operation| &operation.data) {
        Some(GradientData::F32(_)) => 12,
        Some(GradientData::F64(_)) => 53,
        _ => 24,
    };
    let is_paired =
        inside.first().is_some_and(|operation| operation.data.element_type().elements_in_value() == 2);
    let all: Vec<_> = at_start.iter().map(|operation| contribution(operation)).collect();
    weight == run.weight
        && range.into_iter().all(|element| {
            let exact: f64 = contributions.iter().map(|values| values[element]).sum();
            let magnitude: f64 = contributions.iter().map(|values| values[element].abs()).sum();
            // The reference sum in f64 is rounded, too.
            let allowed = magnitude * (2f64.powi(-precise) + 2f64.powi(-50)) + 2f64.powi(-149);
            let allowed = allowed + if is_paired { of_pairs(&all, element) } else { 0.0 };
            let cut = if is_paired { -6 } else { -22 };
            let allowed = if is_cut { allowed + 2f64.powi(cut) } else { allowed };
            let is_near = |sum: f64| (sum - exact).abs() <= allowed;
            match sums {
                Sums::I32(sums) => f64::from(sums[element]) == exact,
                Sums::I64(sums) => sums[element] as f64 == exact,
                Sums::F32(sums) if exact.is_finite() => is_near(sums[element].into()),
                Sums::F64(sums) if exact.is_finite() => is_near(sums[element]),
                Sums::F32(sums) => is_same(sums[element].into(), exact),
                Sums::F64(sums) => is_same(sums[element], exact),
            }
        })
}

/// Returns the largest error of the sum of paired elements, as in section 10.1 of the specification.
fn of_pairs(contributions: &[Vec<f64>], element: usize) -> f64 {
    let members = contributions.len() as i32;
    let bits = f64::from(members).log2().ceil();
    let neighbours = element / 8 * 8..element / 8 * 8 + 8;
    let of_member = |values: &Vec<f64>| {
        let values = &values[neighbours.start..neighbours.end.min(values.len())];
        values.iter().filter(|value| value.is_finite()).fold(0.0, |most, value| value.abs().max(most))
    };
    let largest = contributions.iter().map(of_member).fold(0.0, f64::max);
    f64::from(members) * 2f64.powf((bits / 2.0).floor() - 10.0) * largest
}

/// Returns true if both outcomes have the same bits.
/// `==` does not help, because NaN is not equal to itself.
pub(crate) fn is_same_outcome(one: &OperationOutcome, other: &OperationOutcome) -> bool {
    let (Ok(one), Ok(other)) = (one, other) else { return one == other };
    let are_same = match (&one.sums, &other.sums) {
        (Sums::F32(one), Sums::F32(other)) => {
            one.iter().map(|sum| sum.to_bits()).eq(other.iter().map(|sum| sum.to_bits()))
        }
        (Sums::F64(one), Sums::F64(other)) => {
            one.iter().map(|sum| sum.to_bits()).eq(other.iter().map(|sum| sum.to_bits()))
        }
        (one, other) => one == other,
    };
    let rest = |reduced: &Reduced| Reduced { sums: Sums::I32(Vec::new()), ..reduced.clone() };
    are_same && rest(one) == rest(other)
}

/// Returns true if both are equal, or both are NaN.
fn is_same(one: f64, other: f64) -> bool {
    one == other || one.is_nan() && other.is_nan()
}

/// Returns one worker's weighted contribution to each element.
fn contribution(operation: &AllReduce) -> Vec<f64> {
    let floats: Vec<f64> = match &operation.data {
        GradientData::F32(values)
        | GradientData::F16(values)
        | GradientData::BF16(values)
        | GradientData::F32Exact(values)
        | GradientData::F16Paired(values)
        | GradientData::BF16Paired(values) => values.iter().map(|&x| x.into()).collect(),
        GradientData::F64(values) => values.clone(),
        GradientData::I32(values) => values.iter().map(|&x| x.into()).collect(),
        GradientData::I64(values) => values.iter().map(|&x| x as f64).collect(),
    };
    // A contribution without weight may have any values.
    let weigh = |x: f64| if operation.weight == 0 { 0.0 } else { x * f64::from(operation.weight) };
    floats.into_iter().map(weigh).collect()
}
