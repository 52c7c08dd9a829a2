//! Who hears whose probes, and what that says of the cables.

use std::collections::{BTreeMap, BTreeSet};

use tributary_topology::{LinkKey, NodeKey, Topology};
use tributary_wire::{NodeId, Probe};

use super::detector::Detector;

/// One end of a cable.
pub(crate) type End = (NodeKey, u16);

/// Something that has turned out about a cable.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum News {
    /// Frames do not get through, in one direction or both.
    LinkDied(LinkKey),
    LinkCameAlive(LinkKey),
    /// What is plugged in here is not what the topology says.
    Miswired(Miswiring),
    /// It is what the topology says, at last.
    Rewired(End),
}

/// A cable that does not lead where the topology says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Miswiring {
    /// Where a wrong probe came in.
    pub(crate) at: End,
    /// What it says of where it was sent.
    pub(crate) heard: Probe,
}

/// The cables of a topology, as probes show them.
#[derive(Debug)]
pub(crate) struct Cabling {
    /// Who is to be heard at each end.
    ends: BTreeMap<End, Direction>,
    miswired: BTreeMap<End, Probe>,
    dead: BTreeSet<LinkKey>,
}

/// What comes in at one end of a cable.
#[derive(Debug)]
struct Direction {
    link: LinkKey,
    sender: End,
    /// What the sender's probes say.
    expected: Probe,
    detector: Detector,
}

impl Cabling {
    /// Nothing is known of any cable yet.
    pub(crate) fn new(topology: &Topology) -> Self {
        let mut cabling = Self { ends: BTreeMap::new(), miswired: BTreeMap::new(), dead: BTreeSet::new() };
        cabling.adopt(topology);
        cabling
    }

    /// The topology has more cables than it had; what is known of the others stays.
    pub(crate) fn adopt(&mut self, topology: &Topology) {
        for (listener, _) in topology.nodes() {
            for via in topology.neighbours(listener) {
                let node: NodeId = topology[via.node].id;
                let direction = Direction {
                    link: via.link,
                    sender: (via.node, via.remote_port),
                    expected: Probe { node, port: via.remote_port },
                    detector: Detector::default(),
                };
                self.ends.entry((listener, via.port)).or_insert(direction);
            }
        }
    }

    /// A probe has come in at one end of a cable.
    pub(crate) fn hear(&mut self, at: End, probe: Probe) -> Option<News> {
        let direction = self.ends.get_mut(&at)?;
        if direction.expected == probe {
            direction.detector.hear();
            return self.miswired.remove(&at).map(|_| News::Rewired(at));
        }
        let known = self.miswired.insert(at, probe);
        (known != Some(probe)).then_some(News::Miswired(Miswiring { at, heard: probe }))
    }

    /// A beat is over, in which everyone for whom `able` is true has sent probes and told of those that came.
    pub(crate) fn beat(&mut self, able: impl Fn(NodeKey) -> bool) -> Vec<News> {
        for ((listener, _), direction) in &mut self.ends {
            if !able(*listener) || !able(direction.sender.0) {
                direction.detector.skip();
                continue;
            }
            direction.detector.beat();
        }
        let dead_ends = self.ends.values().filter(|direction| direction.detector.is_dead());
        let dead: BTreeSet<_> = dead_ends.map(|direction| direction.link).collect();
        let news_of_death = dead.difference(&self.dead).map(|link| News::LinkDied(*link));
        let news_of_life = self.dead.difference(&dead).map(|link| News::LinkCameAlive(*link));
        let news = news_of_death.chain(news_of_life).collect();
        self.dead = dead;
        news
    }

    /// Cables that frames do not get through, in one direction or both.
    pub(crate) fn dead(&self) -> impl Iterator<Item = LinkKey> {
        self.dead.iter().copied()
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

        /// Beats in which all cables work but those between these pairs, in these directions.
        fn beats(&mut self, count: usize, cut: &[(&str, &str)], away: &[&str]) -> Vec<News> {
            let away: Vec<_> = away.iter().map(|name| self.topology.find(name).unwrap()).collect();
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
                    if !cut.contains(&at) && !away.contains(&at.0) && !away.contains(&sender.0) {
                        news.extend(self.cabling.hear(at, probe));
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
            assert_eq!(net.beats(30, &cut, &[]), [News::LinkDied(link)]);
            assert_eq!(net.beats(30, &[], &[]), [News::LinkCameAlive(link)]);
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
    fn what_was_never_heard_is_not_dead() {
        let mut net = Net::new();
        assert_eq!(net.beats(50, &[("leaf0", "w0"), ("w0", "leaf0")], &[]), []);
    }

    #[test]
    fn swapped_cables_are_named_once_and_taken_back() {
        let mut net = Net::new();
        let (at, wrong) = (net.end("leaf0", "w0"), net.probe("w1", "leaf0"));
        let miswiring = Miswiring { at, heard: wrong };
        assert_eq!(net.cabling.hear(at, wrong), Some(News::Miswired(miswiring.clone())));
        assert_eq!(net.cabling.hear(at, wrong), None);
        assert_eq!(net.cabling.miswired().collect::<Vec<_>>(), [miswiring]);
        let right = net.probe("w0", "leaf0");
        assert_eq!(net.cabling.hear(at, right), Some(News::Rewired(at)));
        assert_eq!(net.cabling.miswired().count(), 0);
    }
}
