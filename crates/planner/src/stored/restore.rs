//! Restores a plan from disk. The data comes from outside, so everything is checked.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use tributary_topology::{LinkDirection, Neighbour, NodeKey, Topology};
use tributary_wire::{Hop, SliceWidth};

use super::{StoredCost, StoredLink, StoredPlan, StoredPlanError, StoredWorker};
use crate::assemble::Parts;
use crate::check;
use crate::compare::Comparison;
use crate::fabric::{Fabric, FabricState};
use crate::plan::Plan;
use crate::request::{JobRequest, Member};
use crate::roles::Roles;
use crate::search::validate;
use crate::traffic::{Frames, Traffic, Use};
use crate::tree::Tree;

impl StoredPlan {
    /// Restores the plan on a topology that still has all nodes and links that the plan uses.
    ///
    /// The caller can use [`Plan::works`] to check that they are alive, and that plain switches forward along the plan.
    ///
    /// # Errors
    /// [`StoredPlanError`] if the topology lacks a part of the plan, or if the plan itself is wrong.
    pub fn into_plan(self, topology: &Topology) -> Result<Plan, StoredPlanError> {
        let job = self.job(topology)?;
        validate(topology, &job).map_err(StoredPlanError::Job)?;
        let (tree, load) = self.tree(topology, &job)?;
        let state = FabricState { load, ..FabricState::default() };
        let fabric = Fabric::new(topology, &state, job.width);
        let stacks = self.stacks(&fabric, &job, &tree)?;
        let adding: BTreeSet<_> =
            stacks.iter().flatten().filter(|hop| hop.aggregate).map(|hop| hop.node).collect();
        let roles = Roles::given(&tree, &fabric, |branch| adding.contains(&topology[branch.switch].id));
        let (downlink, frames) = (self.downlink, Frames::of(&job));
        let traffic = Traffic::on(&Use { tree: &tree, roles: &roles, downlink, frames }, &fabric);
        let comparison = Comparison::with(traffic.seconds, cost(&self.ring)?, cost(&self.parameter_server)?);
        let parts = Parts { tree, stacks, downlink: self.downlink, traffic, comparison, notes: self.notes };
        let plan = Plan::assemble(&fabric, &job, parts);
        check::rules(&plan).map_err(StoredPlanError::Damaged)?;
        Ok(plan)
    }

    fn job(&self, topology: &Topology) -> Result<JobRequest, StoredPlanError> {
        let member =
            |worker: &StoredWorker| Ok(Member { rank: worker.rank, host: find(topology, &worker.host)? });
        Ok(JobRequest {
            workers: self.workers.iter().map(member).collect::<Result<_, _>>()?,
            server: find(topology, &self.server)?,
            aggregation: self.aggregation,
            downlink: self.downlink,
            width: SliceWidth::from_values(self.values_per_slice)
                .ok_or_else(|| damaged(format!("slices of {} values", self.values_per_slice)))?,
            window: self.window,
            gradient_bytes: self.gradient_bytes,
        })
    }

    /// Returns the tree that the links form, and their loads.
    fn tree(
        &self,
        topology: &Topology,
        job: &JobRequest,
    ) -> Result<(Tree, HashMap<LinkDirection, u64>), StoredPlanError> {
        let mut parents = BTreeMap::new();
        let mut load = HashMap::new();
        for link in &self.links {
            let (from, up) = link.find(topology)?;
            if parents.insert(from, up).is_some() {
                return Err(damaged(format!("two ways lead on from {:?}", link.from)));
            }
            if up.node == job.server {
                // If the server's host is a worker, its own path begins with this step.
                let back =
                    Neighbour { port: up.remote_port, link: up.link, node: from, remote_port: up.port };
                parents.insert(job.server, back);
            }
            for (sender, load_of) in [from, up.node].into_iter().zip(link.load) {
                load.extend(topology.direction(up.link, sender).map(|direction| (direction, load_of)));
            }
        }
        let tree = Tree::new(job.server, &job.hosts(), |node| parents.get(&node).copied())
            .ok_or_else(|| damaged("its links do not lead every worker to the server"))?;
        match tree.links().len() == self.links.len() {
            true => Ok((tree, load)),
            false => Err(damaged("it has links that no worker needs")),
        }
    }

    /// Returns the hop stacks, after checking that they fit each worker's path.
    fn stacks(
        &self,
        fabric: &Fabric<'_>,
        job: &JobRequest,
        tree: &Tree,
    ) -> Result<Vec<Vec<Hop>>, StoredPlanError> {
        let mut stacks = Vec::new();
        for (worker, member) in self.workers.iter().zip(&job.workers) {
            let stack: Option<Vec<Hop>> = worker.up.iter().map(|entry| entry.hop()).collect();
            let stack = stack.ok_or_else(|| damaged(format!("a hop of {:?} is for node 0", worker.host)))?;
            if let Some(node) = misfit(fabric, tree, member.host, &stack) {
                return Err(StoredPlanError::HopStack {
                    worker: worker.host.clone(),
                    node: fabric.name(node),
                });
            }
            stacks.push(stack);
        }
        Ok(stacks)
    }
}

impl StoredLink {
    /// Finds the link in the topology: the node at its lower end, and the neighbour there.
    fn find(&self, topology: &Topology) -> Result<(NodeKey, Neighbour), StoredPlanError> {
        let [from, to] = [find(topology, &self.from)?, find(topology, &self.to)?];
        let near = topology.neighbour(from, self.from_port);
        if let Some(near) = near.filter(|near| near.node == to && near.remote_port == self.to_port) {
            return Ok((from, near));
        }
        let now = match near {
            None => "there is no link at that port".to_owned(),
            Some(near) => {
                format!("that port leads to {:?} port {}", topology[near.node].name, near.remote_port)
            }
        };
        let (from, to) = (self.from.clone(), self.to.clone());
        Err(StoredPlanError::NoLink { from, from_port: self.from_port, to, to_port: self.to_port, now })
    }
}

/// Returns the first node on a worker's path that its stack does not fit.
/// Each programmable switch must have one entry, which names the port through which the path continues. Plain switches
/// must have none. The last entry must be the server's.
fn misfit(fabric: &Fabric<'_>, tree: &Tree, worker: NodeKey, stack: &[Hop]) -> Option<NodeKey> {
    let mut hops = stack.iter().peekable();
    for (switch, up) in tree.way(worker).into_iter().skip(1) {
        let entry = hops.next_if(|hop| hop.node == fabric.topology[switch].id);
        let fits = match entry {
            Some(hop) => fabric.is_programmable(switch) && hop.egress_port == up.port,
            None => !fabric.is_programmable(switch),
        };
        if !fits {
            return Some(switch);
        }
    }
    let entry = hops.next();
    let is_server = entry.is_some_and(|hop| hop.node == fabric.topology[tree.server].id);
    (!is_server || hops.next().is_some()).then_some(tree.server)
}

fn find(topology: &Topology, name: &str) -> Result<NodeKey, StoredPlanError> {
    topology.find(name).ok_or_else(|| StoredPlanError::NoNode(name.to_owned()))
}

fn cost(stored: &StoredCost) -> Result<(u64, f64), StoredPlanError> {
    let seconds = f64::from_bits(stored.seconds);
    match seconds.is_finite() && seconds >= 0.0 {
        true => Ok((stored.bytes, seconds)),
        false => Err(damaged(format!("a time of {seconds} seconds"))),
    }
}

fn damaged(why: impl Into<String>) -> StoredPlanError {
    StoredPlanError::Damaged(why.into())
}
