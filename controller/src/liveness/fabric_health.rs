//! The parts of the fabric that are not alive, and the time of the last change.

use std::collections::{HashMap, HashSet};
use std::hash::Hash;

use tokio::time::Instant;
use tributary_planner::Plan;
use tributary_topology::{LinkKey, NodeKey, Topology};
use tributary_wire::SliceWidth;

use super::life::Life;
use super::proven_paths::ProvenPaths;

/// The states of all parts of the fabric that are not alive.
#[derive(Debug)]
pub(crate) struct Health {
    nodes: HashMap<NodeKey, Life>,
    links: HashMap<LinkKey, Life>,
    changed: Instant,
}

/// The treatment of silent parts of the fabric.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Doubt {
    /// Silent parts count as dead. A new structure avoids them.
    Dead,
    /// Silent parts count as alive. A job whose slices arrive keeps switches that only the controller
    /// cannot reach.
    Alive,
}

impl Health {
    /// Creates the health of a fabric in which all parts are alive.
    pub(crate) fn new(now: Instant) -> Self {
        Self { nodes: HashMap::new(), links: HashMap::new(), changed: now }
    }

    /// Sets the state of a switch. Returns true if the state has changed.
    pub(crate) fn set_node(&mut self, node: NodeKey, life: Life, now: Instant) -> bool {
        let news = set(&mut self.nodes, node, life);
        self.note(news, now)
    }

    /// Sets the state of a link. Returns true if the state has changed.
    pub(crate) fn set_link(&mut self, link: LinkKey, life: Life, now: Instant) -> bool {
        let news = set(&mut self.links, link, life);
        self.note(news, now)
    }

    /// Returns the switches that count as dead.
    pub(crate) fn dead_nodes(&self, doubt: Doubt) -> HashSet<NodeKey> {
        dead(&self.nodes, doubt)
    }

    /// Returns the links that count as dead.
    pub(crate) fn dead_links(&self, doubt: Doubt) -> HashSet<LinkKey> {
        dead(&self.links, doubt)
    }

    /// Returns the links that lose long packets, each with the width of the slices that it loses.
    pub(crate) fn links_short_of_mtu(&self) -> HashMap<LinkKey, SliceWidth> {
        let lost = |life: &Life| if let Life::ShortOfMtu(width) = life { Some(*width) } else { None };
        self.links.iter().filter_map(|(link, life)| Some((*link, lost(life)?))).collect()
    }

    /// Returns the state of a link. A link without a reported state is alive.
    pub(crate) fn of_link(&self, link: LinkKey) -> Life {
        self.links.get(&link).copied().unwrap_or(Life::Alive)
    }

    fn note(&mut self, news: bool, now: Instant) -> bool {
        if news {
            self.changed = now;
        }
        news
    }

    /// Returns the time at which a part last changed its state or a host's daemon last connected.
    pub(crate) fn changed(&self) -> Instant {
        self.changed
    }

    /// Notes that a daemon has connected, because jobs should then reconsider their trees.
    pub(crate) fn touch(&mut self, now: Instant) {
        self.changed = now;
    }

    /// Lists the parts that are not alive, as text for users; `None` if all are alive.
    pub(crate) fn losses(&self, topology: &Topology) -> Option<String> {
        let nodes = self.nodes.keys().map(|node| format!("switch {}", topology[*node].name));
        let links = self.links.keys().map(|link| {
            let ends = topology[*link].ends.map(|end| topology[end.node].name.clone());
            format!("the link between {}", ends.join(" and "))
        });
        let mut all: Vec<_> = nodes.chain(links).collect();
        all.sort_unstable();
        (!all.is_empty()).then(|| all.join(", "))
    }

    /// Describes a part of a plan that is not alive, as text for users; `None` if all parts are alive.
    /// Silent parts on one of the `paths` count as alive, because only the controller cannot reach them.
    pub(crate) fn broken_part(&self, plan: &Plan, doubt: Doubt, paths: &ProvenPaths) -> Option<String> {
        let words = |life: Option<&Life>, is_on_a_path: bool, what: &str| match life? {
            Life::Dead => Some(format!("{what} is dead")),
            Life::ShortOfMtu(width) => (plan.width >= *width)
                .then(|| format!("{what} loses packets of {} bytes, and not short ones", width.mtu())),
            Life::Silent if doubt == Doubt::Dead && !is_on_a_path => {
                Some(format!("nothing is heard of {what}"))
            }
            Life::Silent | Life::Alive => None,
        };
        plan.switches.iter().find_map(|role| {
            let name = format!("switch {}", role.name);
            let of_switch = words(self.nodes.get(&role.key), paths.lead_through(role.key), &name);
            of_switch.or_else(|| {
                role.down.iter().chain([&role.up]).find_map(|port| {
                    let name = format!("the link between {} and {}", role.name, port.name);
                    words(self.links.get(&port.link), paths.lead_over(role.key, port.key), &name)
                })
            })
        })
    }
}

fn set<K: Eq + Hash>(lives: &mut HashMap<K, Life>, key: K, life: Life) -> bool {
    let before = match life {
        Life::Alive => lives.remove(&key),
        life => lives.insert(key, life),
    };
    before.unwrap_or(Life::Alive) != life
}

/// Returns the keys of the parts that count as dead.
fn dead<K: Copy + Eq + Hash>(lives: &HashMap<K, Life>, doubt: Doubt) -> HashSet<K> {
    let is_dead = |life: &Life| *life == Life::Dead || (*life == Life::Silent && doubt == Doubt::Dead);
    lives.iter().filter(|(_, life)| is_dead(life)).map(|(key, _)| *key).collect()
}
