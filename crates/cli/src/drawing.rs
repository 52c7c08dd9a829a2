//! Draws a job's tree with text characters.

use std::collections::HashMap;

use termtree::Tree;
use tributary_planner::{Plan, SwitchRole};
use tributary_topology::NodeKey;

/// Draws the tree from the server downwards, with the role of each node.
pub fn drawing(plan: &Plan) -> String {
    let server = &plan.server;
    let mut root = Tree::new(format!("{}  finishes {}", server.name, streams(server.fan_in.into())));
    let nodes = Nodes {
        switches: plan.switches.iter().map(|switch| (switch.key, switch)).collect(),
        ranks: plan.workers.iter().map(|worker| (worker.key, worker.rank)).collect(),
    };
    if let Some(top) = plan.switches.iter().find(|switch| switch.up.key == server.key) {
        root.push(nodes.branch(top));
    }
    root.to_string()
}

/// The nodes of the tree by key. A plan may have thousands of nodes, so the look-up must be fast.
struct Nodes<'a> {
    switches: HashMap<NodeKey, &'a SwitchRole>,
    ranks: HashMap<NodeKey, u16>,
}

impl Nodes<'_> {
    fn branch(&self, switch: &SwitchRole) -> Tree<String> {
        let leaves = switch.down.iter().map(|port| match self.switches.get(&port.key) {
            Some(below) => self.branch(below),
            None => {
                let rank = self.ranks.get(&port.key).copied().unwrap_or_default();
                Tree::new(format!("{}  rank {rank}", port.name))
            }
        });
        Tree::new(format!("{}  {}", switch.name, role(switch))).with_leaves(leaves)
    }
}

/// Describes a switch's role in words.
pub fn role(switch: &SwitchRole) -> String {
    match (switch.programmable, switch.aggregate) {
        (true, true) => format!("aggregates {}", switch.fan_in),
        (true, false) => "passes on".to_owned(),
        (false, _) => "plain switch".to_owned(),
    }
}

fn streams(count: usize) -> String {
    if count == 1 { "1 stream".to_owned() } else { format!("{count} streams") }
}
