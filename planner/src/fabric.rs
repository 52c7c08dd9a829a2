//! The state of the fabric: what the links carry already, which slots are free, who is alive.

use std::collections::{HashMap, HashSet};

use tributary_topology::{Forwarding, LinkDirection, LinkKey, Neighbour, NodeKey, Topology};

/// Where counters say that a link is full, TCP shares it and the counters lag: so much of its rate is
/// still counted on.
const LEAST_RESIDUAL: f64 = 0.01;

/// What is known about the fabric while it runs.
#[derive(Debug, Clone, Default)]
pub struct FabricState {
    /// What each link direction carries already, bit/s; without an entry: nothing.
    pub load: HashMap<LinkDirection, u64>,
    /// How many slots one more job can get on each switch, in one aligned piece; without an entry: none.
    pub free_slots: HashMap<NodeKey, u32>,
    /// Nodes that are down.
    pub dead_nodes: HashSet<NodeKey>,
    /// Links that are down.
    pub dead_links: HashSet<LinkKey>,
    /// How ordinary frames travel now, which plain switches do with ours, too. `None`: as
    /// [`Topology::forwarding`] says, whatever is down.
    pub forwarding: Option<Forwarding>,
}

impl FabricState {
    /// The state that the topology file describes: its loads, every slot free, everything alive.
    ///
    /// `slots`: how many a switch has where the file does not say (the size of the slot registers in its
    /// P4Info).
    pub fn of(topology: &Topology, slots: u32) -> Self {
        let both = |(link, ends): (LinkKey, &tributary_topology::Link)| {
            [0, 1].map(|sender| (LinkDirection { link, sender }, ends.load[sender]))
        };
        let programmable = topology.switches().filter(|(_, _, switch)| switch.programmable);
        Self {
            load: topology.links().flat_map(both).collect(),
            free_slots: programmable.map(|(key, _, switch)| (key, switch.slots.unwrap_or(slots))).collect(),
            ..Self::default()
        }
    }

    pub(crate) fn forwarding(&self, topology: &Topology) -> Forwarding {
        self.forwarding.clone().unwrap_or_else(|| topology.forwarding())
    }

    /// What the link direction carries, bit/s.
    pub(crate) fn load(&self, direction: LinkDirection) -> u64 {
        self.load.get(&direction).copied().unwrap_or(0)
    }
}

/// How long `bytes` keep a link direction busy that carries `load` of its `rate` already, in seconds.
pub(crate) fn seconds(bytes: u64, rate: u64, load: u64) -> f64 {
    let rate = rate as f64;
    bytes as f64 * 8.0 / (rate - load as f64).max(rate * LEAST_RESIDUAL)
}

/// Whether a plain switch, which forwards by MAC address, takes the frames between a worker and the server
/// along: in by the link that the worker is behind and on by the one that the server is behind, and back. It
/// never sends a frame out of the port that it came in by.
pub(crate) fn carries(
    forwarding: &Forwarding,
    plain: NodeKey,
    [worker, server]: [NodeKey; 2],
    [below, up]: [LinkKey; 2],
) -> bool {
    let by = |to, link| forwarding.next(plain, to).is_some_and(|via| via.link == link);
    below != up && by(worker, below) && by(server, up)
}

/// The topology in its state: what the planner's parts ask.
pub(crate) struct Fabric<'a> {
    pub(crate) topology: &'a Topology,
    pub(crate) state: &'a FabricState,
    /// How plain switches forward.
    pub(crate) forwarding: Forwarding,
}

impl<'a> Fabric<'a> {
    pub(crate) fn new(topology: &'a Topology, state: &'a FabricState) -> Self {
        Self { topology, state, forwarding: state.forwarding(topology) }
    }

    pub(crate) fn name(&self, node: NodeKey) -> String {
        self.topology[node].name.clone()
    }

    /// Whether the node runs our program. Hosts do not.
    pub(crate) fn is_programmable(&self, node: NodeKey) -> bool {
        self.topology[node].switch().is_some_and(|switch| switch.programmable)
    }

    /// Whether the node is a switch that forwards by MAC address only.
    pub(crate) fn is_plain(&self, node: NodeKey) -> bool {
        self.topology[node].switch().is_some_and(|switch| !switch.programmable)
    }

    pub(crate) fn free_slots(&self, switch: NodeKey) -> u32 {
        self.state.free_slots.get(&switch).copied().unwrap_or(0)
    }

    pub(crate) fn is_live(&self, node: NodeKey) -> bool {
        !self.state.dead_nodes.contains(&node)
    }

    /// What `node` is linked to and alive, by port.
    pub(crate) fn neighbours(&self, node: NodeKey) -> Vec<Neighbour> {
        let mut all = self.topology.neighbours(node);
        all.retain(|via| self.is_live(via.node) && !self.state.dead_links.contains(&via.link));
        all
    }

    pub(crate) fn load(&self, direction: LinkDirection) -> u64 {
        self.state.load(direction)
    }

    /// How long `bytes` keep the link direction busy, in seconds.
    pub(crate) fn seconds(&self, direction: LinkDirection, bytes: u64) -> f64 {
        seconds(bytes, self.topology[direction.link].rate, self.load(direction))
    }
}
