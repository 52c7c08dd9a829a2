//! Positions of the nodes in a picture.
//!
//! The server is at the top and the tree grows downwards, with a row for each level and a column for each leaf. Each
//! node is centred above the nodes below it. All hosts but the server share the last row. Nodes that are not on the
//! tree hang below the node that leads to them.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use tributary_planner::Plan;
use tributary_topology::{NodeKey, Topology};

/// Rows and columns of all nodes.
pub(crate) struct Layout {
    /// The column of each node, from 0.0, and its row, from 0.
    pub(crate) places: BTreeMap<NodeKey, (f64, usize)>,
    /// How many columns there are.
    pub(crate) columns: usize,
    /// How many rows there are.
    pub(crate) rows: usize,
}

impl Layout {
    /// Arranges a topology around the tree of a plan.
    pub(crate) fn of(topology: &Topology, plan: &Plan) -> Self {
        let below = below(topology, plan);
        let mut layout = Self { places: BTreeMap::new(), columns: 0, rows: 0 };
        layout.place(plan.server.key, 0, &below);
        layout.rows += 1;
        for (key, _, _) in topology.hosts().filter(|(key, ..)| *key != plan.server.key) {
            if let Some((_, row)) = layout.places.get_mut(&key) {
                *row = layout.rows - 1;
            }
        }
        layout
    }

    /// Places a node and everything below it; returns its column.
    fn place(&mut self, node: NodeKey, row: usize, below: &BTreeMap<NodeKey, Vec<NodeKey>>) -> f64 {
        self.rows = self.rows.max(row);
        let children = below.get(&node).map_or(&[][..], Vec::as_slice);
        let columns: Vec<f64> = children.iter().map(|&child| self.place(child, row + 1, below)).collect();
        let column = match (columns.first(), columns.last()) {
            (Some(first), Some(last)) => (first + last) / 2.0,
            _ => {
                self.columns += 1;
                (self.columns - 1) as f64
            }
        };
        self.places.insert(node, (column, row));
        column
    }
}

/// The nodes that hang below each node: first the tree, in the order of the ranks, then the rest of the network.
fn below(topology: &Topology, plan: &Plan) -> BTreeMap<NodeKey, Vec<NodeKey>> {
    let mut below: BTreeMap<NodeKey, Vec<NodeKey>> = BTreeMap::new();
    let mut placed = BTreeSet::from([plan.server.key]);
    for worker in &plan.workers {
        for pair in worker.path.windows(2) {
            if placed.insert(pair[0]) {
                below.entry(pair[1]).or_default().push(pair[0]);
            }
        }
    }
    let mut queue: VecDeque<_> = std::iter::once(plan.server.key).chain(placed.iter().copied()).collect();
    while let Some(node) = queue.pop_front() {
        for there in topology.neighbours(node) {
            if placed.insert(there.node) {
                below.entry(node).or_default().push(there.node);
                queue.push_back(there.node);
            }
        }
    }
    below
}
