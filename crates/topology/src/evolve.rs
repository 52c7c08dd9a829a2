//! Changes a topology while it is in use. Existing keys stay valid.

use std::collections::HashSet;

use crate::graph::{End, Link, LinkKey, Node, NodeKey, NodeKind, Topology};

/// The outcome of applying a newer topology to a topology.
#[derive(Debug, Clone)]
pub struct Evolution {
    /// The topology with the changes that were applied.
    /// Each key of the old topology refers to the same node or link in this one.
    pub topology: Topology,
    /// Changes that were applied, as text for users.
    pub taken: Vec<String>,
    /// Changes that were refused, each with the reason.
    pub refused: Vec<String>,
}

impl Topology {
    /// Applies the changes of `newer` that are possible while this topology is in use.
    /// These are new hosts, new links, and other rates, loads, slots and roles. Other properties stay: names, ids,
    /// addresses and ports, and also nodes and links that `newer` lacks.
    pub fn evolve(&self, newer: &Self) -> Evolution {
        let mut work = Work { topology: self.clone(), newer, taken: Vec::new(), refused: Vec::new() };
        work.topology.description.clone_from(&newer.description);
        for (_, node) in newer.nodes() {
            match self.find(&node.name) {
                Some(key) => work.change_node(key, node),
                None => work.add_node(node),
            }
        }
        for (_, link) in newer.links() {
            work.take_link(link);
        }
        work.note_missing();
        let Work { topology, taken, refused, .. } = work;
        Evolution { topology, taken, refused }
    }

    /// Returns a name of the link by its ends, as text for users.
    fn name_link(&self, link: &Link) -> String {
        let ends = link.ends.map(|end| self[end.node].name.as_str());
        format!("the link between {}", ends.join(" and "))
    }
}

struct Work<'a> {
    /// The topology with the applied changes.
    topology: Topology,
    newer: &'a Topology,
    taken: Vec<String>,
    refused: Vec<String>,
}

impl Work<'_> {
    fn refuse(&mut self, what: &str) {
        self.refused.push(format!("{what}: it is in use as it was"));
    }

    /// Applies the new number of slots or the new role of a known node, and refuses other changes.
    fn change_node(&mut self, key: NodeKey, new: &Node) {
        let old = self.topology.graph[key].clone();
        let name = &new.name;
        let mut changed = old.clone();
        match (&mut changed.kind, &new.kind) {
            (NodeKind::Switch(switch), NodeKind::Switch(new)) => switch.slots = new.slots,
            (NodeKind::Host(host), NodeKind::Host(new)) => host.role = new.role,
            _ => {}
        }
        if changed != *new {
            let what = format!("{name} has another id, kind, address or setting");
            self.refuse(&what);
        }
        if changed != old {
            let what = if changed.host().is_some() { "role" } else { "number of slots" };
            self.taken.push(format!("the {what} of {name}"));
            self.topology.graph[key] = changed;
        }
    }

    fn add_node(&mut self, node: &Node) {
        let name = &node.name;
        let Some(host) = node.host() else {
            self.refused.push(format!("switch {name} is new: it needs a controller that starts anew"));
            return;
        };
        let is_taken = self.topology.nodes().any(|(_, other)| {
            let same = other.host().is_some_and(|other| other.mac == host.mac || other.ip == host.ip);
            same || other.id == node.id
        });
        if is_taken {
            self.refused.push(format!(
                "host {name} is new, and has the id or an address of another one: put it behind the others in the file"
            ));
            return;
        }
        let key = self.topology.graph.add_node(node.clone());
        self.topology.by_name.insert(name.clone(), key);
        self.taken.push(format!("host {name}"));
    }

    /// Applies a link between known nodes: adds it, or changes its rate and load.
    fn take_link(&mut self, link: &Link) {
        let ends = link.ends.map(|end| {
            let key = self.topology.find(&self.newer[end.node].name)?;
            Some(End { node: key, port: end.port })
        });
        let name = self.newer.name_link(link);
        let [Some(first), Some(second)] = ends else {
            self.refused.push(format!("{name}: not both of its ends are there"));
            return;
        };
        let new = Link { ends: [first, second], ..link.clone() };
        let at = |end: End| self.topology.neighbour(end.node, end.port).map(|via| via.link);
        match (at(first), at(second)) {
            (None, None) => {
                self.topology.graph.add_edge(first.node, second.node, new);
                self.taken.push(name);
            }
            (Some(one), Some(other)) if one == other => self.change_link(one, &new, &name),
            _ => self.refuse(&format!("{name} is at a port of another one")),
        }
    }

    fn change_link(&mut self, key: LinkKey, new: &Link, name: &str) {
        if self.topology.graph[key].mtu != new.mtu {
            // The MTU cannot change, because running jobs have the widest slices that the old MTU allows.
            self.refuse(&format!("{name} has another MTU"));
            return;
        }
        let old = &mut self.topology.graph[key];
        // The newer file may list the link's ends in the other order.
        let load = if old.ends[0] == new.ends[0] { new.load } else { [new.load[1], new.load[0]] };
        if (old.rate, old.load) != (new.rate, load) {
            (old.rate, old.load) = (new.rate, load);
            self.taken.push(format!("the rate or load of {name}"));
        }
    }

    /// Notes the nodes and links that the newer topology lacks. They stay in use.
    fn note_missing(&mut self) {
        let gone = self.topology.nodes().filter(|(_, node)| self.newer.find(&node.name).is_none());
        let mut gone: Vec<_> = gone.map(|(_, node)| format!("{} is missing", node.name)).collect();
        let known: HashSet<_> = self.newer.links().map(|(_, link)| self.newer.ends_by_name(link)).collect();
        let links =
            self.topology.links().filter(|(_, link)| !known.contains(&self.topology.ends_by_name(link)));
        gone.extend(links.map(|(_, link)| format!("{} is missing", self.topology.name_link(link))));
        gone.iter().for_each(|what| self.refuse(what));
    }
}

impl Topology {
    /// Returns the names and ports of a link's ends, in an order that does not depend on the file.
    fn ends_by_name(&self, link: &Link) -> [(String, u16); 2] {
        let mut ends = link.ends.map(|end| (self[end.node].name.clone(), end.port));
        ends.sort_unstable();
        ends
    }
}
