//! The tree as a drawing of characters.

use termtree::Tree;
use tributary_planner::{Plan, SwitchRole};

/// Draws the tree from the server down, with what each node does.
pub fn drawing(plan: &Plan) -> String {
    let server = &plan.server;
    let mut root = Tree::new(format!("{}  finishes {}", server.name, streams(server.fan_in.into())));
    if let Some(top) = plan.switches.iter().find(|switch| switch.up.key == server.key) {
        root.push(branch(plan, top));
    }
    root.to_string()
}

fn branch(plan: &Plan, switch: &SwitchRole) -> Tree<String> {
    let leaves = switch.down.iter().map(|port| {
        if let Some(below) = plan.switches.iter().find(|other| other.key == port.key) {
            return branch(plan, below);
        }
        let rank = plan.workers.iter().find(|worker| worker.key == port.key).map(|worker| worker.rank);
        Tree::new(format!("{}  rank {}", port.name, rank.unwrap_or_default()))
    });
    Tree::new(format!("{}  {}", switch.name, role(switch))).with_leaves(leaves)
}

/// What a switch does, in words.
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
