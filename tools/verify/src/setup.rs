//! The setup of a check: the tree, the job, and the change of the job's generation.

use serde::Serialize;
use tributary_protocol::{AllReduce, GradientData};
use tributary_wire::{JobId, Rank, Seq, SliceWidth};

use crate::slot::Bug;

/// The width of slices, which is the narrowest width.
pub(crate) const WIDTH: SliceWidth = SliceWidth::NARROWEST;
/// The sequence number of the first slice. It is close to the wrap-around.
pub(crate) const START: Seq = Seq(u32::MAX - 1);
/// The job whose leftovers are in every slot at the start. No generation has this number.
pub(crate) const LEFTOVER: u16 = 999;

/// The change of the job's generation, which can happen at any time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Change {
    /// The generation stays.
    None,
    /// The same members continue with different slots.
    Replan,
    /// The last worker leaves.
    Leave,
}

/// The setup of one check.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Setup {
    /// Number of workers under each leaf switch.
    pub leaves: Vec<u8>,
    /// True if there is a switch between the leaves and the server.
    pub spine: bool,
    /// The window S, in slices.
    pub window: u32,
    /// Number of SUM slices of each operation. One MAX slice precedes them.
    pub operations: Vec<usize>,
    /// The change of the job's generation.
    pub change: Change,
    /// A bug that is planted in the model, if any.
    pub bug: Option<Bug>,
}

/// A destination of packets.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) enum Node {
    Worker(u8),
    Switch(u8),
    Server,
}

impl Setup {
    /// Returns the number of workers.
    pub fn workers(&self) -> u8 {
        self.leaves.iter().sum()
    }

    /// Returns the number of slices that each worker sends.
    pub fn slices(&self) -> usize {
        self.operations.iter().map(|sums| sums + 1).sum()
    }

    pub(crate) fn switches(&self) -> u8 {
        self.leaves.len() as u8 + u8::from(self.spine)
    }

    pub(crate) fn generations(&self) -> u8 {
        if self.change == Change::None { 1 } else { 2 }
    }

    pub(crate) fn members(&self, generation: u8) -> Vec<Rank> {
        let left = u8::from(generation > 0 && self.change == Change::Leave);
        (0..self.workers() - left).map(|rank| Rank::new(rank.into())).collect()
    }

    pub(crate) fn is_member(&self, worker: u8, generation: u8) -> bool {
        usize::from(worker) < self.members(generation).len()
    }

    /// Returns the number of slots on one switch.
    pub(crate) fn slots(&self) -> usize {
        self.window as usize * usize::from(self.generations())
    }

    /// Returns the slot of a slice.
    pub(crate) fn slot(&self, generation: u8, slice: u8) -> usize {
        let base = if self.bug == Some(Bug::SharedSlots) { 0 } else { generation as usize };
        base * self.window as usize + (seq(slice).0 & (self.window - 1)) as usize
    }

    /// Returns the node above a worker, and the worker's child number at that node.
    pub(crate) fn home(&self, worker: u8) -> (Node, u8) {
        let mut first = 0;
        for (leaf, &workers) in self.leaves.iter().enumerate() {
            if worker < first + workers {
                return (Node::Switch(leaf as u8), worker - first);
            }
            first += workers;
        }
        (Node::Server, 0)
    }

    /// Returns the node above a switch, and the switch's child number at that node.
    pub(crate) fn above(&self, switch: u8) -> (Node, u8) {
        let leaves = self.leaves.len() as u8;
        match switch {
            _ if switch >= leaves => (Node::Server, 0),
            _ if self.spine => (Node::Switch(leaves), switch),
            _ => (Node::Server, switch),
        }
    }

    /// Returns the nodes directly below a node.
    pub(crate) fn below(&self, node: Node) -> Vec<Node> {
        let switches = (0..self.switches()).map(|switch| (Node::Switch(switch), self.above(switch).0));
        let workers = (0..self.workers()).map(|worker| (Node::Worker(worker), self.home(worker).0));
        switches.chain(workers).filter(|&(_, above)| above == node).map(|(below, _)| below).collect()
    }

    pub(crate) fn fan_in(&self, node: Node, generation: u8) -> u8 {
        let stays = |below: &&Node| !matches!(below, Node::Worker(at) if !self.is_member(*at, generation));
        self.below(node).iter().filter(stays).count() as u8
    }

    /// Returns a worker's operations.
    ///
    /// Every slice has different numbers, and no two subsets of workers have the same sum.
    pub(crate) fn operations_of(&self, worker: u8) -> Vec<AllReduce> {
        let numbers = |at: usize, sums: usize| {
            let number = |slice: usize| (1 + 10 * at + slice) as i32 * 16_i32.pow(worker.into());
            (0..sums).flat_map(|slice| std::iter::repeat_n(number(slice), WIDTH.values())).collect()
        };
        let operation = |(at, &sums)| AllReduce {
            name: "gradient".to_owned(),
            data: GradientData::I32(numbers(at, sums)),
            weight: 1 + u32::from(worker),
        };
        self.operations.iter().enumerate().map(operation).collect()
    }
}

/// Returns the sequence number of a slice on the wire.
pub(crate) fn seq(slice: u8) -> Seq {
    START.plus(slice.into())
}

/// Returns the slice with this sequence number.
pub(crate) fn slice(seq: Seq) -> u8 {
    seq.distance(START) as u8
}

/// Returns a generation's data-plane job id.
pub(crate) fn job(generation: u8) -> Option<JobId> {
    JobId::new(5 + u16::from(generation))
}
