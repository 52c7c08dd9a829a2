//! The state of the fabric, as the planner takes it.

use std::collections::HashSet;

use tokio::time::Instant;
use tributary_planner::{FabricState, Plan};
use tributary_topology::{LinkKey, NodeKey, Topology};

use super::Book;
use crate::slots::SlotMap;

/// What of the fabric is dead, as the detectors say.
#[derive(Debug)]
pub(crate) struct Health {
    nodes: HashSet<NodeKey>,
    links: HashSet<LinkKey>,
    changed: Instant,
}

impl Health {
    /// All is alive.
    pub(crate) fn new(now: Instant) -> Self {
        Self { nodes: HashSet::new(), links: HashSet::new(), changed: now }
    }

    /// A switch has died or come back. Whether that is news.
    pub(crate) fn set_node(&mut self, node: NodeKey, alive: bool, now: Instant) -> bool {
        let news = if alive { self.nodes.remove(&node) } else { self.nodes.insert(node) };
        self.note(news, now)
    }

    /// A link has died or come back. Whether that is news.
    pub(crate) fn set_link(&mut self, link: LinkKey, alive: bool, now: Instant) -> bool {
        let news = if alive { self.links.remove(&link) } else { self.links.insert(link) };
        self.note(news, now)
    }

    fn note(&mut self, news: bool, now: Instant) -> bool {
        if news {
            self.changed = now;
        }
        news
    }

    /// When something last died or came back.
    pub(crate) fn changed(&self) -> Instant {
        self.changed
    }

    /// A host's daemon has come, which is as good a reason to look at trees again.
    pub(crate) fn touch(&mut self, now: Instant) {
        self.changed = now;
    }

    /// What is dead, for people; `None` when all is alive.
    pub(crate) fn losses(&self, topology: &Topology) -> Option<String> {
        let nodes = self.nodes.iter().map(|node| format!("switch {}", topology[*node].name));
        let links = self.links.iter().map(|link| {
            let ends = topology[*link].ends.map(|end| topology[end.node].name.clone());
            format!("the link between {}", ends.join(" and "))
        });
        let mut all: Vec<_> = nodes.chain(links).collect();
        all.sort_unstable();
        (!all.is_empty()).then(|| all.join(", "))
    }

    /// Whether a plan uses something that is dead.
    pub(crate) fn breaks(&self, plan: &Plan) -> bool {
        plan.switches.iter().any(|role| {
            let mut ports = role.down.iter().chain([&role.up]);
            self.nodes.contains(&role.key) || ports.any(|port| self.links.contains(&port.link))
        })
    }
}

impl Book {
    /// The state of the fabric; `free` says how many slots one more job can get on a switch.
    pub(super) fn fabric(&self, free: impl Fn(&SlotMap) -> u32) -> FabricState {
        let free_slots = self.slots.iter().map(|(key, map)| (*key, free(map))).collect();
        let mut state = FabricState {
            free_slots,
            dead_nodes: self.health.nodes.clone(),
            dead_links: self.health.links.clone(),
            ..FabricState::of(&self.topology, 0)
        };
        // A load in the topology file is one to be counted on, even where it is not there now.
        for (direction, load) in &mut state.load {
            *load = self.loads.of(*direction).max(*load);
        }
        state
    }
}
