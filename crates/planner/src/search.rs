//! Chooses the candidate tree whose busiest link is done first.

use std::collections::{HashMap, HashSet};
use std::iter::once_with;

use tributary_topology::{LinkKey, NodeKey, Topology};
use tributary_wire::SliceWidth;
use tributary_wire::constants::RANK_ALL;

use crate::assemble::Parts;
use crate::candidates::Terrain;
use crate::check;
use crate::compare::{Comparison, PlainServer};
use crate::costed_tree::CostedTree;
use crate::error::PlanError;
use crate::fabric::{Fabric, FabricState, fits};
use crate::grow::{Links, Members};
use crate::notes;
use crate::plain;
use crate::plan::Plan;
use crate::request::JobRequest;
use crate::stacks::stacks;
use crate::traffic::Traffic;
use crate::tree::Tree;
use crate::widest::SLACK;

/// The maximum number of times that the search leads the tree around its busiest link.
const IMPROVEMENTS: usize = 16;

/// Plans a job: finds the tree whose busiest link is done first.
/// It considers the load of the links and the free slots. Among equal trees, it takes the tree that keeps links busy
/// for the shortest total time.
///
/// The same input always gives the same plan.
///
/// # Errors
/// [`PlanError`] if the request is invalid on this topology, or if no tree fits into packets and switches.
pub fn plan(topology: &Topology, state: &FabricState, job: &JobRequest) -> Result<Plan, PlanError> {
    validate(topology, job)?;
    let fabric = Fabric::new(topology, state, job.width);
    search(&Terrain::new(&fabric, job), job)?.into_plan(&fabric, job)
}

/// The best tree that was found, and the best plain parameter server on the trees that were compared.
pub(crate) struct SearchResult {
    pub(crate) choice: CostedTree,
    pub(crate) plain: PlainServer,
}

impl SearchResult {
    /// Computes the rest of the plan, which the search did not need.
    pub(crate) fn into_plan(self, fabric: &Fabric<'_>, job: &JobRequest) -> Result<Plan, PlanError> {
        let Self { choice, plain } = self;
        let traffic = Traffic::on(&choice.used(job), fabric);
        let comparison = Comparison::of(fabric, job, &choice, &plain);
        let notes = notes::notes(fabric, job, &choice, &comparison);
        let stacks = stacks(&choice.tree, &choice.roles, fabric, job);
        let CostedTree { tree, downlink, .. } = choice;
        let plan = Plan::assemble(fabric, job, Parts { tree, stacks, downlink, traffic, comparison, notes });
        check::rules(&plan).map_err(PlanError::Internal)?;
        Ok(plan)
    }
}

/// Compares trees one after the other, and keeps the best.
pub(crate) struct Judge<'a> {
    fabric: &'a Fabric<'a>,
    job: &'a JobRequest,
    best: Option<CostedTree>,
    plain: Option<PlainServer>,
    /// The error of the first tree that was rejected.
    refusal: Option<PlanError>,
}

impl<'a> Judge<'a> {
    pub(crate) fn new(fabric: &'a Fabric<'a>, job: &'a JobRequest) -> Self {
        Self { fabric, job, best: None, plain: None, refusal: None }
    }

    /// Compares a tree with the best of the earlier trees.
    pub(crate) fn look_at(&mut self, tree: Tree) {
        let plain = PlainServer::on(&tree, self.fabric, self.job);
        if self.plain.as_ref().is_none_or(|best| plain.is_better_than(best)) {
            self.plain = Some(plain);
        }
        let choice = CostedTree::on(tree, self.fabric, self.job);
        if let Err(error) = choice.fits(self.fabric, self.job) {
            self.refusal.get_or_insert(error);
        } else if self.best.as_ref().is_none_or(|best| choice.cost.is_less_than(&best.cost)) {
            self.best = Some(choice);
        }
    }

    /// Returns true if the best tree takes at most `seconds` seconds.
    pub(crate) fn has_within(&self, seconds: f64) -> bool {
        self.best.as_ref().is_some_and(|best| best.cost.busiest <= seconds)
    }

    /// Returns the best tree, or the first error if no tree was accepted.
    pub(crate) fn found(self) -> Result<SearchResult, PlanError> {
        let Self { fabric, job, best, plain, refusal } = self;
        let found = best.zip(plain).map(|(choice, plain)| SearchResult { choice, plain });
        found.ok_or_else(|| refusal.unwrap_or_else(|| unreachable(fabric, job)))
    }
}

/// Finds the best tree.
pub(crate) fn search(terrain: &Terrain<'_>, job: &JobRequest) -> Result<SearchResult, PlanError> {
    search_on(terrain, Judge::new(terrain.fabric, job))
}

/// Finds the best tree, starting from the trees that `judge` has already compared.
pub(crate) fn search_on(terrain: &Terrain<'_>, mut judge: Judge<'_>) -> Result<SearchResult, PlanError> {
    if let Some(members) = Members::new(terrain.fabric, judge.job.hosts(), judge.job.server) {
        terrain.candidates(&members).for_each(|tree| judge.look_at(tree));
        if !judge.has_within(SLACK * terrain.least(&members)) {
            terrain.more_candidates(&members).for_each(|tree| judge.look_at(tree));
        }
        if judge.best.is_none() {
            let Judge { fabric, job, .. } = judge;
            plain::tree(fabric, &job.hosts(), job.server).into_iter().for_each(|tree| judge.look_at(tree));
        }
        improve(terrain, &members, &mut judge);
    }
    judge.found()
}

/// Leads the best tree around its busiest link, then the resulting tree around its busiest link, and so
/// on.
/// It continues even if the first detour does not help, because two detours may be needed.
fn improve(terrain: &Terrain<'_>, members: &Members<'_>, judge: &mut Judge<'_>) {
    let (fabric, job) = (terrain.fabric, judge.job);
    let Some(best) = &judge.best else { return };
    let mut kept = Links::of(fabric, best.tree.links());
    let mut busiest = best.used(job).busiest(fabric);
    let mut avoided = Links::none(fabric);
    for _ in 0..IMPROVEMENTS {
        // A host has only one link, so the tree cannot avoid it.
        let between = |link: LinkKey| fabric.topology[link].ends.iter().all(|end| !fabric.is_host(end.node));
        let Some(link) = busiest.map(|direction| direction.link).filter(|&link| between(link)) else {
            return;
        };
        avoided.add(link);
        let round = |link| !avoided.contain(link);
        let trees = terrain.edge_sets().filter_map(|edges| members.nearest_first(edges, &kept, round));
        let fitting = trees.filter(|tree| tree.fits_plain_switches(fabric));
        let mut next: Option<CostedTree> = None;
        for choice in fitting.map(|tree| CostedTree::on(tree, fabric, job)) {
            if next.as_ref().is_none_or(|best| choice.cost.is_less_than(&best.cost)) {
                next = Some(choice);
            }
        }
        let Some(next) = next else { return };
        kept = Links::of(fabric, next.tree.links());
        busiest = next.used(job).busiest(fabric);
        judge.look_at(next.tree);
    }
}

/// Returns true if a plan exists for the job. The job must be valid.
pub(crate) fn is_plannable(terrain: &Terrain<'_>, job: &JobRequest) -> bool {
    let fabric = terrain.fabric;
    let Some(members) = Members::new(fabric, job.hosts(), job.server) else { return false };
    let by_plain = once_with(|| plain::tree(fabric, &job.hosts(), job.server)).flatten();
    let mut all = terrain.candidates(&members).chain(terrain.more_candidates(&members)).chain(by_plain);
    all.any(|tree| CostedTree::on(tree, fabric, job).fits(fabric, job).is_ok())
}

/// Checks that the request is valid on this topology.
pub(crate) fn validate(topology: &Topology, job: &JobRequest) -> Result<(), PlanError> {
    check_workers(topology, job)?;
    check_host(topology, job.server)?;
    if job.workers.iter().any(|worker| worker.host == job.server) {
        check_turning(topology, job.server)?;
    }
    Ok(())
}

/// Checks that the request is valid on this topology, except for its server.
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

/// Checks that a worker on the server's host can work.
/// Its gradients must leave their first switch through the port at which they arrived, which only our program does.
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

/// Returns the error for a job without candidate trees, in which at least one worker cannot reach the
/// server.
///
/// If a link does not carry the job's slices, the error names the link.
fn unreachable(fabric: &Fabric<'_>, job: &JobRequest) -> PlanError {
    let way = |fabric: &Fabric<'_>, host| plain::way(fabric, host, job.server, &HashMap::new());
    let cut_off = job.workers.iter().find(|worker| way(fabric, worker.host).is_none());
    let Some(worker) = cut_off.or(job.workers.first()).map(|worker| worker.host) else {
        return PlanError::NoWorkers;
    };
    let narrowest = fabric.of_width(SliceWidth::NARROWEST);
    let links = way(&narrowest, worker).into_iter().flatten().map(|(_, via)| via.link);
    let mut links = links.map(|key| (key, &fabric.topology[key]));
    let obstacle = links.find(|(key, link)| !fits(link, job.width) || fabric.loses(*key, job.width));
    let (worker, server) = (fabric.name(worker), fabric.name(job.server));
    let Some((_, link)) = obstacle else { return PlanError::Unreachable { worker, server } };
    let (ends, mtu, width) = (link.ends.map(|end| fabric.name(end.node)), link.mtu, job.width);
    match fits(link, width) {
        false => PlanError::TooNarrow { worker, server, ends, mtu, width },
        true => PlanError::ShortOfMtu { worker, server, ends, mtu, width },
    }
}

#[cfg(test)]
mod tests {

    use std::collections::BTreeMap;

    use proptest::prelude::{Just, prop, prop_oneof};
    use proptest::strategy::{Strategy, ValueTree};
    use proptest::test_runner::TestRunner;
    use tributary_testkit::topologies::topologies;
    use tributary_topology::{FatTree, LinkDirection, Neighbour};

    use super::*;
    use crate::request::Aggregation;

    /// Returns every possible tree: each switch may continue through each of its links.
    fn all_trees(fabric: &Fabric<'_>, job: &JobRequest) -> Vec<Tree> {
        let edges: Vec<(NodeKey, Vec<Neighbour>)> =
            fabric.topology.nodes().map(|(key, _)| (key, fabric.neighbours(key).to_vec())).collect();
        let count: usize = edges.iter().map(|(_, edges)| edges.len().max(1)).product();
        let nth = |mut n: usize| {
            let mut parents = BTreeMap::new();
            for (key, edges) in &edges {
                if let Some(edge) = edges.get(n % edges.len().max(1)) {
                    parents.insert(*key, *edge);
                }
                n /= edges.len().max(1);
            }
            Tree::new(job.server, &job.hosts(), |node| parents.get(&node).copied())
        };
        let fits = |tree: &Tree| tree.fits_plain_switches(fabric);
        if count > 20_000 { Vec::new() } else { (0..count).filter_map(nth).filter(fits).collect() }
    }

    /// Returns true if the chosen tree is as good as the best of all trees; `None` if there are too many
    /// trees.
    fn is_optimal(topology: &Topology, aggregation: Aggregation, worker_serves: bool) -> Option<bool> {
        let state = FabricState::of(topology, 4096);
        let mut job = JobRequest { aggregation, ..JobRequest::of(topology, 64, 1 << 20)? };
        let fabric = Fabric::new(topology, &state, job.width);
        if worker_serves {
            job.server = job.workers.first()?.host;
        }
        let found = search(&Terrain::new(&fabric, &job), &job).ok()?.choice;
        let every = all_trees(&fabric, &job).into_iter().map(|tree| CostedTree::on(tree, &fabric, &job));
        let seconds = every.filter(|choice| choice.fits(&fabric, &job).is_ok()).map(|c| c.cost.busiest);
        let optimum = seconds.min_by(f64::total_cmp)?;
        assert!(found.cost.busiest >= optimum, "a tree that is not among all trees");
        Some(found.cost.busiest <= optimum * 1.0005)
    }

    #[test]
    fn the_choice_is_nearly_always_the_best_of_all_trees() {
        let mut runner = TestRunner::deterministic();
        let (mut judged, mut optimal) = (0, 0);
        while judged < 600 {
            let topology = topologies().new_tree(&mut runner).unwrap().current();
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

    /// Generates a fat tree in which many links are loaded and some switches have no slots.
    fn busy_fat_tree() -> impl Strategy<Value = (Topology, FabricState)> {
        let topology = Topology::parse(&FatTree::new(6, 30).unwrap().to_toml("1 Gbit/s"), "fat-tree.toml");
        let topology = topology.unwrap();
        let (links, switches) = (topology.links().count(), topology.switches().count());
        let load = prop_oneof![2 => Just(0u64), 1 => 0u64..900];
        let loads = prop::collection::vec([load.clone(), load], links);
        let is_full = prop::collection::vec(prop::bool::weighted(0.1), switches);
        (loads, is_full).prop_map(move |(loads, is_full)| {
            let mut state = FabricState::of(&topology, 4096);
            let between =
                |link: LinkKey| topology[link].ends.iter().all(|end| topology[end.node].switch().is_some());
            for ((link, _), loads) in topology.links().zip(loads).filter(|((link, _), _)| between(*link)) {
                for (sender, load) in loads.into_iter().enumerate() {
                    state.load.insert(LinkDirection { link, sender }, load * 1_000_000);
                }
            }
            for ((switch, ..), is_full) in topology.switches().zip(is_full) {
                let slots = if is_full { 0 } else { 4096 };
                state.free_slots.insert(switch, slots);
            }
            (topology.clone(), state)
        })
    }

    /// In a large fabric, the search skips some meeting points if the first ones give a nearly optimal
    /// tree.
    /// Its time may exceed the optimum only by the permitted slack.
    #[test]
    fn a_search_that_ends_early_is_nearly_as_good_as_one_that_does_not() {
        let mut runner = TestRunner::deterministic();
        for _ in 0..60 {
            let (topology, state) = busy_fat_tree().new_tree(&mut runner).unwrap().current();
            let job = JobRequest::of(&topology, 64, 1 << 20).unwrap();
            let fabric = Fabric::new(&topology, &state, job.width);
            let seconds = |first| {
                let terrain = Terrain::with(&fabric, &job, [first, usize::MAX]);
                search(&terrain, &job).map(|found| found.choice.cost.busiest).ok()
            };
            let (early, all) = (seconds(4), seconds(usize::MAX));
            assert!(early.zip(all).is_some_and(|(early, all)| early <= SLACK * all), "{early:?} {all:?}");
        }
    }
}
