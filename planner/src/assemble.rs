//! From the chosen tree to the plan.

use tributary_topology::{Neighbour, NodeKey};
use tributary_wire::Hop;

use crate::compare::Comparison;
use crate::fabric::Fabric;
use crate::plan::{Admission, Plan, ResultGroup, ServerRole, SwitchRole, TreePort, WorkerRoute};
use crate::request::{Downlink, JobRequest, Member};
use crate::roles::Merge;
use crate::search::Choice;

impl Plan {
    /// Writes the choice down for controller and members.
    pub(crate) fn assemble(
        fabric: &Fabric<'_>,
        job: &JobRequest,
        choice: Choice,
        comparison: Comparison,
        notes: Vec<String>,
    ) -> Self {
        let workers = job.workers.iter().zip(&choice.roles.stacks);
        let switches = choice.roles.merges.iter();
        Self {
            topology: fabric.topology.name().to_owned(),
            aggregation: job.aggregation,
            downlink: choice.downlink,
            window: job.window,
            gradient_bytes: job.gradient_bytes,
            workers: workers.map(|(&worker, stack)| route(fabric, &choice, worker, stack)).collect(),
            server: ServerRole {
                key: job.server,
                name: fabric.name(job.server),
                node: fabric.topology[job.server].id,
                fan_in: u8::try_from(choice.roles.server_fan_in).unwrap_or(u8::MAX),
            },
            switches: switches.filter_map(|(&switch, merge)| role(fabric, &choice, switch, merge)).collect(),
            traffic: choice.traffic,
            comparison,
            notes,
        }
    }
}

fn route(fabric: &Fabric<'_>, choice: &Choice, worker: Member, up: &[Hop]) -> WorkerRoute {
    let Member { rank, host } = worker;
    let path = choice.tree.path(host);
    let mut down = Vec::new();
    for pair in path.windows(2).rev() {
        let [below, node] = [pair[0], pair[1]];
        let id = fabric.topology[node].id;
        let way_down = choice.tree.parent(below).filter(|_| fabric.is_programmable(node));
        let entry = way_down.and_then(|via| Some((via.remote_port, up.iter().find(|hop| hop.node == id)?)));
        down.extend(entry.map(|(egress_port, hop)| Hop { egress_port, ..*hop }));
    }
    WorkerRoute { key: host, name: fabric.name(host), rank, path, up: up.to_vec(), down }
}

fn role(fabric: &Fabric<'_>, choice: &Choice, switch: NodeKey, merge: &Merge) -> Option<SwitchRole> {
    let port = |via: &Neighbour| TreePort {
        port: via.port,
        link: via.link,
        key: via.node,
        name: fabric.name(via.node),
    };
    let up = port(&choice.tree.parent(switch)?);
    let down: Vec<_> = choice.tree.children(switch).iter().map(port).collect();
    let programmable = fabric.is_programmable(switch);
    let ports_down = || down.iter().map(|to| to.port).collect::<Vec<_>>();
    let mut egress_ports = Vec::new();
    let mut result_group = None;
    let mut admissions = Vec::new();
    if programmable {
        egress_ports = ports_down();
        egress_ports.push(up.port);
        egress_ports.sort_unstable();
        result_group = (choice.downlink == Downlink::Multicast)
            .then(|| ResultGroup { ports: ports_down(), release: merge.aggregate });
        admissions = admission(&up, &down, merge);
    }
    let node = &fabric.topology[switch];
    Some(SwitchRole {
        key: switch,
        name: node.name.clone(),
        node: node.id,
        programmable,
        aggregate: merge.aggregate,
        fan_in: merge.fan_in,
        up,
        down,
        admission: admissions,
        egress_ports,
        result_group,
    })
}

/// GRADIENT comes from below, by each port only what is sent there; RESULT comes from above, and for any
/// child. The ports of a tree's node differ, so that no port is both.
fn admission(up: &TreePort, down: &[TreePort], merge: &Merge) -> Vec<Admission> {
    let entry = |port, children, gradient| Admission {
        ingress_port: port,
        children,
        gradient,
        result: !gradient,
        aggregate: merge.aggregate,
        fan_in: merge.fan_in,
    };
    let below = down.iter().zip(&merge.children_by_port);
    let all = merge.children_by_port.iter().fold(0, |all, children| all | children);
    let mut entries: Vec<_> = below.map(|(from, &children)| entry(from.port, children, true)).collect();
    entries.push(entry(up.port, all, false));
    entries.sort_unstable_by_key(|entry| entry.ingress_port);
    entries
}
