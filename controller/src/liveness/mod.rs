//! What is alive: switches by their sessions, cables by probes.
//!
//! Every [`PROBE_INTERVAL`] the controller lets each switch send a probe ([`tributary_wire::probe`]) out of each port
//! that has a cable, and hosts do so by themselves. A switch hands the probes that come in to the controller, hosts
//! tell which they have heard. So each direction of each cable shows that it works, and where it leads.

mod cabling;
mod detector;
mod pulse;

use std::sync::{Arc, Weak};
use std::time::Duration;

use tokio::sync::broadcast::error::RecvError;
use tokio::time::{Instant, MissedTickBehavior, interval};
use tributary_api::v1;
use tributary_topology::{LinkKey, NodeKey, Topology};
use tributary_wire::{MacAddr, NodeId, Probe};

use crate::book::Book;
use crate::manager::Manager;
pub(crate) use cabling::{Cabling, End, Miswiring, News};
pub(crate) use pulse::Pulse;

/// Between two probes of a cable.
pub(crate) const PROBE_INTERVAL: Duration = Duration::from_millis(100);

/// Starts the watch over all switches and cables; it ends with the manager.
pub(crate) fn watch(manager: &Arc<Manager>) {
    for key in manager.switches().keys() {
        tokio::spawn(watch_switch(Arc::downgrade(manager), *key));
    }
    tokio::spawn(hear_switches(Arc::downgrade(manager)));
    tokio::spawn(beat(Arc::downgrade(manager)));
}

/// Lets the planner know whether a switch is there.
async fn watch_switch(manager: Weak<Manager>, key: NodeKey) {
    let Some(mut health) = manager.upgrade().and_then(|manager| Some(manager.switches().get(&key)?.health()))
    else {
        return;
    };
    loop {
        let is_away = health.borrow_and_update().reason().is_some();
        let Some(manager) = manager.upgrade() else { return };
        manager.note_node(key, !is_away);
        drop(manager);
        if health.changed().await.is_err() {
            return;
        }
    }
}

/// Takes the probes that switches hand up.
async fn hear_switches(manager: Weak<Manager>) {
    let Some(mut packets) = manager.upgrade().map(|manager| manager.packet_ins()) else { return };
    loop {
        let packet = match packets.recv().await {
            Ok(packet) => packet,
            Err(RecvError::Lagged(lost)) => {
                tracing::debug!(lost, "probes came faster than they are read");
                continue;
            }
            Err(RecvError::Closed) => return,
        };
        let Some(manager) = manager.upgrade() else { return };
        if let Ok(probe) = Probe::parse(&packet.payload) {
            manager.hear_probe((packet.switch, packet.port), probe);
        }
    }
}

/// Sends probes, and looks at what has been heard since the last ones.
async fn beat(manager: Weak<Manager>) {
    let mut beats = interval(PROBE_INTERVAL);
    // One that comes late is one beat: what was not heard meanwhile says nothing.
    beats.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        beats.tick().await;
        let Some(manager) = manager.upgrade() else { return };
        manager.beat();
    }
}

impl Manager {
    /// A switch has died or come back.
    fn note_node(&self, key: NodeKey, alive: bool) {
        let mut book = self.book();
        if book.health.set_node(key, alive, Instant::now()) {
            book.look_at_all();
        }
    }

    fn hear_probe(&self, at: End, probe: Probe) {
        let news = self.book().cabling.hear(at, probe);
        if let Some(news) = news {
            self.announce(&news);
        }
    }

    /// What a host's daemon tells.
    pub(crate) fn hear(&self, host: NodeKey, heartbeat: &v1::Heartbeat) {
        let Some(via) = self.topology().neighbours(host).into_iter().next() else { return };
        for heard in &heartbeat.probes {
            let node = u16::try_from(heard.node).ok().and_then(NodeId::new);
            if let (Some(node), Ok(port)) = (node, u16::try_from(heard.port)) {
                self.hear_probe((host, via.port), Probe { node, port });
            }
        }
        let mut book = self.book();
        book.progress.note(&self.topology()[host].name, &heartbeat.jobs, Instant::now());
        for progress in &heartbeat.jobs {
            book.jobs.note_progress(host, progress);
        }
    }

    fn beat(&self) {
        for (key, switch) in self.switches() {
            let node = self.topology()[*key].id;
            for via in self.topology().neighbours(*key) {
                let probe = Probe { node, port: via.port };
                switch.packet_out(via.port, probe.to_frame(source_of(node)).to_vec());
            }
        }
        let news = {
            let mut book = self.book();
            let book: &mut Book = &mut book;
            book.pulse.beat(Instant::now());
            let hosts = &book.hosts;
            book.cabling.beat(|key: NodeKey| match self.switches().get(&key) {
                Some(switch) => switch.health().borrow().is_up(),
                None => hosts.attends(&self.topology()[key].name),
            })
        };
        for news in &news {
            self.announce(news);
        }
    }

    /// Tells the log, and those who depend on it.
    fn announce(&self, news: &News) {
        let mut book = self.book();
        let topology = &self.topology();
        let now = Instant::now();
        let news = match news {
            News::LinkDied(link) => {
                tracing::warn!(cable = cable(topology, *link), "no frames get through any more");
                book.health.set_link(*link, false, now)
            }
            News::LinkCameAlive(link) => {
                tracing::info!(cable = cable(topology, *link), "frames get through again");
                book.health.set_link(*link, true, now)
            }
            News::Miswired(one) => {
                tracing::warn!("{}: correct the cable or the topology", miswiring(topology, one));
                false
            }
            News::Rewired((node, port)) => {
                tracing::info!(node = topology[*node].name, port, "the cable leads where the topology says");
                false
            }
        };
        if news {
            book.look_at_all();
        }
    }
}

/// A cable, for people.
pub(crate) fn cable(topology: &Topology, link: LinkKey) -> String {
    let ends = topology[link].ends.map(|end| topology[end.node].name.as_str());
    format!("the cable between {}", ends.join(" and "))
}

/// A cable that does not lead where the topology says, for people.
pub(crate) fn miswiring(topology: &Topology, Miswiring { at: (node, port), heard }: &Miswiring) -> String {
    let sender = topology.nodes().find(|(_, node)| node.id == heard.node);
    let sender = sender.map_or_else(|| format!("node {}", heard.node), |(_, node)| node.name.clone());
    let expected = topology
        .neighbour(*node, *port)
        .map(|via| format!("port {} of {}", via.remote_port, topology[via.node].name));
    format!(
        "port {port} of {} leads to port {} of {sender}, and not to {}",
        topology[*node].name,
        heard.port,
        expected.unwrap_or_else(|| "nothing, as the topology says".to_owned())
    )
}

/// A locally administered address for a switch's own frames.
fn source_of(node: NodeId) -> MacAddr {
    let [high, low] = node.get().to_be_bytes();
    MacAddr::new(0x02, 0x74, 0x72, 0x00, high, low)
}
