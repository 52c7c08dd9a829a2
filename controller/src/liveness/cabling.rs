//! Which probes arrive where, and what that says about the cables.

use std::collections::{BTreeMap, BTreeSet};

use tokio::time::Instant;
use tributary_topology::{LinkKey, NodeKey, Topology};
use tributary_wire::{NodeId, Probe};

use super::detector::Detector;

/// One end of a cable.
pub(crate) type End = (NodeKey, u16);

/// News about a cable.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum News {
    /// A change in whether frames get through.
    Link(LinkKey, Life),
    /// A cable is plugged in elsewhere than the topology says.
    Miswired(Miswiring),
    /// The cable at this end is now plugged in as the topology says.
    Rewired(End),
}

/// Whether something is alive, as far as is known.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Life {
    Alive,
    /// Nothing is heard of it, nor of those who would know: it may work perfectly well.
    Silent,
    Dead,
}

/// A cable that does not lead where the topology says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Miswiring {
    /// The end at which a wrong probe arrived.
    pub(crate) at: End,
    /// The wrong probe, which names the end that sent it.
    pub(crate) heard: Probe,
}

/// The cables of a topology, as probes show them.
#[derive(Debug)]
pub(crate) struct Cabling {
    /// For each end, what should arrive there.
    ends: BTreeMap<End, Direction>,
    miswired: BTreeMap<End, Probe>,
    /// Cables that are not known to be alive.
    lost: BTreeMap<LinkKey, Life>,
    /// Nodes that have reported anything since the last beat.
    heard: BTreeSet<NodeKey>,
    /// When each node last reported anything.
    words: BTreeMap<NodeKey, Instant>,
}

/// One direction of a cable, by the end where its frames arrive.
#[derive(Debug)]
struct Direction {
    link: LinkKey,
    sender: End,
    /// The sender's probe.
    expected: Probe,
    detector: Detector,
    /// When its probe last arrived.
    heard: Option<Instant>,
}

impl Cabling {
    /// Cables of which nothing is known yet.
    pub(crate) fn new(topology: &Topology) -> Self {
        let mut cabling = Self {
            ends: BTreeMap::new(),
            miswired: BTreeMap::new(),
            lost: BTreeMap::new(),
            heard: BTreeSet::new(),
            words: BTreeMap::new(),
        };
        cabling.adopt(topology);
        cabling
    }

    /// Adds the topology's new cables; what is known of the others stays.
    pub(crate) fn adopt(&mut self, topology: &Topology) {
        for (listener, _) in topology.nodes() {
            for via in topology.neighbours(listener) {
                let node: NodeId = topology[via.node].id;
                let direction = Direction {
                    link: via.link,
                    sender: (via.node, via.remote_port),
                    expected: Probe { node, port: via.remote_port },
                    detector: Detector::default(),
                    heard: None,
                };
                self.ends.entry((listener, via.port)).or_insert(direction);
            }
        }
    }

    /// Notes that a node has reported which probes it hears, even if none.
    pub(crate) fn hear_of(&mut self, node: NodeKey, now: Instant) {
        self.heard.insert(node);
        self.words.insert(node, now);
    }

    /// When a node last reported anything.
    pub(crate) fn last_word_of(&self, node: NodeKey) -> Option<Instant> {
        self.words.get(&node).copied()
    }

    /// Whether any node has reported anything since the last beat.
    pub(crate) fn is_heard(&self) -> bool {
        !self.heard.is_empty()
    }

    /// Whether any of these nodes has ever reported anything, and so should again.
    pub(crate) fn expects(&self, nodes: &BTreeSet<NodeKey>) -> bool {
        nodes.iter().any(|node| self.words.contains_key(node))
    }

    /// Notes that a probe has arrived at one end of a cable.
    pub(crate) fn hear(&mut self, at: End, probe: Probe, now: Instant) -> Option<News> {
        self.hear_of(at.0, now);
        let direction = self.ends.get_mut(&at)?;
        if direction.expected == probe {
            direction.detector.hear();
            direction.heard = Some(now);
            return self.miswired.remove(&at).map(|_| News::Rewired(at));
        }
        let known = self.miswired.insert(at, probe);
        (known != Some(probe)).then_some(News::Miswired(Miswiring { at, heard: probe }))
    }

    /// When others last heard a node's probes.
    pub(crate) fn last_probe_of(&self, node: NodeKey) -> Option<Instant> {
        let others = self.ends.values().filter(|direction| direction.sender.0 == node);
        others.filter_map(|direction| direction.heard).max()
    }

    /// Ends a beat, in which every node for which `able` is true should have sent probes and reported those it heard.
    pub(crate) fn beat(&mut self, able: impl Fn(NodeKey) -> bool) -> Vec<News> {
        let heard = std::mem::take(&mut self.heard);
        for ((listener, _), Direction { sender, detector, .. }) in &mut self.ends {
            let ends = [listener, &sender.0];
            match ends.iter().all(|end| able(**end)) {
                // A switch that cannot be heard may not even have been told to send probes.
                true => detector.beat(ends.iter().all(|end| heard.contains(end))),
                false => detector.skip(),
            }
        }
        let mut lost = BTreeMap::new();
        for direction in self.ends.values() {
            if direction.detector.is_dead() {
                lost.insert(direction.link, Life::Dead);
            } else if direction.detector.is_silent() && !self.is_heard_back(direction) {
                lost.entry(direction.link).or_insert(Life::Silent);
            }
        }
        let life = |links: &BTreeMap<LinkKey, Life>, link| links.get(link).copied().unwrap_or(Life::Alive);
        let both: BTreeSet<_> = self.lost.keys().chain(lost.keys()).copied().collect();
        let news = both.iter().filter(|link| life(&self.lost, link) != life(&lost, link));
        let news = news.map(|link| News::Link(*link, life(&lost, link))).collect();
        self.lost = lost;
        news
    }

    /// Whether frames get through in the other direction: then the cable is whole, and only its listener cannot be
    /// heard.
    fn is_heard_back(&self, direction: &Direction) -> bool {
        self.ends.get(&direction.sender).is_some_and(|back| back.detector.is_alive())
    }

    /// Cables that frames do not get through, in one direction or both.
    pub(crate) fn dead(&self) -> impl Iterator<Item = LinkKey> {
        self.lost.iter().filter(|(_, life)| **life == Life::Dead).map(|(link, _)| *link)
    }

    /// Cables that do not lead where the topology says.
    pub(crate) fn miswired(&self) -> impl Iterator<Item = Miswiring> {
        self.miswired.iter().map(|(at, heard)| Miswiring { at: *at, heard: *heard })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::topology;

    struct Net {
        topology: std::sync::Arc<Topology>,
        cabling: Cabling,
    }

    impl Net {
        fn new() -> Self {
            let topology = topology();
            Self { cabling: Cabling::new(&topology), topology }
        }

        fn end(&self, node: &str, towards: &str) -> End {
            let (node, towards) = (self.topology.find(node).unwrap(), self.topology.find(towards).unwrap());
            let via = self.topology.neighbours(node).into_iter().find(|via| via.node == towards).unwrap();
            (node, via.port)
        }

        fn probe(&self, node: &str, towards: &str) -> Probe {
            let (key, port) = self.end(node, towards);
            Probe { node: self.topology[key].id, port }
        }

        fn link(&self, node: &str, towards: &str) -> LinkKey {
            let (key, port) = self.end(node, towards);
            self.topology.neighbour(key, port).unwrap().link
        }

        /// Runs beats in which every cable works except those `cut`, in the given directions, and the nodes that are
        /// `away` are known to be so.
        fn beats(&mut self, count: usize, cut: &[(&str, &str)], away: &[&str]) -> Vec<News> {
            self.beats_with(count, cut, away, &[])
        }

        /// The same, while nothing is heard of the `silent` nodes either, which should be there.
        fn beats_with(
            &mut self,
            count: usize,
            cut: &[(&str, &str)],
            away: &[&str],
            silent: &[&str],
        ) -> Vec<News> {
            let key = |name: &&str| self.topology.find(name).unwrap();
            let (away, silent): (Vec<_>, Vec<_>) =
                (away.iter().map(key).collect(), silent.iter().map(key).collect());
            let is_host = |node: NodeKey| self.topology[node].host().is_some();
            let cut: Vec<_> = cut.iter().map(|(from, to)| self.end(to, from)).collect();
            let mut news = Vec::new();
            for _ in 0..count {
                let ends: Vec<_> = self
                    .cabling
                    .ends
                    .iter()
                    .map(|(at, direction)| (*at, direction.sender, direction.expected))
                    .collect();
                for (at, sender, probe) in ends {
                    let is_sent =
                        !away.contains(&sender.0) && (!silent.contains(&sender.0) || is_host(sender.0));
                    if away.contains(&at.0) || silent.contains(&at.0) {
                        continue;
                    }
                    self.cabling.hear_of(at.0, Instant::now());
                    if is_sent && !cut.contains(&at) {
                        news.extend(self.cabling.hear(at, probe, Instant::now()));
                    }
                }
                news.extend(self.cabling.beat(|node| !away.contains(&node)));
            }
            news
        }
    }

    #[test]
    fn a_cut_cable_dies_in_either_direction_and_comes_alive() {
        for cut in [vec![("leaf0", "w0")], vec![("w0", "leaf0")], vec![("leaf0", "w0"), ("w0", "leaf0")]] {
            let mut net = Net::new();
            let link = net.link("leaf0", "w0");
            assert_eq!(net.beats(5, &[], &[]), []);
            assert_eq!(net.beats(30, &cut, &[]), [News::Link(link, Life::Dead)]);
            assert_eq!(net.beats(30, &[], &[]), [News::Link(link, Life::Alive)]);
        }
    }

    #[test]
    fn a_switch_or_host_that_is_away_kills_no_cable() {
        let mut net = Net::new();
        net.beats(5, &[], &[]);
        assert_eq!(net.beats(50, &[], &["leaf0", "w3"]), []);
        assert_eq!(net.beats(50, &[], &[]), []);
    }

    #[test]
    fn of_a_switch_that_cannot_be_heard_nothing_is_certain() {
        let mut net = Net::new();
        net.beats(5, &[], &[]);
        let news = net.beats_with(50, &[], &[], &["leaf0"]);
        assert!(
            !news.is_empty() && news.iter().all(|one| matches!(one, News::Link(_, Life::Silent))),
            "{news:?}"
        );
        assert_eq!(net.cabling.dead().count(), 0);
        let back = net.beats(10, &[], &[]);
        assert_eq!(back.len(), news.len());
        assert!(back.iter().all(|one| matches!(one, News::Link(_, Life::Alive))), "{back:?}");
        // A cable that was cut meanwhile is dead soon after.
        net.beats_with(50, &[], &[], &["leaf0"]);
        let link = net.link("leaf0", "w0");
        let found = net.beats(10, &[("leaf0", "w0")], &[]);
        assert!(found.contains(&News::Link(link, Life::Dead)), "{found:?}");
        assert_eq!(net.cabling.dead().collect::<Vec<_>>(), [link]);
    }

    #[test]
    fn a_cable_whose_host_only_the_controller_cannot_hear_is_alive() {
        let mut net = Net::new();
        net.beats(5, &[], &[]);
        assert_eq!(net.beats_with(50, &[], &[], &["w0"]), []);
        let link = net.link("leaf0", "w0");
        let found = net.beats_with(50, &[("w0", "leaf0")], &[], &["w0"]);
        assert_eq!(found, [News::Link(link, Life::Silent)], "now its probes do not come either");
    }

    #[test]
    fn what_was_never_heard_is_dead_only_if_it_should_have_been() {
        let mut net = Net::new();
        assert_eq!(net.beats_with(50, &[], &[], &["leaf0"]), []);
        let link = net.link("leaf0", "w0");
        assert_eq!(net.beats(50, &[("leaf0", "w0")], &[]), [News::Link(link, Life::Dead)]);
    }

    #[test]
    fn swapped_cables_are_named_once_and_taken_back() {
        let mut net = Net::new();
        let (at, wrong) = (net.end("leaf0", "w0"), net.probe("w1", "leaf0"));
        let now = Instant::now();
        let miswiring = Miswiring { at, heard: wrong };
        assert_eq!(net.cabling.hear(at, wrong, now), Some(News::Miswired(miswiring.clone())));
        assert_eq!(net.cabling.hear(at, wrong, now), None);
        assert_eq!(net.cabling.miswired().collect::<Vec<_>>(), [miswiring]);
        let right = net.probe("w0", "leaf0");
        assert_eq!(net.cabling.hear(at, right, now), Some(News::Rewired(at)));
        assert_eq!(net.cabling.miswired().count(), 0);
    }
}
