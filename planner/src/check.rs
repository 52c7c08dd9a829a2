//! The rules that a plan must keep, checked on what comes out rather than on how it was made.

use std::collections::{BTreeMap, HashSet};

use tributary_wire::constants::{MAX_CHILDREN, MAX_HOPS};
use tributary_wire::{Hop, NodeId};

use crate::plan::Plan;

/// Checks the plan against DESIGN.md sections 2 to 4; an error says which rule it breaks and where.
pub(crate) fn rules(plan: &Plan) -> Result<(), String> {
    let mut after_merge: BTreeMap<NodeId, &[Hop]> = BTreeMap::new();
    let mut children: BTreeMap<NodeId, (u8, HashSet<u8>)> = BTreeMap::new();
    for worker in &plan.workers {
        let stack = &worker.up;
        depth(stack, plan).map_err(|why| format!("{}: {why}", worker.name))?;
        for (n, hop) in stack.iter().enumerate().filter(|(_, hop)| hop.aggregate) {
            let rest = &stack[n + 1..];
            if *after_merge.entry(hop.node).or_insert(rest) != rest {
                return Err(format!("stacks that merge at node {} differ behind it", hop.node));
            }
            let (fan_in, seen) = children.entry(hop.node).or_insert((hop.fan_in, HashSet::new()));
            if *fan_in != hop.fan_in {
                return Err(format!("node {} is to wait for {fan_in} and for {}", hop.node, hop.fan_in));
            }
            seen.insert(hop.child);
        }
        reversed(stack, &worker.down).map_err(|why| format!("{}: {why}", worker.name))?;
    }
    for (node, (fan_in, seen)) in children {
        let all: HashSet<u8> = (0..fan_in).collect();
        if seen != all || usize::from(fan_in) > MAX_CHILDREN {
            return Err(format!("node {node} waits for {fan_in} children and gets {seen:?}"));
        }
    }
    Ok(())
}

/// One way visits a switch once, ends at the server and fits a packet.
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

/// The way back visits the same switches in reverse order and releases where the way up adds up.
fn reversed(up: &[Hop], down: &[Hop]) -> Result<(), String> {
    let role = |hop: &Hop| (hop.node, hop.aggregate);
    let switches = up.split_last().map_or(&[][..], |(_, switches)| switches);
    match switches.iter().rev().map(role).eq(down.iter().map(role)) {
        true => Ok(()),
        false => Err("the way back is not the way up reversed".to_owned()),
    }
}
