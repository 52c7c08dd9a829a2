//! The state of the fabric:
//! the load of links, the free slots of switches, and the dead nodes and links.

use std::cell::OnceCell;
use std::collections::{HashMap, HashSet};

use tributary_topology::{End, Forwarding, Link, LinkDirection, LinkKey, Neighbour, Node, NodeKey, Topology};
use tributary_wire::SliceWidth;
use tributary_wire::constants::MAX_CHILDREN;

/// The minimum share of its rate that a link is expected to give a job, even if counters show that it
/// is full.
/// TCP shares the link, and the counters lag behind.
const LEAST_RESIDUAL: f64 = 0.01;

/// The known state of the running fabric.
#[derive(Debug, Clone, Default)]
pub struct FabricState {
    /// The present load of each link direction, bit/s; 0 without an entry.
    pub load: HashMap<LinkDirection, u64>,
    /// The number of slots that a further job can get on each switch, in one aligned block; 0 without an
    /// entry.
    pub free_slots: HashMap<NodeKey, u32>,
    /// The number of children that a switch can distinguish; `None` for the maximum of a hop entry.
    pub children: Option<usize>,
    /// Nodes that are down.
    pub dead_nodes: HashSet<NodeKey>,
    /// Links that are down.
    pub dead_links: HashSet<LinkKey>,
    /// Links that lose packets although their `mtu` has room for them.
    /// They lose slices of the given width or wider.
    pub short_of_mtu: HashMap<LinkKey, SliceWidth>,
    /// The present forwarding of ordinary frames, and so of the job's frames, by plain switches.
    ///
    /// `None` for the forwarding of the whole topology ([`Topology::forwarding`]), without regard to dead nodes and
    /// links.
    pub forwarding: Option<Forwarding>,
}

impl FabricState {
    /// Returns the state that the topology file describes: its loads, every slot free, everything alive.
    ///
    /// `slots` is the maximum number of slots of a switch (the size of the slot registers in its P4Info). It is also
    /// the number of slots of a switch for which the file gives no number.
    pub fn of(topology: &Topology, slots: u32) -> Self {
        let both = |(link, ends): (LinkKey, &Link)| {
            [0, 1].map(|sender| (LinkDirection { link, sender }, ends.load[sender]))
        };
        let programmable = topology.switches().filter(|(_, _, switch)| switch.programmable);
        Self {
            load: topology.links().flat_map(both).collect(),
            free_slots: programmable.map(|(key, _, switch)| (key, switch.slots_of(slots))).collect(),
            ..Self::default()
        }
    }

    pub(crate) fn forwarding(&self, topology: &Topology) -> Forwarding {
        self.forwarding.clone().unwrap_or_else(|| topology.forwarding())
    }

    /// Returns true if a link is up and carries the packets of slices of this width.
    pub(crate) fn carries(&self, key: LinkKey, link: &Link, width: SliceWidth) -> bool {
        fits(link, width) && !self.dead_links.contains(&key) && !self.loses(key, width)
    }

    /// Returns true if a link that is up loses the packets of slices of this width, independent of its
    /// `mtu`.
    pub(crate) fn loses(&self, link: LinkKey, width: SliceWidth) -> bool {
        self.short_of_mtu.get(&link).is_some_and(|lost| width >= *lost)
    }

    /// Returns the present load of the link direction, bit/s.
    pub(crate) fn load(&self, direction: LinkDirection) -> u64 {
        self.load.get(&direction).copied().unwrap_or(0)
    }
}

/// Returns the time, in seconds, for which `bytes` keep a link direction busy.
/// The direction has the rate `rate` and already carries `load`, both in bit/s.
pub(crate) fn seconds(bytes: u64, rate: u64, load: u64) -> f64 {
    let rate = rate as f64;
    bytes as f64 * 8.0 / (rate - load as f64).max(rate * LEAST_RESIDUAL)
}

/// The topology in its present state, in a form that the planner can query quickly.
///
/// The planner queries every node and link many times, so the answers are stored in vectors, by index.
pub(crate) struct Fabric<'a> {
    pub(crate) topology: &'a Topology,
    state: &'a FabricState,
    /// The forwarding of plain switches.
    /// It is computed at its first use, which is rare without plain switches.
    forwarding: OnceCell<Forwarding>,
    /// For each node, true if it is live.
    live: Vec<bool>,
    /// For each node, its abilities as a switch; `None` for hosts.
    switches: Vec<Option<Ability>>,
    /// The load of each link, in both directions.
    loads: Vec<[u64; 2]>,
    links: Adjacency,
}

/// The abilities of a switch.
#[derive(Debug, Clone, Copy)]
struct Ability {
    programmable: bool,
    free_slots: u32,
}

impl<'a> Fabric<'a> {
    /// Makes the fabric for slices of `width`.
    /// Links that do not carry packets of such slices count as down.
    pub(crate) fn new(topology: &'a Topology, state: &'a FabricState, width: SliceWidth) -> Self {
        let live: Vec<_> = topology.nodes().map(|(key, _)| !state.dead_nodes.contains(&key)).collect();
        let ability = |(key, node): (NodeKey, &Node)| {
            let free_slots = state.free_slots.get(&key).copied().unwrap_or(0);
            node.switch().map(|switch| Ability { programmable: switch.programmable, free_slots })
        };
        let mut loads = vec![[0; 2]; topology.graph().edge_count()];
        for (direction, load) in &state.load {
            let both = loads.get_mut(direction.link.index());
            both.and_then(|both| both.get_mut(direction.sender)).into_iter().for_each(|known| *known = *load);
        }
        Self {
            topology,
            state,
            forwarding: OnceCell::new(),
            switches: topology.nodes().map(ability).collect(),
            loads,
            links: Adjacency::new(topology, &live, |key, link| state.carries(key, link, width)),
            live,
        }
    }

    /// Makes the fabric in the same state for slices of another width.
    pub(crate) fn of_width(&self, width: SliceWidth) -> Self {
        Self::new(self.topology, self.state, width)
    }

    /// Returns true if a link loses the packets of slices of this width, although its `mtu` has room for
    /// them.
    pub(crate) fn loses(&self, link: LinkKey, width: SliceWidth) -> bool {
        self.state.loses(link, width)
    }

    /// Returns the forwarding of plain switches.
    pub(crate) fn forwarding(&self) -> &Forwarding {
        match &self.state.forwarding {
            Some(forwarding) => forwarding,
            None => self.forwarding.get_or_init(|| self.topology.forwarding()),
        }
    }

    pub(crate) fn name(&self, node: NodeKey) -> String {
        self.topology[node].name.clone()
    }

    fn ability(&self, node: NodeKey) -> Option<Ability> {
        self.switches.get(node.index()).copied().flatten()
    }

    pub(crate) fn is_host(&self, node: NodeKey) -> bool {
        self.ability(node).is_none()
    }

    /// Returns true if the node runs our program. Hosts do not.
    pub(crate) fn is_programmable(&self, node: NodeKey) -> bool {
        self.ability(node).is_some_and(|switch| switch.programmable)
    }

    /// Returns true if the node is a switch that forwards by MAC address only.
    pub(crate) fn is_plain(&self, node: NodeKey) -> bool {
        self.ability(node).is_some_and(|switch| !switch.programmable)
    }

    /// Returns the number of streams that a switch can aggregate.
    pub(crate) fn most_children(&self) -> usize {
        self.state.children.unwrap_or(MAX_CHILDREN).min(MAX_CHILDREN)
    }

    pub(crate) fn free_slots(&self, switch: NodeKey) -> u32 {
        self.ability(switch).map_or(0, |switch| switch.free_slots)
    }

    /// Returns true if a job with this window can aggregate on the switch.
    pub(crate) fn has_slots(&self, switch: NodeKey, window: u32) -> bool {
        self.ability(switch).is_some_and(|switch| switch.programmable && switch.free_slots >= window)
    }

    pub(crate) fn is_live(&self, node: NodeKey) -> bool {
        self.live.get(node.index()).copied().unwrap_or(false)
    }

    /// Returns the live neighbours of `node` over links that carry the packets, by port; none if `node` is
    /// dead.
    pub(crate) fn neighbours(&self, node: NodeKey) -> &[Neighbour] {
        self.links.of(node)
    }

    pub(crate) fn load(&self, direction: LinkDirection) -> u64 {
        let both = self.loads.get(direction.link.index());
        both.and_then(|both| both.get(direction.sender)).copied().unwrap_or(0)
    }

    /// Returns the time for which `bytes` keep the link direction busy, in seconds.
    pub(crate) fn seconds(&self, direction: LinkDirection, bytes: u64) -> f64 {
        seconds(bytes, self.topology[direction.link].rate, self.load(direction))
    }
}

/// Returns true if a link's `mtu` has room for the packets of slices of this width.
pub(crate) fn fits(link: &Link, width: SliceWidth) -> bool {
    usize::from(link.mtu) >= width.mtu()
}

/// The live neighbours of every node, over links that carry the packets.
struct Adjacency {
    /// For each node, the start of its neighbours in `all`, and one more entry for the end.
    starts: Vec<usize>,
    all: Vec<Neighbour>,
}

impl Adjacency {
    fn new(topology: &Topology, live: &[bool], is_usable: impl Fn(LinkKey, &Link) -> bool) -> Self {
        let is_live = |end: &End| live.get(end.node.index()).copied().unwrap_or(false);
        let links =
            topology.links().filter(|(key, link)| link.ends.iter().all(is_live) && is_usable(*key, link));
        let views = links.flat_map(|(link, &Link { ends: [a, b], .. })| {
            [(a, b), (b, a)].map(|(here, there)| {
                let seen = Neighbour { port: here.port, link, node: there.node, remote_port: there.port };
                (here.node.index(), seen)
            })
        });
        let views: Vec<_> = views.collect();
        let mut starts = vec![0; live.len() + 1];
        for (node, _) in &views {
            starts[node + 1] += 1;
        }
        for node in 0..live.len() {
            starts[node + 1] += starts[node];
        }
        // There are many nodes with few ports each, so sorting node by node is faster.
        let mut next = starts.clone();
        let mut all: Vec<_> = views.iter().map(|(_, seen)| *seen).collect();
        for (node, seen) in views {
            all[next[node]] = seen;
            next[node] += 1;
        }
        for ends in starts.windows(2) {
            all[ends[0]..ends[1]].sort_unstable_by_key(|seen| seen.port);
        }
        Self { starts, all }
    }

    fn of(&self, node: NodeKey) -> &[Neighbour] {
        let ends = self.starts.get(node.index()).zip(self.starts.get(node.index() + 1));
        ends.and_then(|(&from, &to)| self.all.get(from..to)).unwrap_or(&[])
    }
}

/// Returns true if a plain switch forwards frames between a worker and the server along the tree.
/// It must forward in both directions between `below`, the link towards the worker, and `up`, the link towards the
/// server. A switch never sends a frame out of the port at which it arrived.
pub(crate) fn forwards_along(
    forwarding: &Forwarding,
    plain: NodeKey,
    [worker, server]: [NodeKey; 2],
    [below, up]: [LinkKey; 2],
) -> bool {
    let by = |to, link| forwarding.next(plain, to).is_some_and(|via| via.link == link);
    below != up && by(worker, below) && by(server, up)
}
