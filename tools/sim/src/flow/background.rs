//! Background traffic: pairs of hosts that send from time to time.

use rand::{Rng, RngExt};
use rand_chacha::ChaCha8Rng;
use serde::Serialize;
use tributary_topology::NodeKey;

use super::error::FlowError;
use super::network::Network;
use super::route::{Routes, Way};
use super::share::Stream;

/// Background traffic.
/// Every host sends to one other host, under another switch if there is one, and receives from one: a random
/// permutation. Each sends a random volume over one TCP connection, pauses for a random time, and repeats.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Background {
    /// The share of the slowest link direction on its way that each source would use in the long run if it
    /// were alone: at least 0, less than 1. Where ways meet, the demand on a link can be higher.
    pub load: f64,
    /// Mean volume in bytes, headers included. Volumes and pauses are exponentially distributed.
    pub mean_bytes: f64,
}

/// A pair of hosts: a sender and its receiver.
#[derive(Debug)]
pub(super) struct Source {
    way: Way,
    /// Mean pause between two volumes, in seconds.
    mean_pause: f64,
    mean_bytes: f64,
    rng: ChaCha8Rng,
}

impl Background {
    /// The pairs, and the long-term bytes/s of each link direction, by its index, if
    /// nothing slows the sources down.
    pub(super) fn sources(
        &self,
        network: &Network<'_>,
        rng: &mut ChaCha8Rng,
    ) -> Result<(Vec<Source>, Vec<f64>), FlowError> {
        let mut mean = vec![0.0; network.capacity.len()];
        if self.load <= 0.0 {
            return Ok((Vec::new(), mean));
        }
        let mut routes = Routes::new(network.topology, &network.dead);
        let mut sources = Vec::new();
        for pair in pairs(network, rng) {
            let way = Way::draw(pair, &mut routes, rng)?;
            let rate = network.slowest(way.links());
            for &at in way.links() {
                mean[at] += self.load * rate;
            }
            let mean_pause = self.mean_bytes / rate * (1.0 / self.load - 1.0).max(0.0);
            let seed = rng.next_u64();
            let rng = rand::SeedableRng::seed_from_u64(seed);
            sources.push(Source { way, mean_pause, mean_bytes: self.mean_bytes, rng });
        }
        for (at, mean) in mean.iter_mut().enumerate() {
            // Even all of them together cannot get more than the link carries.
            *mean = mean.min(network.capacity.get(at).copied().unwrap_or(0.0));
        }
        Ok((sources, mean))
    }
}

/// A random permutation of the hosts, as pairs of a host and its successor.
/// A few exchanges keep hosts under one switch apart as far as they can.
fn pairs(network: &Network<'_>, rng: &mut ChaCha8Rng) -> Vec<(NodeKey, NodeKey)> {
    const EXCHANGES: usize = 20;
    let topology = network.topology;
    let hosts: Vec<NodeKey> = topology.hosts().map(|(key, ..)| key).collect();
    let switch = |host: NodeKey| topology.graph().neighbors(host).next();
    let mut to = hosts.clone();
    rand::seq::SliceRandom::shuffle(to.as_mut_slice(), rng);
    for place in 0..hosts.len() {
        for _ in 0..EXCHANGES {
            if switch(hosts[place]) != switch(to[place]) {
                break;
            }
            let other = rng.random_range(0..hosts.len());
            to.swap(place, other);
        }
    }
    hosts.into_iter().zip(to).filter(|(from, to)| from != to).collect()
}

impl Source {
    /// Draws the next volume.
    pub(super) fn volume(&mut self) -> Stream {
        let bytes = self.mean_bytes * exponential(&mut self.rng);
        Stream { bytes, ..self.stream() }
    }

    /// Its connection, without any bytes to send.
    pub(super) fn stream(&self) -> Stream {
        let uses = self.way.links().iter().map(|&at| (at, 1.0)).collect();
        Stream { bytes: 0.0, limit: f64::INFINITY, uses }
    }

    /// Draws the pause until the next volume, in seconds.
    pub(super) fn pause(&mut self) -> f64 {
        self.mean_pause * exponential(&mut self.rng)
    }

    /// Reroutes the traffic, see [`Way::reroute`].
    pub(super) fn reroute(&mut self, network: &Network<'_>, routes: &mut Routes<'_>) -> bool {
        self.way.reroute(network, routes, &mut self.rng)
    }
}

/// A random number, exponentially distributed with mean 1.
fn exponential(rng: &mut ChaCha8Rng) -> f64 {
    -(1.0 - rng.random::<f64>()).ln()
}
