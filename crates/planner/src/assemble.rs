//! Assembles a plan from a tree and its hop stacks, from which every port and table entry follows.

use std::collections::BTreeMap;

use tributary_topology::{Neighbour, NodeKey};
use tributary_wire::{Downlink, Hop};

use crate::compare::Comparison;
use crate::fabric::Fabric;
use crate::plan::{Admission, Plan, ResultGroup, Sender, ServerRole, SwitchRole, TreePort, WorkerRoute};
use crate::request::{JobRequest, Member};
use crate::traffic::Traffic;
use crate::tree::Tree;

/// The parts of a plan.
pub(crate) struct Parts {
    pub(crate) tree: Tree,
    /// The hop stack of each worker for GRADIENT, in the request's order.
    pub(crate) stacks: Vec<Vec<Hop>>,
    /// The delivery of results on this tree.
    pub(crate) downlink: Downlink,
    pub(crate) traffic: Traffic,
    pub(crate) comparison: Comparison,
    pub(crate) notes: Vec<String>,
}

impl Plan {
    /// Collects everything that the controller and the members need.
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
            width: job.width,
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

/// The hop entries for one switch, and the workers whose packets pass it.
#[derive(Default)]
struct Usage {
    /// The `aggregate` flag of the hop entries for the switch; `fan_in` is the number of children for which
    /// it waits.
    aggregate: bool,
    fan_in: u8,
    /// For each port at which gradients arrive, the workers that send them.
    workers: BTreeMap<u16, BTreeMap<NodeKey, Below>>,
}

/// Workers whose gradients arrive at one port.
#[derive(Clone, Copy)]
struct Below {
    /// The children that contain these workers, as a bit mask: bit n for child n.
    children: u64,
    /// The rank of the worker, if there is only one.
    rank: Option<u16>,
}

impl Below {
    /// Combines workers; `None` without workers.
    fn all<'a>(workers: impl Iterator<Item = &'a Self>) -> Option<Self> {
        workers.copied().reduce(|one, other| Self { children: one.children | other.children, rank: None })
    }
}

/// Collects the entries of the hop stacks for each switch of the tree.
fn uses(fabric: &Fabric<'_>, job: &JobRequest, tree: &Tree, stacks: &[Vec<Hop>]) -> BTreeMap<NodeKey, Usage> {
    let mut uses: BTreeMap<NodeKey, Usage> = BTreeMap::new();
    for (worker, stack) in job.workers.iter().zip(stacks) {
        for steps in tree.way(worker.host).windows(2) {
            let [(_, below), (switch, _)] = [steps[0], steps[1]];
            let usage = uses.entry(switch).or_default();
            let at_port = usage.workers.entry(below.remote_port).or_default();
            let id = fabric.topology[switch].id;
            let Some(hop) = stack.iter().find(|hop| hop.node == id) else { continue };
            let children = 1u64.checked_shl(hop.child.into()).unwrap_or_default();
            at_port.insert(worker.host, Below { children, rank: Some(worker.rank) });
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
            let ports: BTreeMap<_, _> =
                role.down.iter().chain([&role.up]).map(|to| (to.port, fabric.is_plain(to.key))).collect();
            for (&port, &is_shared) in &ports {
                role.admission.extend(match is_shared {
                    true => self.admission_by_sender(fabric, tree.server, port, role.up.port),
                    false => vec![self.admission(port, role.up.port)],
                });
            }
            role.egress_ports = ports.into_keys().collect();
            role.result_group = (downlink == Downlink::Multicast)
                .then_some(ResultGroup { ports: ports_down, release: self.aggregate });
        }
        Some(role)
    }

    /// Returns the admission entry of a port.
    /// From below it admits GRADIENT, but only of workers that send through the port. From above it admits RESULT, for
    /// any child. If the server's host is a worker, one port does both.
    fn admission(&self, port: u16, up: u16) -> Admission {
        let below = self.workers.get(&port).and_then(|workers| Below::all(workers.values()));
        self.admitted(port, None, below, port == up)
    }

    /// Returns the admission entries of a port that several hosts share: one for each sender.
    /// A worker may send only as its own child, and only the server may send RESULT.
    fn admission_by_sender(
        &self,
        fabric: &Fabric<'_>,
        server: NodeKey,
        port: u16,
        up: u16,
    ) -> Vec<Admission> {
        let workers = self.workers.get(&port).into_iter().flatten();
        let mut senders: BTreeMap<_, _> = workers.map(|(&host, &below)| (host, Some(below))).collect();
        if port == up {
            senders.entry(server).or_default();
        }
        let admitted = |(key, below)| {
            let sender = Sender { key, name: fabric.name(key) };
            self.admitted(port, Some(sender), below, port == up && key == server)
        };
        senders.into_iter().map(admitted).collect()
    }

    /// Makes an admission entry.
    /// `below` names the workers whose gradients the switch admits at this port; `None` admits none.
    fn admitted(
        &self,
        ingress_port: u16,
        sender: Option<Sender>,
        below: Option<Below>,
        result: bool,
    ) -> Admission {
        let anyone = || Below::all(self.workers.values().flat_map(BTreeMap::values));
        Admission {
            ingress_port,
            sender,
            children: below.or_else(anyone).map_or(0, |below| below.children),
            rank: below.and_then(|below| below.rank),
            gradient: below.is_some(),
            result,
            aggregate: self.aggregate,
            fan_in: self.fan_in,
        }
    }
}
