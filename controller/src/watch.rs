//! Monitors switches and cables: sends probes, evaluates received probes, and reports changes.

use std::collections::BTreeSet;
use std::sync::{Arc, Weak};

use tokio::sync::broadcast::error::RecvError;
use tokio::time::{Instant, MissedTickBehavior, interval};
use tributary_api::v1;
use tributary_api::v1::EventKind;
use tributary_topology::NodeKey;
use tributary_transport::Standstill;
use tributary_wire::{MacAddr, NodeId, Probe};

use crate::liveness::{End, Life, News, PROBE_INTERVAL, cable, long_probe_bytes, miswiring, shortness};
use crate::manager::Manager;
use crate::state::ControllerState;
use crate::switch::SwitchHealth;

/// Starts the tasks that monitor all switches and cables. They end with the manager.
pub(crate) fn start(manager: &Arc<Manager>) {
    for key in manager.switches.keys() {
        tokio::spawn(watch_switch(Arc::downgrade(manager), *key));
    }
    tokio::spawn(hear_switches(Arc::downgrade(manager)));
    tokio::spawn(tick(Arc::downgrade(manager)));
}

/// Notes each change of a switch's health, and wakes the jobs' reconcilers.
async fn watch_switch(manager: Weak<Manager>, key: NodeKey) {
    let Some(mut health) = manager.upgrade().and_then(|manager| Some(manager.switches.get(&key)?.health()))
    else {
        return;
    };
    let mut before = SwitchHealth::Connecting { since: Instant::now() };
    loop {
        let now = health.borrow_and_update().clone();
        let life = match (now.reason(), now.is_dead()) {
            (None, _) => Life::Alive,
            (Some(_), false) => Life::Silent,
            (Some(_), true) => Life::Dead,
        };
        let Some(manager) = manager.upgrade() else { return };
        manager.note_node(key, life);
        manager.note_switch_event(key, &before, &now);
        before = now;
        drop(manager);
        if health.changed().await.is_err() {
            return;
        }
    }
}

/// Processes the probes that switches send to the controller.
async fn hear_switches(manager: Weak<Manager>) {
    let Some(mut packets) = manager.upgrade().map(|manager| manager.packet_ins.subscribe()) else { return };
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
            manager.hear_probe((packet.switch, packet.port), probe, packet.payload.len());
        }
    }
}

/// Runs the ticks. Each tick sends probes and evaluates the probes that have arrived since the last
/// tick.
async fn tick(manager: Weak<Manager>) {
    let mut ticks = interval(PROBE_INTERVAL);
    // A delayed tick is not made up for, because missing probes from a period without ticks prove nothing.
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        ticks.tick().await;
        let Some(manager) = manager.upgrade() else { return };
        manager.tick();
    }
}

impl Manager {
    /// Notes the new state of a switch.
    fn note_node(&self, key: NodeKey, life: Life) {
        let mut state = self.state();
        if state.health.set_node(key, life, Instant::now()) {
            state.look_at_all();
        }
    }

    /// Records an event when a switch connects or is lost.
    ///
    /// Further failed attempts to connect to an unreachable switch are not recorded.
    fn note_switch_event(&self, key: NodeKey, before: &SwitchHealth, now: &SwitchHealth) {
        let topology = self.topology();
        let name = &topology[key].name;
        match (before, now) {
            (SwitchHealth::Unreachable { .. }, SwitchHealth::Up { .. }) => {
                self.events.of_node(EventKind::SwitchUp, name, "is up again, with what it should hold");
            }
            (SwitchHealth::Connecting { .. }, SwitchHealth::Up { .. }) => {
                self.events.of_node(EventKind::SwitchUp, name, "is up");
            }
            (
                SwitchHealth::Connecting { .. } | SwitchHealth::Up { .. },
                SwitchHealth::Unreachable { reason, .. },
            ) => {
                self.events.of_node(EventKind::SwitchUnreachable, name, &format!("is unreachable: {reason}"));
            }
            _ => {}
        }
    }

    fn hear_probe(&self, at: End, probe: Probe, bytes: usize) {
        let news = self.state().cabling.hear(at, probe, bytes, Instant::now());
        if let Some(news) = news {
            self.announce(&news);
        }
    }

    /// Processes the heartbeat of a host's daemon.
    pub(crate) fn hear(&self, host: NodeKey, heartbeat: &v1::Heartbeat) {
        let Some(via) = self.topology().neighbours(host).into_iter().next() else { return };
        for heard in &heartbeat.probes {
            let node = u16::try_from(heard.node).ok().and_then(NodeId::new);
            if let (Some(node), Ok(port)) = (node, u16::try_from(heard.port)) {
                let bytes = usize::try_from(heard.bytes).unwrap_or(usize::MAX);
                self.hear_probe((host, via.port), Probe { node, port }, bytes);
            }
        }
        let mut state = self.state();
        state.cabling.hear_of(host, Instant::now());
        state.jobs.note_heartbeat((host, &self.topology()[host].name), heartbeat, Instant::now());
    }

    fn tick(&self) {
        self.send_probes();
        let news = {
            let mut state = self.state();
            let state: &mut ControllerState = &mut state;
            let hosts = &state.hosts;
            let able = |key: NodeKey| match self.switches.get(&key) {
                Some(switch) => switch.health().borrow().is_up(),
                None => hosts.is_connected(&self.topology()[key].name),
            };
            let able: BTreeSet<NodeKey> =
                self.topology().nodes().map(|(key, _)| key).filter(|key| able(*key)).collect();
            let now = Instant::now();
            // If all nodes become silent at once, the cause is probably the controller's own network, not the nodes.
            let alone = !state.cabling.is_heard()
                && (state.cabling.expects(&able) || !state.standstills.is_steady(now));
            if !alone && let Some(Standstill { from, to }) = state.standstills.tick(now) {
                let seconds = (to - from).as_secs_f64();
                tracing::warn!(
                    seconds,
                    "this controller stood still, or received nothing: unreachable nodes get more time"
                );
            }
            state.cabling.tick(|key| able.contains(&key))
        };
        for news in &news {
            self.announce(news);
        }
    }

    fn send_probes(&self) {
        let topology = self.topology();
        let (widest, long_ones_are_due) = {
            let state = self.state();
            (state.capacity.widest, state.cabling.are_long_probes_due())
        };
        for (key, switch) in &self.switches {
            let (node, source) = (topology[*key].id, source_of(topology[*key].id));
            for via in topology.neighbours(*key) {
                let probe = Probe { node, port: via.port };
                switch.packet_out(via.port, probe.to_frame(source).to_vec());
                if long_ones_are_due {
                    let bytes = long_probe_bytes(&topology[via.link], widest);
                    switch.packet_out(via.port, probe.to_long_frame(source, bytes));
                }
            }
        }
    }

    /// Logs an event about a cable, and acts on it.
    fn announce(&self, news: &News) {
        let mut state = self.state();
        let topology = &self.topology();
        let now = Instant::now();
        let news = match news {
            News::Link(link, life) => {
                let was_bad = matches!(state.health.of_link(*link), Life::Dead | Life::ShortOfMtu(_));
                let cable = cable(topology, *link);
                match life {
                    Life::Dead => {
                        tracing::warn!(cable, "no frames get through any more");
                        let words = format!("no frames get through {cable} any more");
                        self.events.of_node(EventKind::CableDead, "", &words);
                    }
                    Life::ShortOfMtu(width) => {
                        let words = shortness(topology, *link, *width);
                        tracing::warn!("{words}: compare the MTU of the interfaces at both of its ends");
                        self.events.of_node(EventKind::CableShortOfMtu, "", &words);
                    }
                    Life::Silent => tracing::debug!(cable, "nobody tells whether frames get through"),
                    Life::Alive if was_bad => {
                        tracing::info!(cable, "frames get through again");
                        let words = format!("frames get through {cable} again");
                        self.events.of_node(EventKind::CableBack, "", &words);
                    }
                    Life::Alive => {}
                }
                state.health.set_link(*link, *life, now)
            }
            News::Miswired(one) => {
                let words = miswiring(topology, one);
                tracing::warn!("{words}: correct the cable or the topology");
                self.events.of_node(EventKind::CableMiswired, &topology[one.at.0].name, &words);
                false
            }
            News::Rewired((node, port)) => {
                tracing::info!(node = topology[*node].name, port, "the cable leads where the topology says");
                let words = format!("the cable at port {port} leads where the topology says");
                self.events.of_node(EventKind::CableCorrected, &topology[*node].name, &words);
                false
            }
        };
        if news {
            state.look_at_all();
        }
    }
}

/// Returns a locally administered source address for the probes of a switch.
fn source_of(node: NodeId) -> MacAddr {
    let [high, low] = node.get().to_be_bytes();
    MacAddr::new(0x02, 0x74, 0x72, 0x00, high, low)
}
