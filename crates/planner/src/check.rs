//! Checks the rules that a plan must keep, independent of the code that made the plan.

use std::collections::{BTreeMap, HashSet};

use tributary_wire::constants::{MAX_CHILDREN, MAX_HOPS};
use tributary_wire::{Downlink, Hop, NodeId};

use crate::plan::Plan;

/// Checks the plan against sections 3 and 4 of `docs/specification.md`.
/// An error names the broken rule and the place.
pub(crate) fn rules(plan: &Plan) -> Result<(), String> {
    let mut nodes: BTreeMap<NodeId, Node<'_>> = BTreeMap::new();
    for worker in &plan.workers {
        let stack = &worker.up;
        let told = |why| format!("{}: {why}", worker.name);
        depth(stack, plan).map_err(told)?;
        reversed(stack, &worker.down).map_err(told)?;
        let mut stream = Stream::Worker(worker.rank);
        for (n, hop) in stack.iter().enumerate() {
            let behind = &stack[n + 1..];
            let node = nodes.entry(hop.node).or_insert_with(|| Node::new(hop, behind));
            stream = node.pass(hop, behind, stream)?;
        }
    }
    nodes.values().try_for_each(Node::is_complete)?;
    match plan.switches.iter().find(|switch| !switch.programmable) {
        Some(plain) if plan.downlink == Downlink::Multicast => {
            Err(format!("{} does not run our program and cannot multicast results", plain.name))
        }
        _ => Ok(()),
    }
}

/// Gradients that travel as one packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stream {
    /// The gradients of one worker.
    Worker(u16),
    /// The sum that a node has aggregated.
    Sum(NodeId),
}

/// The values of one node on which the hop stacks of all workers must agree.
struct Node<'a> {
    first: &'a Hop,
    /// The stack's entries after the node.
    behind: &'a [Hop],
    /// The stream of each child.
    children: BTreeMap<u8, Stream>,
}

impl<'a> Node<'a> {
    fn new(first: &'a Hop, behind: &'a [Hop]) -> Self {
        Self { first, behind, children: BTreeMap::new() }
    }

    /// Checks another entry for the node, and returns the stream that leaves the node.
    fn pass(&mut self, hop: &Hop, behind: &[Hop], stream: Stream) -> Result<Stream, String> {
        let (first, node) = (self.first, hop.node);
        if first.fan_in != hop.fan_in {
            return Err(format!(
                "node {node} must wait for {} and for {} children",
                first.fan_in, hop.fan_in
            ));
        }
        if (first.aggregate, first.egress_port) != (hop.aggregate, hop.egress_port) {
            return Err(format!("two stacks let node {node} do different things"));
        }
        if !hop.aggregate {
            return match (hop.child, hop.fan_in) {
                (0, 0) => Ok(stream),
                (child, fan_in) => {
                    Err(format!("child {child} of {fan_in} at node {node}, which does not aggregate"))
                }
            };
        }
        if self.behind != behind {
            return Err(format!("stacks that merge at node {node} differ behind it"));
        }
        if *self.children.entry(hop.child).or_insert(stream) != stream {
            return Err(format!("two streams are child {} of node {node}", hop.child));
        }
        Ok(Stream::Sum(node))
    }

    /// Checks that exactly the children for which the node waits arrive at it.
    fn is_complete(&self) -> Result<(), String> {
        let Hop { node, fan_in, aggregate, .. } = *self.first;
        let all = self.children.keys().copied().eq(0..fan_in);
        if aggregate && (!all || usize::from(fan_in) > MAX_CHILDREN) {
            let seen: Vec<_> = self.children.keys().collect();
            return Err(format!("node {node} waits for {fan_in} children and gets {seen:?}"));
        }
        Ok(())
    }
}

/// Checks that a path visits each switch once, ends at the server, and fits in a packet.
fn depth(stack: &[Hop], plan: &Plan) -> Result<(), String> {
    let mut seen = HashSet::new();
    if let Some(twice) = stack.iter().find(|hop| !seen.insert(hop.node)) {
        return Err(format!("two hops share node {}", twice.node));
    }
    match stack.last() {
        Some(last) if last.node != plan.server.node || !last.aggregate => {
            Err(format!("the last entry is for node {}, not the server", last.node))
        }
        Some(last) if last.fan_in != plan.server.fan_in => Err("the server's fan-in differs".to_owned()),
        Some(_) if stack.len() > usize::from(MAX_HOPS) => Err(format!("{} entries", stack.len())),
        Some(_) => Ok(()),
        None => Err("an empty stack".to_owned()),
    }
}

/// Checks that the path down visits the same switches in reverse order.
/// It must release the slots of exactly the switches that aggregate on the path up.
fn reversed(up: &[Hop], down: &[Hop]) -> Result<(), String> {
    let role = |hop: &Hop| (hop.node, hop.aggregate);
    let switches = up.split_last().map_or(&[][..], |(_, switches)| switches);
    match switches.iter().rev().map(role).eq(down.iter().map(role)) {
        true => Ok(()),
        false => Err("the way back is not the way up reversed".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{FabricState, JobRequest, plan};
    use tributary_topology::Topology;

    /// Makes a plan of four workers below two leaf switches below a root.
    fn good() -> Plan {
        let mut text = "name = 'four'\ndefaults = { rate = '1 Gbit/s' }\n".to_owned();
        text += "switch = [{ name = 's' }, { name = 'l0' }, { name = 'l1' }]\nhost = [\n";
        text += "{ name = 'ps', role = 'server' },\n";
        text.extend((0..4).map(|n| format!("{{ name = 'w{n}', role = 'worker' }},\n")));
        text += "]\nlink = [{ ends = ['s', 'ps'] }, { ends = ['s', 'l0'] }, { ends = ['s', 'l1'] },\n";
        text.extend((0..4).map(|n| format!("{{ ends = ['l{}', 'w{n}'] }},\n", n / 2)));
        let topology = Topology::parse(&(text + "]\n"), "four.toml").unwrap();
        let job = JobRequest::of(&topology, 64, 1024).unwrap();
        plan(&topology, &FabricState::of(&topology, 4096), &job).unwrap()
    }

    #[track_caller]
    fn broken(told: &str, damage: impl FnOnce(&mut Plan)) {
        let mut plan = good();
        damage(&mut plan);
        let why = rules(&plan).unwrap_err();
        assert!(why.contains(told), "{why:?} does not tell {told:?}");
    }

    #[test]
    fn every_rule_is_checked() {
        assert_eq!(rules(&good()), Ok(()));
        broken("differ behind it", |plan| plan.workers[1].up[1].egress_port = 9);
        broken("waits for 2 children", |plan| plan.workers[1].up[0].child = 2);
        broken("two streams are child 0", |plan| plan.workers[1].up[0].child = 0);
        broken("must wait for 2 and for 3", |plan| plan.workers[1].up[0].fan_in = 3);
        broken("two hops share node", |plan| plan.workers[0].up[1].node = plan.workers[0].up[0].node);
        broken("not the server", |plan| plan.workers[0].up.truncate(2));
        broken("server's fan-in", |plan| plan.server.fan_in = 2);
        broken("w2: an empty stack", |plan| plan.workers[2].up.clear());
        broken("w3: the way back", |plan| plan.workers[3].down.reverse());
        broken("w3: the way back", |plan| plan.workers[3].down[0].aggregate = false);
        broken("different things", |plan| plan.workers[2].up[0].egress_port = 9);
        broken("which does not aggregate", |plan| {
            for worker in &mut plan.workers {
                worker.up[1].aggregate = false;
                worker.down[0].aggregate = false;
            }
        });
        broken("l0 does not run our program", |plan| plan.switches[1].programmable = false);
    }
}
