//! The load of links, measured by the switches' port counters.

use std::collections::HashMap;

use tokio::time::Instant;
use tributary_p4runtime::entry::CounterCell;
use tributary_topology::{LinkDirection, NodeKey, Topology};

/// The weight of a new reading in the smoothed rate.
/// Rates are smoothed because traffic comes in bursts, while a tree is used for a long time.
const WEIGHT: f64 = 0.5;

/// The load of each link direction on which a managed switch sends or receives.
#[derive(Debug, Default)]
pub(crate) struct Loads {
    /// The last reading of each switch.
    readings: HashMap<NodeKey, Reading>,
    /// Smoothed rates in bit/s.
    rates: HashMap<LinkDirection, f64>,
}

#[derive(Debug)]
struct Reading {
    at: Instant,
    /// The bytes counted since the switch's start. If the switches at both ends of a link count a
    /// direction, both readings contribute to the rate.
    bytes: HashMap<LinkDirection, u64>,
}

impl Loads {
    /// Returns the load of a link direction in bit/s; 0 if no rate is known yet.
    pub(crate) fn of(&self, direction: LinkDirection) -> u64 {
        self.rates.get(&direction).map_or(0, |rate| *rate as u64)
    }

    /// Updates the rates with a reading of a switch's port counters.
    /// The first reading of a switch gives no rate. A reading that is lower than the reading before it gives none
    /// either, because the switch has restarted.
    pub(crate) fn update(
        &mut self,
        topology: &Topology,
        switch: NodeKey,
        at: Instant,
        cells: &[CounterCell],
    ) {
        let bytes = bytes(topology, switch, cells);
        let reading = Reading { at, bytes };
        if let Some(before) = self.readings.get(&switch) {
            let seconds = (at - before.at).as_secs_f64();
            for (direction, bytes) in &reading.bytes {
                let grown = before.bytes.get(direction).and_then(|old| bytes.checked_sub(*old));
                let Some(grown) = grown.filter(|_| seconds > 0.0) else { continue };
                let rate = grown as f64 * 8.0 / seconds;
                let smoothed = self.rates.entry(*direction).or_insert(rate);
                *smoothed += WEIGHT * (rate - *smoothed);
            }
        }
        self.readings.insert(switch, reading);
    }
}

/// Returns the bytes that the switch has counted for each link direction.
fn bytes(topology: &Topology, switch: NodeKey, cells: &[CounterCell]) -> HashMap<LinkDirection, u64> {
    let mut bytes = HashMap::new();
    for neighbour in topology.neighbours(switch) {
        let of_port = |cell: &&CounterCell| cell.index == u64::from(neighbour.port);
        for cell in cells.iter().filter(of_port) {
            let sender = match cell.counter.as_str() {
                "port_egress" => switch,
                "port_ingress" => neighbour.node,
                _ => continue,
            };
            if let Some(direction) = topology.direction(neighbour.link, sender) {
                bytes.insert(direction, cell.bytes);
            }
        }
    }
    bytes
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::testing::topology;

    fn cell(counter: &str, port: u64, bytes: u64) -> CounterCell {
        CounterCell { counter: counter.into(), index: port, packets: 0, bytes }
    }

    /// Returns the port of w0's link on leaf0, and both directions of the link, the direction from leaf0
    /// first.
    fn link(topology: &Topology) -> (u64, [LinkDirection; 2]) {
        let (leaf, host) = (topology.find("leaf0").unwrap(), topology.find("w0").unwrap());
        let near = topology.neighbours(leaf).into_iter().find(|near| near.node == host).unwrap();
        (near.port.into(), [leaf, host].map(|sender| topology.direction(near.link, sender).unwrap()))
    }

    #[test]
    fn a_load_is_what_a_port_has_sent_or_received_since_the_last_reading() {
        let topology = topology();
        let leaf = topology.find("leaf0").unwrap();
        let (port, [down, up]) = link(&topology);
        let mut loads = Loads::default();
        let start = Instant::now();
        let read = |loads: &mut Loads, seconds, out, into| {
            let cells = [cell("port_egress", port, out), cell("port_ingress", port, into)];
            loads.update(&topology, leaf, start + Duration::from_secs(seconds), &cells);
            (loads.of(down), loads.of(up))
        };
        assert_eq!(read(&mut loads, 0, 1_000_000, 0), (0, 0), "what was sent before tells no rate");
        assert_eq!(read(&mut loads, 8, 2_000_000, 500_000), (1_000_000, 500_000));
        // The new reading has the rate zero and half of the weight.
        assert_eq!(read(&mut loads, 16, 2_000_000, 500_000), (500_000, 250_000));
        // The switch has restarted.
        assert_eq!(read(&mut loads, 24, 0, 0), (500_000, 250_000));
        assert_eq!(read(&mut loads, 32, 500_000, 250_000), (500_000, 250_000));
    }

    #[test]
    fn other_ports_and_other_counters_are_no_load() {
        let topology = topology();
        let leaf = topology.find("leaf0").unwrap();
        let (port, directions) = link(&topology);
        let mut loads = Loads::default();
        let start = Instant::now();
        for (seconds, bytes) in [(0, 0), (1, 1000)] {
            let cells = [cell("port_rejected", port, bytes), cell("port_egress", 500, bytes)];
            loads.update(&topology, leaf, start + Duration::from_secs(seconds), &cells);
        }
        assert_eq!(directions.map(|direction| loads.of(direction)), [0, 0]);
    }
}
