//! Positions of the nodes in a picture.
//!
//! The server is at the top and the tree grows downwards, with a row for each level and a column for
//! each leaf. Each node is centred above the nodes below it. All hosts except the server share the last
//! row. Nodes that are not on the tree are below the node that connects them to it.
//!
//! If a network would be too wide to read, the picture omits the nodes that the job does not use, and
//! shows only the first worker of each switch, with the names of the others.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use tributary_planner::Plan;
use tributary_topology::{NodeKey, Topology};

/// The most columns of a picture that shows all nodes.
const READABLE_COLUMNS: usize = 24;

/// The nodes below each node, from left to right.
type Below = BTreeMap<NodeKey, Vec<NodeKey>>;

/// The rows and columns of the nodes that are drawn.
pub(crate) struct Layout {
    /// The column of each node, counted from 0.0, and its row, counted from 0.
    pub(crate) places: BTreeMap<NodeKey, (f64, usize)>,
    /// Number of columns.
    pub(crate) columns: usize,
    /// Number of rows.
    pub(crate) rows: usize,
    /// The workers that are not drawn, by the drawn worker that represents them.
    pub(crate) represented: Below,
}

impl Layout {
    /// Arranges a topology around the tree of a plan.
    pub(crate) fn of(topology: &Topology, plan: &Plan) -> Self {
        let mut below = tree(plan);
        let small = below.clone();
        add_unused(&mut below, topology, plan);
        let whole = Self::arranged(topology, plan, &below, Below::new());
        if whole.columns <= READABLE_COLUMNS {
            return whole;
        }
        let (below, represented) = with_workers_together(small, topology);
        Self::arranged(topology, plan, &below, represented)
    }

    fn arranged(topology: &Topology, plan: &Plan, below: &Below, represented: Below) -> Self {
        let mut layout = Self { places: BTreeMap::new(), columns: 0, rows: 0, represented };
        layout.place(plan.server.key, 0, below);
        layout.rows += 1;
        for (key, _, _) in topology.hosts().filter(|(key, ..)| *key != plan.server.key) {
            if let Some((_, row)) = layout.places.get_mut(&key) {
                *row = layout.rows - 1;
            }
        }
        layout
    }

    /// Places a node and all nodes below it; returns the node's column.
    fn place(&mut self, node: NodeKey, row: usize, below: &Below) -> f64 {
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

/// Returns the tree of a plan, with the workers in the order of ranks.
fn tree(plan: &Plan) -> Below {
    let mut below = Below::new();
    let mut placed = BTreeSet::from([plan.server.key]);
    for pair in plan.workers.iter().flat_map(|worker| worker.path.windows(2)) {
        if placed.insert(pair[0]) {
            below.entry(pair[1]).or_default().push(pair[0]);
        }
    }
    below
}

/// Adds the nodes that are not on the tree.
fn add_unused(below: &mut Below, topology: &Topology, plan: &Plan) {
    let mut placed: BTreeSet<_> = below.values().flatten().copied().chain([plan.server.key]).collect();
    let mut queue: VecDeque<_> = std::iter::once(plan.server.key).chain(placed.iter().copied()).collect();
    while let Some(node) = queue.pop_front() {
        for there in topology.neighbours(node) {
            if placed.insert(there.node) {
                below.entry(node).or_default().push(there.node);
                queue.push_back(there.node);
            }
        }
    }
}

/// Reduces the tree to the first worker at each switch. Also returns the workers that each of them
/// represents.
fn with_workers_together(mut below: Below, topology: &Topology) -> (Below, Below) {
    let mut represented = Below::new();
    let hosts: BTreeSet<_> = topology.hosts().map(|(key, ..)| key).collect();
    let leads_on: BTreeSet<_> = below.keys().copied().collect();
    for children in below.values_mut() {
        let is_last = |node: &NodeKey| hosts.contains(node) && !leads_on.contains(node);
        let (workers, others): (Vec<_>, Vec<_>) = children.iter().copied().partition(is_last);
        if let [first, rest @ ..] = &workers[..] {
            represented.insert(*first, rest.to_vec());
            *children = others.into_iter().chain([*first]).collect();
        }
    }
    (below, represented)
}
