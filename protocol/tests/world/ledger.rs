//! What must be true of every operation, whatever has happened to the job.

use std::collections::{BTreeSet, HashSet};

use tributary_protocol::{AllReduce, CollectiveError, GradientData, OperationId, Reduced, Run, Sums};
use tributary_wire::Rank;

use super::host::{Host, Outcome, is_missed};

/// Who was in, and which operations were found right.
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

    /// Checks an operation, once all present members have an outcome of it: it is the right one, and the same for
    /// all of them.
    pub(crate) fn check(
        &mut self,
        id: OperationId,
        hosts: &[Host],
        inputs: &[Vec<AllReduce>],
    ) -> Result<(), String> {
        let members = self.members().iter().map(|rank| &hosts[usize::from(rank.get())]);
        let since =
            members.clone().filter_map(|host| host.begun_in.get(&id)).min().copied().unwrap_or_default();
        let Some(outcomes) = members.map(|host| host.outcomes.get(&id)).collect::<Option<Vec<_>>>() else {
            return Ok(());
        };
        let abandoned = |outcome: &Outcome| matches!(outcome, Err(CollectiveError::Abandoned { .. }));
        let mut told = outcomes.into_iter().filter(|outcome| !is_missed(outcome) && !abandoned(outcome));
        self.checked.insert(id);
        let Some(first) = told.next() else { return Ok(()) };
        if told.any(|outcome| outcome != first) {
            return Err(format!("operation {}: not the same bits on all members", id.0));
        }
        let reduced = first.as_ref().map_err(|error| format!("operation {}: {error}", id.0))?;
        let gave_up =
            hosts.iter().filter(|host| host.abandoned.contains(&id)).map(|host| host.rank).collect();
        self.check_sum((id, since), reduced, inputs, &gave_up)
    }

    /// Checks a result against the sums over those who can have taken part in each run; `since` is the generation
    /// in which the first of the present members began the operation.
    fn check_sum(
        &self,
        (id, since): (OperationId, usize),
        reduced: &Reduced,
        inputs: &[Vec<AllReduce>],
        gave_up: &BTreeSet<Rank>,
    ) -> Result<(), String> {
        let of = |rank: &Rank| &inputs[usize::from(rank.get())][id.0 as usize];
        let mut at = 0;
        for run in &reduced.runs {
            let members = self.members_in(id, since, run)?;
            // Who has given up contributes all or nothing.
            let unsure: Vec<Rank> = members.iter().copied().filter(|rank| gave_up.contains(rank)).collect();
            let is_right = |subset: u32| {
                let is_out =
                    |rank| unsure.iter().position(|of| of == rank).is_some_and(|bit| subset >> bit & 1 == 1);
                let inside: Vec<_> = members.iter().filter(|rank| !is_out(*rank)).map(of).collect();
                is_sum(&reduced.sums, at, run, &inside)
            };
            if !(0..1u32 << unsure.len()).any(is_right) {
                let (first, end) = (at, at + run.len);
                return Err(format!("operation {}: elements {first}..{end} are no sum of {members:?}", id.0));
            }
            at += run.len;
        }
        let len = inputs[0][id.0 as usize].data.len();
        let complete = at == len && reduced.sums.len() == len;
        if complete { Ok(()) } else { Err(format!("operation {}: {at} of {len} elements", id.0)) }
    }

    /// Who took part in a run: the one set of members of that size since the operation began. Within an operation
    /// members only leave.
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

/// Whether elements and weight of a run are those of exactly these contributions.
fn is_sum(sums: &Sums, first: usize, run: &Run, inside: &[&AllReduce]) -> bool {
    let weight: u32 = inside.iter().map(|operation| operation.weight).sum();
    let contributions: Vec<_> = inside.iter().map(|operation| contribution(operation)).collect();
    weight == run.weight
        && (first..first + run.len).all(|element| {
            let exact: f64 = contributions.iter().map(|values| values[element]).sum();
            match sums {
                Sums::I32(sums) => f64::from(sums[element]) == exact,
                Sums::F32(sums) => (f64::from(sums[element]) - exact).abs() < 3e-6,
            }
        })
}

/// One worker's contribution to each element, weighted.
fn contribution(operation: &AllReduce) -> Vec<f64> {
    let floats: Vec<f64> = match &operation.data {
        GradientData::F32(values) | GradientData::F16(values) | GradientData::BF16(values) => {
            values.iter().map(|&x| x.into()).collect()
        }
        GradientData::I32(values) => values.iter().map(|&x| x.into()).collect(),
    };
    // What has no weight may hold anything.
    let weigh = |x: f64| if operation.weight == 0 { 0.0 } else { x * f64::from(operation.weight) };
    floats.into_iter().map(weigh).collect()
}
