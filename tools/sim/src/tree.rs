//! The trees of simulations.

use std::ops::Range;

use tributary_wire::{Hop, NodeId, Rank};

/// A tree of switches that all aggregate, with the server above the first of them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Tree {
    /// For each switch, the switch above it; `None` for the first, which is linked to the server. Parents
    /// come first.
    parents: Vec<Option<usize>>,
    /// For each rank, the switch that the worker is linked to.
    homes: Vec<usize>,
}

/// A child of a switch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Child {
    Switch(usize),
    Worker(usize),
}

impl Tree {
    /// A regular tree: one root, `fan_outs[0]` switches below it, `fan_outs[1]` below each of these and so
    /// on; the last number is that of workers below each of the lowest switches.
    pub fn regular(fan_outs: &[usize]) -> Self {
        let mut parents = vec![None];
        let (workers, tiers) = fan_outs.split_last().unwrap_or((&1, &[]));
        let mut tier: Range<usize> = 0..1;
        for &fan_out in tiers {
            let first = parents.len();
            parents.extend(tier.flat_map(|parent| std::iter::repeat_n(Some(parent), fan_out)));
            tier = first..parents.len();
        }
        let homes = tier.flat_map(|leaf| std::iter::repeat_n(leaf, *workers)).collect();
        Self { parents, homes }
    }

    /// 8 workers under 4 leaves under 2 middle switches under the root: 15 links, including the server's.
    pub fn three_tier_8() -> Self {
        Self::regular(&[2, 2, 2])
    }

    /// Number of workers.
    pub fn workers(&self) -> usize {
        self.homes.len()
    }

    /// Number of switches.
    pub fn switches(&self) -> usize {
        self.parents.len()
    }

    /// The switch above a switch.
    pub(crate) fn parent(&self, switch: usize) -> Option<usize> {
        self.parents.get(switch).copied().flatten()
    }

    /// The switch that a worker is linked to.
    pub(crate) fn home(&self, worker: usize) -> usize {
        self.homes.get(worker).copied().unwrap_or(0)
    }

    /// The children of a switch, in the order of the child numbers.
    pub(crate) fn children(&self, switch: usize) -> Vec<Child> {
        let switches = self.parents.iter().enumerate().filter(|&(_, &parent)| parent == Some(switch));
        let workers = self.homes.iter().enumerate().filter(|&(_, &home)| home == switch);
        switches
            .map(|(at, _)| Child::Switch(at))
            .chain(workers.map(|(rank, _)| Child::Worker(rank)))
            .collect()
    }

    /// The switches from a worker up to the server.
    pub(crate) fn path(&self, worker: usize) -> Vec<usize> {
        std::iter::successors(Some(self.home(worker)), |&switch| self.parent(switch)).collect()
    }

    /// A worker's hop stack, the server's entry last.
    pub(crate) fn stack(&self, worker: usize) -> Vec<Hop> {
        let mut below = Child::Worker(worker);
        let mut stack = Vec::new();
        for switch in self.path(worker) {
            let children = self.children(switch);
            let child = children.iter().position(|&child| child == below).unwrap_or(0);
            stack.extend(entry(switch, child, children.len()));
            below = Child::Switch(switch);
        }
        stack.extend(entry(self.switches(), 0, 1));
        stack
    }

    pub(crate) fn ranks(&self) -> Vec<Rank> {
        (0..self.workers() as u16).map(Rank::new).collect()
    }
}

fn entry(node: usize, child: usize, fan_in: usize) -> Option<Hop> {
    let node = NodeId::new(node as u16 + 1)?;
    Some(Hop { node, egress_port: 0, aggregate: true, child: child as u8, fan_in: fan_in as u8 })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn three_tiers_have_15_links() {
        let tree = Tree::three_tier_8();
        assert_eq!((tree.workers(), tree.switches()), (8, 7));
        assert_eq!(tree.path(7), [6, 2, 0]);
        let children: Vec<_> = tree.stack(7).iter().map(|hop| (hop.child, hop.fan_in)).collect();
        assert_eq!(children, [(1, 2), (1, 2), (1, 2), (0, 1)]);
    }
}
