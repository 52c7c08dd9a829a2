//! The choice: the candidate tree whose busiest link is done first.

use std::collections::HashSet;

use tributary_topology::{NodeKey, Topology};
use tributary_wire::constants::{MAX_CHILDREN, MAX_HOPS, RANK_ALL};

use crate::assemble::Parts;
use crate::candidates::candidates;
use crate::check;
use crate::compare::Comparison;
use crate::error::PlanError;
use crate::fabric::{Fabric, FabricState};
use crate::notes;
use crate::plan::Plan;
use crate::request::{Aggregation, Downlink, JobRequest, Member};
use crate::roles::Roles;
use crate::traffic::Traffic;
use crate::tree::Tree;

/// A tree, who aggregates on it, and what that costs.
pub(crate) struct Choice {
    pub(crate) tree: Tree,
    pub(crate) roles: Roles,
    pub(crate) downlink: Downlink,
    pub(crate) traffic: Traffic,
}

/// Plans a job: the tree that is done first on its busiest link, given what the links carry already and
/// where slots are free; of equal ones that which keeps the links busy for the shortest time in all.
///
/// The same input always gives the same plan.
///
/// # Errors
/// [`PlanError`]: the request makes no sense on this topology, or no tree fits what packets and switches
/// can hold.
pub fn plan(topology: &Topology, state: &FabricState, job: &JobRequest) -> Result<Plan, PlanError> {
    validate(topology, job)?;
    let fabric = Fabric::new(topology, state);
    let choice = best(&fabric, job, fits)?;
    let comparison = Comparison::of(&fabric, job, &choice)?;
    let notes = notes::notes(&fabric, job, &choice, &comparison);
    let Choice { tree, roles: Roles { stacks, .. }, downlink, traffic } = choice;
    let plan = Plan::assemble(&fabric, job, Parts { tree, stacks, downlink, traffic, comparison, notes });
    check::rules(&plan).map_err(PlanError::Internal)?;
    Ok(plan)
}

/// The best of the candidates that are accepted; the first refusal when none is.
pub(crate) fn best(
    fabric: &Fabric<'_>,
    job: &JobRequest,
    accept: impl Fn(&Fabric<'_>, &JobRequest, &Choice) -> Result<(), PlanError>,
) -> Result<Choice, PlanError> {
    let mut best: Option<Choice> = None;
    let mut refusal = None;
    for tree in candidates(fabric, &job.hosts(), job.server) {
        let choice = Choice::on(tree, fabric, job);
        match accept(fabric, job, &choice) {
            Err(error) => refusal = refusal.or(Some(error)),
            Ok(()) => {
                if best.as_ref().is_none_or(|best| choice.is_better_than(best)) {
                    best = Some(choice);
                }
            }
        }
    }
    best.ok_or_else(|| refusal.unwrap_or_else(|| unreachable(fabric, job)))
}

impl Choice {
    fn on(tree: Tree, fabric: &Fabric<'_>, job: &JobRequest) -> Self {
        let roles = Roles::on(&tree, fabric, job);
        let plain = tree.bottom_up().iter().any(|&switch| fabric.is_plain(switch));
        // A plain switch knows no multicast groups of ours.
        let downlink = if plain { Downlink::Unicast } else { job.downlink };
        let aggregates = |switch| roles.merges.get(&switch).is_some_and(|merge| merge.aggregate);
        let traffic = Traffic::on(&tree, aggregates, fabric, job.gradient_bytes, downlink);
        Self { tree, roles, downlink, traffic }
    }

    fn is_better_than(&self, other: &Self) -> bool {
        let in_all = |traffic: &Traffic| traffic.links.iter().map(|link| link.seconds).sum::<f64>();
        let [ours, theirs] = [&self.traffic, &other.traffic];
        let by_busiest = ours.seconds.total_cmp(&theirs.seconds);
        by_busiest.then_with(|| in_all(ours).total_cmp(&in_all(theirs))).is_lt()
    }
}

/// Whether hop stacks and entries can say what the tree needs.
fn fits(fabric: &Fabric<'_>, job: &JobRequest, choice: &Choice) -> Result<(), PlanError> {
    for (stack, worker) in choice.roles.stacks.iter().zip(&job.workers) {
        if stack.len() > usize::from(MAX_HOPS) {
            return Err(PlanError::TooDeep { worker: fabric.name(worker.host), hops: stack.len() });
        }
    }
    let children = choice.roles.server_fan_in;
    if children > MAX_CHILDREN {
        return Err(PlanError::TooManyChildren { server: fabric.name(job.server), children });
    }
    Ok(())
}

/// Whether the job, which is known to make sense, has a plan.
pub(crate) fn is_plannable(fabric: &Fabric<'_>, job: &JobRequest) -> bool {
    best(fabric, job, fits).is_ok()
}

/// Whether the request makes sense on this topology.
pub(crate) fn validate(topology: &Topology, job: &JobRequest) -> Result<(), PlanError> {
    check_workers(topology, job)?;
    check_host(topology, job.server)?;
    if job.workers.iter().any(|worker| worker.host == job.server) {
        check_turning(topology, job.server)?;
    }
    Ok(())
}

/// The same, whoever serves.
pub(crate) fn check_workers(topology: &Topology, job: &JobRequest) -> Result<(), PlanError> {
    let mut hosts = HashSet::new();
    for worker in &job.workers {
        check_host(topology, worker.host)?;
        if !hosts.insert(worker.host) {
            return Err(PlanError::DuplicateWorker(topology[worker.host].name.clone()));
        }
    }
    if job.workers.is_empty() {
        return Err(PlanError::NoWorkers);
    }
    if let Some(pair) = job.workers.windows(2).find(|pair| pair[0].rank >= pair[1].rank) {
        return Err(PlanError::RanksNotRising { rank: pair[1].rank, before: pair[0].rank });
    }
    if let Some(worker) = job.workers.iter().find(|worker| worker.rank == RANK_ALL) {
        return Err(PlanError::BadRank(worker.rank));
    }
    if !job.window.is_power_of_two() {
        return Err(PlanError::BadWindow(job.window));
    }
    if job.gradient_bytes == 0 {
        return Err(PlanError::EmptyGradient);
    }
    Ok(())
}

fn check_host(topology: &Topology, key: NodeKey) -> Result<(), PlanError> {
    let node = topology.get(key).ok_or(PlanError::NoSuchNode(key.index()))?;
    node.host().map(|_| ()).ok_or_else(|| PlanError::NotAHost(node.name.clone()))
}

/// The gradients of a worker on the server's host leave their first switch by the port that they came in
/// by, and only our program does that.
fn check_turning(topology: &Topology, server: NodeKey) -> Result<(), PlanError> {
    let first = topology.neighbours(server).first().map(|via| &topology[via.node]);
    match first.filter(|first| first.switch().is_some_and(|switch| !switch.programmable)) {
        None => Ok(()),
        Some(plain) => Err(PlanError::WorkerServesBehindPlainSwitch {
            server: topology[server].name.clone(),
            switch: plain.name.clone(),
        }),
    }
}

/// Names a worker that cannot reach the server: there are no candidates because of at least one.
fn unreachable(fabric: &Fabric<'_>, job: &JobRequest) -> PlanError {
    let alone = |worker: &&Member| candidates(fabric, &[worker.host], job.server).is_empty();
    let worker = job.workers.iter().find(alone).or(job.workers.first());
    PlanError::Unreachable {
        worker: worker.map(|worker| fabric.name(worker.host)).unwrap_or_default(),
        server: fabric.name(job.server),
    }
}

/// The same job as a plain parameter server does it: nothing aggregates, a result for every worker.
pub(crate) fn parameter_server(fabric: &Fabric<'_>, job: &JobRequest) -> Result<Choice, PlanError> {
    let mut plain = JobRequest { aggregation: Aggregation::None, downlink: Downlink::Unicast, ..job.clone() };
    // What a worker on the server's own host gives it need not travel.
    plain.workers.retain(|worker| worker.host != job.server);
    // It needs neither hop stacks nor slots, so that their limits do not bind it.
    best(fabric, &plain, |_, _, _| Ok(()))
}

#[cfg(test)]
mod tests {

    use std::collections::BTreeMap;

    use proptest::strategy::{Strategy, ValueTree};
    use proptest::test_runner::TestRunner;
    use tributary_topology::Neighbour;

    use super::*;
    use crate::random;

    /// Every tree there is: each switch may go on by each of its links.
    fn all_trees(fabric: &Fabric<'_>, job: &JobRequest) -> Vec<Tree> {
        let ways: Vec<(NodeKey, Vec<Neighbour>)> =
            fabric.topology.nodes().map(|(key, _)| (key, fabric.neighbours(key))).collect();
        let count: usize = ways.iter().map(|(_, ways)| ways.len().max(1)).product();
        let nth = |mut n: usize| {
            let mut parents = BTreeMap::new();
            for (key, ways) in &ways {
                if let Some(way) = ways.get(n % ways.len().max(1)) {
                    parents.insert(*key, *way);
                }
                n /= ways.len().max(1);
            }
            Tree::new(job.server, &job.hosts(), &parents)
        };
        let fits = |tree: &Tree| tree.fits_plain_switches(fabric);
        if count > 20_000 { Vec::new() } else { (0..count).filter_map(nth).filter(fits).collect() }
    }

    /// Whether the choice is as good as the best of all trees; `None` where those are too many.
    fn is_optimal(topology: &Topology, aggregation: Aggregation, worker_serves: bool) -> Option<bool> {
        let state = FabricState::of(topology, 4096);
        let fabric = Fabric::new(topology, &state);
        let mut job = JobRequest { aggregation, ..JobRequest::of(topology, 64, 1 << 20)? };
        if worker_serves {
            job.server = job.workers.first()?.host;
        }
        let found = best(&fabric, &job, fits).ok()?;
        let every = all_trees(&fabric, &job).into_iter().map(|tree| Choice::on(tree, &fabric, &job));
        let seconds = every.filter(|choice| fits(&fabric, &job, choice).is_ok()).map(|c| c.traffic.seconds);
        let optimum = seconds.min_by(f64::total_cmp)?;
        assert!(found.traffic.seconds >= optimum, "a tree that is not among all trees");
        Some(found.traffic.seconds <= optimum * 1.0005)
    }

    #[test]
    fn the_choice_is_nearly_always_the_best_of_all_trees() {
        let mut runner = TestRunner::deterministic();
        let (mut judged, mut optimal) = (0, 0);
        while judged < 600 {
            let topology = random::topologies().new_tree(&mut runner).unwrap().current();
            let results = [
                is_optimal(&topology, Aggregation::Tree, false),
                is_optimal(&topology, Aggregation::None, false),
                is_optimal(&topology, Aggregation::Tree, true),
            ];
            judged += results.iter().flatten().count();
            optimal += results.iter().flatten().filter(|optimal| **optimal).count();
        }
        assert!(optimal * 100 >= judged * 99, "{optimal} of {judged}");
    }
}
