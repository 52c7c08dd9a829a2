//! The trees of simulations.

use std::ops::Range;

use tributary_wire::{Hop, NodeId, Rank};

/// A tree of switches that all aggregate, with the server above the first switch.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Tree {
    /// For each switch, the switch above it. Parents come before their children.
    ///
    /// It is `None` for the first switch, which is linked to the server.
    parents: Vec<Option<usize>>,
    /// For each rank, the switch to which the worker is linked.
    homes: Vec<usize>,
}

/// A child of a switch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Child {
    Switch(usize),
    Worker(usize),
}

impl Tree {
    /// Makes a regular tree with one root.
    ///
    /// `fan_outs[0]` switches are below the root, `fan_outs[1]` switches below each of these, and so on. The
    /// last number is the number of workers below each of the lowest switches.
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

    /// Makes a tree of 8 workers, 4 leaves, 2 middle switches and the root.
    ///
    /// It has 15 links, including the server's link.
    pub fn three_tier_8() -> Self {
        Self::regular(&[2, 2, 2])
    }

    /// Returns the number of workers.
    pub fn workers(&self) -> usize {
        self.homes.len()
    }

    /// Returns the number of switches.
    pub fn switches(&self) -> usize {
        self.parents.len()
    }

    /// Returns the switch above a switch.
    pub(crate) fn parent(&self, switch: usize) -> Option<usize> {
        self.parents.get(switch).copied().flatten()
    }

    /// Returns the switch to which a worker is linked.
    pub(crate) fn home(&self, worker: usize) -> usize {
        self.homes.get(worker).copied().unwrap_or(0)
    }

    /// Returns the children of a switch, in the order of the child numbers.
    pub(crate) fn children(&self, switch: usize) -> Vec<Child> {
        let switches = self.parents.iter().enumerate().filter(|&(_, &parent)| parent == Some(switch));
        let workers = self.homes.iter().enumerate().filter(|&(_, &home)| home == switch);
        switches
            .map(|(at, _)| Child::Switch(at))
            .chain(workers.map(|(rank, _)| Child::Worker(rank)))
            .collect()
    }

    /// Returns the switches from a worker up to the server.
    pub(crate) fn path(&self, worker: usize) -> Vec<usize> {
        std::iter::successors(Some(self.home(worker)), |&switch| self.parent(switch)).collect()
    }

    /// Returns a worker's hop stack, with the server's entry last.
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
