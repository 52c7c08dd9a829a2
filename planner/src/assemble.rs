//! From a tree and its hop stacks to the plan: every port and table entry follows from these.

use std::collections::{BTreeMap, BTreeSet};

use tributary_topology::{Neighbour, NodeKey};
use tributary_wire::Hop;

use crate::compare::Comparison;
use crate::fabric::Fabric;
use crate::plan::{Admission, Plan, ResultGroup, ServerRole, SwitchRole, TreePort, WorkerRoute};
use crate::request::{Downlink, JobRequest, Member};
use crate::traffic::Traffic;
use crate::tree::Tree;

/// What a plan is made of.
pub(crate) struct Parts {
    pub(crate) tree: Tree,
    /// The hop stack of each worker for GRADIENT, in the request's order.
    pub(crate) stacks: Vec<Vec<Hop>>,
    /// How results travel on this tree.
    pub(crate) downlink: Downlink,
    pub(crate) traffic: Traffic,
    pub(crate) comparison: Comparison,
    pub(crate) notes: Vec<String>,
}

impl Plan {
    /// Writes everything down for controller and members.
    pub(crate) fn assemble(fabric: &Fabric<'_>, job: &JobRequest, parts: Parts) -> Self {
        let Parts { tree, stacks, downlink, traffic, comparison, notes } = parts;
        let server_entry = stacks.first().and_then(|stack| stack.last());
        let fan_in = server_entry.map_or(0, |entry| entry.fan_in);
        let uses = uses(fabric, job, &tree, &stacks);
        let switch = |(&key, usage): (&NodeKey, &Usage)| usage.role(fabric, &tree, key, downlink);
        Self {
            topology: fabric.topology.name().to_owned(),
            aggregation: job.aggregation,
            downlink,
            window: job.window,
            gradient_bytes: job.gradient_bytes,
            switches: uses.iter().filter_map(switch).collect(),
            workers: job.workers.iter().zip(stacks).map(|(&one, up)| route(fabric, &tree, one, up)).collect(),
            server: ServerRole {
                key: job.server,
                name: fabric.name(job.server),
                node: fabric.topology[job.server].id,
                fan_in,
            },
            traffic,
            comparison,
            notes,
        }
    }
}

fn route(fabric: &Fabric<'_>, tree: &Tree, worker: Member, up: Vec<Hop>) -> WorkerRoute {
    let Member { rank, host } = worker;
    let mut down = Vec::new();
    for steps in tree.way(host).windows(2).rev() {
        let [(_, below), (switch, _)] = [steps[0], steps[1]];
        let entry = up.iter().find(|hop| hop.node == fabric.topology[switch].id);
        down.extend(entry.map(|hop| Hop { egress_port: below.remote_port, ..*hop }));
    }
    WorkerRoute { key: host, name: fabric.name(host), rank, path: tree.path(host), up, down }
}

/// How the workers' packets use one switch.
#[derive(Default)]
struct Usage {
    /// What hop entries say there: whether it aggregates, and how many children it waits for.
    aggregate: bool,
    fan_in: u8,
    /// For each port that gradients come in by, the children that they may come from: bit n for child n.
    children: BTreeMap<u16, u64>,
}

/// How the hop stacks use each switch of the tree.
fn uses(fabric: &Fabric<'_>, job: &JobRequest, tree: &Tree, stacks: &[Vec<Hop>]) -> BTreeMap<NodeKey, Usage> {
    let mut uses: BTreeMap<NodeKey, Usage> = BTreeMap::new();
    for (worker, stack) in job.workers.iter().zip(stacks) {
        for steps in tree.way(worker.host).windows(2) {
            let [(_, below), (switch, _)] = [steps[0], steps[1]];
            let usage = uses.entry(switch).or_default();
            let children = usage.children.entry(below.remote_port).or_default();
            let id = fabric.topology[switch].id;
            let Some(hop) = stack.iter().find(|hop| hop.node == id) else { continue };
            *children |= 1u64.checked_shl(hop.child.into()).unwrap_or_default();
            (usage.aggregate, usage.fan_in) = (hop.aggregate, hop.fan_in);
        }
    }
    uses
}

impl Usage {
    fn role(
        &self,
        fabric: &Fabric<'_>,
        tree: &Tree,
        switch: NodeKey,
        downlink: Downlink,
    ) -> Option<SwitchRole> {
        let tree_port = |via: &Neighbour| TreePort {
            port: via.port,
            link: via.link,
            key: via.node,
            name: fabric.name(via.node),
        };
        let up = tree_port(&tree.parent(switch)?);
        let down: Vec<_> = tree.children(switch).iter().map(tree_port).collect();
        let ports_down: Vec<_> = down.iter().map(|to| to.port).collect();
        let mut role = SwitchRole {
            key: switch,
            name: fabric.name(switch),
            node: fabric.topology[switch].id,
            programmable: fabric.is_programmable(switch),
            aggregate: self.aggregate,
            fan_in: self.fan_in,
            up,
            down,
            admission: Vec::new(),
            egress_ports: Vec::new(),
            result_group: None,
        };
        if role.programmable {
            let ports: BTreeSet<_> = ports_down.iter().copied().chain([role.up.port]).collect();
            role.admission = ports.iter().map(|&port| self.admission(port, role.up.port)).collect();
            role.egress_ports = ports.into_iter().collect();
            role.result_group = (downlink == Downlink::Multicast)
                .then_some(ResultGroup { ports: ports_down, release: self.aggregate });
        }
        Some(role)
    }

    /// GRADIENT comes from below, by each port only what is sent there; RESULT comes from above, and for any
    /// child. One port is both where the server's host is a worker.
    fn admission(&self, port: u16, up: u16) -> Admission {
        let all = self.children.values().fold(0, |all, children| all | children);
        let from_below = self.children.get(&port).copied();
        Admission {
            ingress_port: port,
            children: from_below.unwrap_or(all),
            gradient: from_below.is_some(),
            result: port == up,
            aggregate: self.aggregate,
            fan_in: self.fan_in,
        }
    }
}
