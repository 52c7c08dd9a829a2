//! Judges the cables: compares the probes that arrive at each end of a cable with the topology.

use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet};

use tokio::time::Instant;
use tributary_topology::{LinkKey, NodeKey, Topology};
use tributary_wire::{NodeId, Probe, SliceWidth};

use super::direction::{Audibility, Direction, End};
use super::life::Life;
use super::{LONG_PROBES_EVERY, widest_sent_over};

/// An event about a cable.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum News {
    /// The state of a cable has changed.
    Link(LinkKey, Life),
    /// A cable is not plugged in as the topology says.
    Miswired(Miswiring),
    /// The cable at this end is plugged in as the topology says again.
    Rewired(End),
}

/// A cable that is not plugged in as the topology says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Miswiring {
    /// The end at which a wrong probe arrived.
    pub(crate) at: End,
    /// The wrong probe, which names the end that sent it.
    pub(crate) heard: Probe,
}

/// Wrong probes that arrive at one end of a cable.
/// An attacker may forge any number of wrong probes. To limit events, only some of them are reported.
#[derive(Debug)]
struct WrongProbes {
    /// The wrong probe that the controller last reported.
    told: Probe,
    told_before: u32,
    /// Number of ticks since the last wrong probe.
    quiet: u32,
    /// True if the right probe has arrived since the last wrong one.
    is_right_again: bool,
}

impl WrongProbes {
    /// Number of ticks after a report before a different wrong probe is reported.
    const TOLD_AGAIN_AFTER: u32 = 100;
    /// Number of ticks without wrong probes after which the cable counts as plugged in correctly.
    const RIGHT_AFTER: u32 = 10;

    fn new(told: Probe) -> Self {
        Self { told, told_before: 0, quiet: 0, is_right_again: false }
    }

    /// Notes another wrong probe. Returns true if the controller should report it.
    fn hear(&mut self, probe: Probe) -> bool {
        (self.quiet, self.is_right_again) = (0, false);
        let is_news = probe != self.told && self.told_before >= Self::TOLD_AGAIN_AFTER;
        if is_news {
            *self = Self::new(probe);
        }
        is_news
    }

    /// Ends a tick. Returns true if the cable now counts as plugged in correctly.
    fn tick(&mut self) -> bool {
        self.told_before = self.told_before.saturating_add(1);
        self.quiet = self.quiet.saturating_add(1);
        self.is_right_again && self.quiet >= Self::RIGHT_AFTER
    }
}

/// The states of a topology's cables, according to probes.
#[derive(Debug)]
pub(crate) struct Cabling {
    /// For each end of a cable, the direction whose frames arrive there.
    ends: BTreeMap<End, Direction>,
    miswired: BTreeMap<End, WrongProbes>,
    /// Cables that are not alive, with their states.
    lost: BTreeMap<LinkKey, Life>,
    /// Nodes from which any report has arrived since the last tick.
    heard: BTreeSet<NodeKey>,
    /// Nodes from which any report has arrived since the last tick of the long probes.
    heard_of_late: BTreeSet<NodeKey>,
    /// The time at which the last report of each node arrived.
    words: BTreeMap<NodeKey, Instant>,
    /// The widest slices that the switches support.
    widest: SliceWidth,
    /// The number of ticks that have ended.
    ticks: u32,
}

impl Cabling {
    /// Creates cables with unknown states. `widest` is the widest slice that the switches support.
    pub(crate) fn new(topology: &Topology, widest: SliceWidth) -> Self {
        let mut cabling = Self {
            ends: BTreeMap::new(),
            miswired: BTreeMap::new(),
            lost: BTreeMap::new(),
            heard: BTreeSet::new(),
            heard_of_late: BTreeSet::new(),
            words: BTreeMap::new(),
            widest,
            ticks: 0,
        };
        cabling.adopt(topology);
        cabling
    }

    /// Adds the topology's new cables. Known cables keep their states.
    pub(crate) fn adopt(&mut self, topology: &Topology) {
        for (listener, _) in topology.nodes() {
            for via in topology.neighbours(listener) {
                let node: NodeId = topology[via.node].id;
                let expected = Probe { node, port: via.remote_port };
                let widest = widest_sent_over(&topology[via.link], self.widest);
                let (rate, sender) = (topology[via.link].rate, (via.node, via.remote_port));
                let direction = || Direction::new(via.link, rate, sender, expected, widest);
                self.ends.entry((listener, via.port)).or_insert_with(direction);
            }
        }
    }

    /// Notes that a node has sent a report of the probes that it received. The report may be empty.
    pub(crate) fn hear_of(&mut self, node: NodeKey, now: Instant) {
        self.heard.insert(node);
        self.words.insert(node, now);
    }

    /// Returns the time at which the last report of a node arrived.
    pub(crate) fn last_word_of(&self, node: NodeKey) -> Option<Instant> {
        self.words.get(&node).copied()
    }

    /// Returns true if any report has arrived since the last tick.
    pub(crate) fn is_heard(&self) -> bool {
        !self.heard.is_empty()
    }

    /// Returns true if any of `nodes` has ever sent a report. Such a node should keep sending reports.
    pub(crate) fn expects(&self, nodes: &BTreeSet<NodeKey>) -> bool {
        nodes.iter().any(|node| self.words.contains_key(node))
    }

    /// Notes that a probe arrived at one end of a cable, in a frame of `bytes` bytes. Returns an event if
    /// there is one.
    pub(crate) fn hear(&mut self, at: End, probe: Probe, bytes: usize, now: Instant) -> Option<News> {
        self.hear_of(at.0, now);
        let direction = self.ends.get_mut(&at)?;
        if direction.expected == probe {
            direction.hear(bytes, now);
            self.miswired.entry(at).and_modify(|wrong| wrong.is_right_again = true);
            return None;
        }
        let is_news = match self.miswired.entry(at) {
            Entry::Vacant(entry) => {
                entry.insert(WrongProbes::new(probe));
                true
            }
            Entry::Occupied(mut entry) => entry.get_mut().hear(probe),
        };
        is_news.then_some(News::Miswired(Miswiring { at, heard: probe }))
    }

    /// Returns the time at which another node last received a probe of `node`.
    pub(crate) fn last_probe_of(&self, node: NodeKey) -> Option<Instant> {
        let others = self.ends.values().filter(|direction| direction.sender.0 == node);
        others.filter_map(|direction| direction.heard).max()
    }

    /// Returns true if the nodes must also send long probes in this tick.
    pub(crate) fn are_long_probes_due(&self) -> bool {
        self.ticks.is_multiple_of(LONG_PROBES_EVERY)
    }

    /// Ends a tick, and returns the events of the tick.
    /// Each node for which `able` is true should have sent probes and reported the probes that it received.
    pub(crate) fn tick(&mut self, able: impl Fn(NodeKey) -> bool) -> Vec<News> {
        let heard = std::mem::take(&mut self.heard);
        self.heard_of_late.extend(&heard);
        let heard_of_late = self.are_long_probes_due().then(|| std::mem::take(&mut self.heard_of_late));
        self.ticks = self.ticks.wrapping_add(1);
        for ((listener, _), direction) in &mut self.ends {
            let ends = [*listener, direction.sender.0];
            let audibility = |heard: &BTreeSet<NodeKey>| match ends.iter().all(|end| able(*end)) {
                true if ends.iter().all(|end| heard.contains(end)) => Audibility::Audible,
                // The controller cannot reach this switch, so the switch may not even have received the order to send
                // probes.
                true => Audibility::Doubtful,
                false => Audibility::Unreachable,
            };
            direction.tick(audibility(&heard));
            if let Some(heard) = &heard_of_late {
                direction.tick_of_long_probes(audibility(heard));
            }
        }
        let mut lost: BTreeMap<LinkKey, Life> = BTreeMap::new();
        for direction in self.ends.values() {
            let is_heard_back = self.ends.get(&direction.sender).is_some_and(Direction::is_alive);
            let life = direction.life(is_heard_back);
            if life > Life::Alive {
                let worst = lost.entry(direction.link).or_insert(life);
                *worst = life.max(*worst);
            }
        }
        let life = |links: &BTreeMap<LinkKey, Life>, link| links.get(link).copied().unwrap_or(Life::Alive);
        let both: BTreeSet<_> = self.lost.keys().chain(lost.keys()).copied().collect();
        let news = both.iter().filter(|link| life(&self.lost, link) != life(&lost, link));
        let news = news.map(|link| News::Link(*link, life(&lost, link)));
        let rewired = self.miswired.extract_if(.., |_, wrong| wrong.tick());
        let news = news.chain(rewired.map(|(at, _)| News::Rewired(at))).collect();
        self.lost = lost;
        news
    }

    /// Returns the cables that are not alive, with their states.
    pub(crate) fn lost(&self) -> impl Iterator<Item = (LinkKey, Life)> {
        self.lost.iter().map(|(link, life)| (*link, *life))
    }

    /// Returns the cables that are not plugged in as the topology says.
    pub(crate) fn miswired(&self) -> impl Iterator<Item = Miswiring> {
        self.miswired.iter().map(|(at, wrong)| Miswiring { at: *at, heard: wrong.told })
    }
}

#[cfg(test)]
mod tests {
    use tributary_wire::frame::longest_frame;
    use tributary_wire::probe::FRAME_BYTES;

    use super::*;
    use crate::testing::topology;

    struct Net {
        topology: std::sync::Arc<Topology>,
        cabling: Cabling,
        /// Ends at which long frames do not arrive.
        short_of_mtu: Vec<End>,
    }

    const WIDTH: SliceWidth = SliceWidth::ETHERNET;

    impl Net {
        fn new() -> Self {
            let topology = topology();
            Self { cabling: Cabling::new(&topology, WIDTH), topology, short_of_mtu: Vec::new() }
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

        /// Runs ticks in which all cables work, except the directions in `cut`.
        /// The nodes in `unreachable` are known to be unreachable.
        fn ticks(&mut self, count: usize, cut: &[(&str, &str)], unreachable: &[&str]) -> Vec<News> {
            self.ticks_with(count, cut, unreachable, &[])
        }

        /// Runs ticks like `ticks`. In addition, the nodes in `silent` count as reachable but send no reports.
        fn ticks_with(
            &mut self,
            count: usize,
            cut: &[(&str, &str)],
            unreachable: &[&str],
            silent: &[&str],
        ) -> Vec<News> {
            let key = |name: &&str| self.topology.find(name).unwrap();
            let (unreachable, silent): (Vec<_>, Vec<_>) =
                (unreachable.iter().map(key).collect(), silent.iter().map(key).collect());
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
                let are_long = self.cabling.are_long_probes_due();
                for (at, sender, probe) in ends {
                    let is_sent = !unreachable.contains(&sender.0)
                        && (!silent.contains(&sender.0) || is_host(sender.0));
                    if unreachable.contains(&at.0) || silent.contains(&at.0) {
                        continue;
                    }
                    self.cabling.hear_of(at.0, Instant::now());
                    if is_sent && !cut.contains(&at) {
                        let is_long = are_long && !self.short_of_mtu.contains(&at);
                        let bytes = if is_long { longest_frame(WIDTH) } else { FRAME_BYTES };
                        news.extend(self.cabling.hear(at, probe, bytes, Instant::now()));
                    }
                }
                news.extend(self.cabling.tick(|node| !unreachable.contains(&node)));
            }
            news
        }
    }

    #[test]
    fn a_cut_cable_dies_in_either_direction_and_comes_alive() {
        for cut in [vec![("leaf0", "w0")], vec![("w0", "leaf0")], vec![("leaf0", "w0"), ("w0", "leaf0")]] {
            let mut net = Net::new();
            let link = net.link("leaf0", "w0");
            assert_eq!(net.ticks(5, &[], &[]), []);
            assert_eq!(net.ticks(30, &cut, &[]), [News::Link(link, Life::Dead)]);
            assert_eq!(net.ticks(30, &[], &[]), [News::Link(link, Life::Alive)]);
        }
    }

    #[test]
    fn a_cable_that_swallows_long_frames_is_told_from_a_dead_one_and_comes_back() {
        let mut net = Net::new();
        let (link, at) = (net.link("leaf0", "w0"), net.end("leaf0", "w0"));
        assert_eq!(net.ticks(25, &[], &[]), []);
        net.short_of_mtu = vec![at];
        assert_eq!(net.ticks(90, &[], &[]), [], "a busy link may lose some of them");
        assert_eq!(net.ticks(20, &[], &[]), [News::Link(link, Life::ShortOfMtu(WIDTH))]);
        // While the cable is cut, it is dead. After its repair, it still loses long frames.
        let found = [net.ticks(20, &[("leaf0", "w0")], &[]), net.ticks(20, &[], &[])].concat();
        assert_eq!(found, [News::Link(link, Life::Dead), News::Link(link, Life::ShortOfMtu(WIDTH))]);
        net.short_of_mtu.clear();
        assert_eq!(net.ticks(60, &[], &[]), [News::Link(link, Life::Alive)]);
    }

    #[test]
    fn a_cable_that_never_let_long_frames_through_is_known_too() {
        let mut net = Net::new();
        net.short_of_mtu = vec![net.end("w0", "leaf0")];
        let link = net.link("leaf0", "w0");
        assert_eq!(net.ticks(120, &[], &[]), [News::Link(link, Life::ShortOfMtu(WIDTH))]);
    }

    #[test]
    fn what_is_known_of_a_cable_stays_while_only_the_controller_cannot_hear_its_host() {
        let mut net = Net::new();
        net.short_of_mtu = vec![net.end("w0", "leaf0")];
        let link = net.link("leaf0", "w0");
        assert_eq!(net.ticks(120, &[], &[]), [News::Link(link, Life::ShortOfMtu(WIDTH))]);
        assert_eq!(net.ticks_with(300, &[], &[], &["w0"]), []);
    }

    #[test]
    fn long_probes_that_could_not_be_heard_say_nothing() {
        let mut net = Net::new();
        net.ticks(20, &[], &[]);
        assert_eq!(net.ticks(300, &[], &["leaf0"]), [], "nobody sends them");
        net.ticks_with(300, &[], &[], &["leaf0"]);
        assert!(net.cabling.lost().all(|(_, life)| life == Life::Silent));
        let back = net.ticks(60, &[], &[]);
        assert!(back.iter().all(|one| matches!(one, News::Link(_, Life::Alive))), "{back:?}");
    }

    #[test]
    fn a_switch_or_host_that_is_away_kills_no_cable() {
        let mut net = Net::new();
        net.ticks(5, &[], &[]);
        assert_eq!(net.ticks(50, &[], &["leaf0", "w3"]), []);
        assert_eq!(net.ticks(50, &[], &[]), []);
    }

    #[test]
    fn of_a_switch_that_cannot_be_heard_nothing_is_certain() {
        let mut net = Net::new();
        net.ticks(5, &[], &[]);
        let news = net.ticks_with(50, &[], &[], &["leaf0"]);
        assert!(
            !news.is_empty() && news.iter().all(|one| matches!(one, News::Link(_, Life::Silent))),
            "{news:?}"
        );
        assert!(net.cabling.lost().all(|(_, life)| life == Life::Silent));
        let back = net.ticks(10, &[], &[]);
        assert_eq!(back.len(), news.len());
        assert!(back.iter().all(|one| matches!(one, News::Link(_, Life::Alive))), "{back:?}");
        // If the cable was cut in the meantime, it is dead a few ticks later.
        net.ticks_with(50, &[], &[], &["leaf0"]);
        let link = net.link("leaf0", "w0");
        let found = net.ticks(10, &[("leaf0", "w0")], &[]);
        assert!(found.contains(&News::Link(link, Life::Dead)), "{found:?}");
        assert_eq!(net.cabling.lost().collect::<Vec<_>>(), [(link, Life::Dead)]);
    }

    #[test]
    fn a_cable_whose_host_only_the_controller_cannot_hear_is_alive() {
        let mut net = Net::new();
        net.ticks(5, &[], &[]);
        assert_eq!(net.ticks_with(50, &[], &[], &["w0"]), []);
        let link = net.link("leaf0", "w0");
        let found = net.ticks_with(50, &[("w0", "leaf0")], &[], &["w0"]);
        assert_eq!(found, [News::Link(link, Life::Silent)], "now its probes do not come either");
    }

    #[test]
    fn what_was_never_heard_is_dead_only_if_it_should_have_been() {
        let mut net = Net::new();
        assert_eq!(net.ticks_with(50, &[], &[], &["leaf0"]), []);
        let link = net.link("leaf0", "w0");
        assert_eq!(net.ticks(50, &[("leaf0", "w0")], &[]), [News::Link(link, Life::Dead)]);
    }

    #[test]
    fn swapped_cables_are_named_once_and_taken_back() {
        let mut net = Net::new();
        let (at, wrong) = (net.end("leaf0", "w0"), net.probe("w1", "leaf0"));
        let now = Instant::now();
        let miswiring = Miswiring { at, heard: wrong };
        assert_eq!(net.cabling.hear(at, wrong, FRAME_BYTES, now), Some(News::Miswired(miswiring.clone())));
        assert_eq!(net.cabling.hear(at, wrong, FRAME_BYTES, now), None);
        assert_eq!(net.cabling.miswired().collect::<Vec<_>>(), [miswiring]);
        assert_eq!(net.ticks(20, &[("w0", "leaf0")], &[]), [News::Link(net.link("w0", "leaf0"), Life::Dead)]);
        assert_eq!(net.cabling.miswired().count(), 1, "nothing that is right has come");
        assert_eq!(net.ticks(1, &[], &[]), [News::Rewired(at)]);
        assert_eq!(net.cabling.miswired().count(), 0);
    }

    #[test]
    fn whoever_forges_probes_does_not_fill_the_log() {
        let mut net = Net::new();
        let at = net.end("leaf0", "w0");
        let mut news = Vec::new();
        for tick in 0..300 {
            for port in 0..10 {
                let forged = Probe { port: port + tick % 7, ..net.probe("w1", "leaf0") };
                news.extend(net.cabling.hear(at, forged, FRAME_BYTES, Instant::now()));
            }
            // The host's own probes arrive between the forged ones.
            news.extend(net.ticks(1, &[], &[]));
        }
        assert_eq!(news.len(), 3, "{news:?}");
        assert_eq!(net.ticks(20, &[], &[]), [News::Rewired(at)]);
    }
}
