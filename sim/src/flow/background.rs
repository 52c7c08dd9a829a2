//! What else the links carry: pairs of hosts that send by turns.

use rand::{Rng, RngExt};
use rand_chacha::ChaCha8Rng;
use serde::Serialize;
use tributary_topology::NodeKey;

use super::error::FlowError;
use super::network::Network;
use super::route::{Routes, Way};
use super::share::Stream;

/// Background traffic. Every host sends to one other host, under another switch where there is one, and everyone gets from
/// one: a random permutation. Each sends a random volume over one TCP connection, then nothing for a random time, and so on.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Background {
    /// What share of its way's slowest link direction each would take in the long run if it were alone: from 0 to less
    /// than 1. Where ways meet, links are asked for more.
    pub load: f64,
    /// Mean volume, bytes, headers included. Volumes and times are exponentially distributed.
    pub mean_bytes: f64,
}

/// A pair of hosts.
#[derive(Debug)]
pub(super) struct Source {
    way: Way,
    /// Mean time between two volumes, seconds.
    mean_pause: f64,
    mean_bytes: f64,
    rng: ChaCha8Rng,
}

impl Background {
    /// The pairs, and in the long run bytes/s of each link direction by its place, if nothing slows them down.
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
            // Not even all of them together get more than the link carries.
            *mean = mean.min(network.capacity.get(at).copied().unwrap_or(0.0));
        }
        Ok((sources, mean))
    }
}

/// A random permutation of the hosts, as pairs of a host and its successor. Two under one switch are kept apart as far as a
/// few exchanges can.
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
    /// The next volume.
    pub(super) fn volume(&mut self) -> Stream {
        let bytes = self.mean_bytes * exponential(&mut self.rng);
        Stream { bytes, ..self.stream() }
    }

    /// Its connection, without bytes.
    pub(super) fn stream(&self) -> Stream {
        let uses = self.way.links().iter().map(|&at| (at, 1.0)).collect();
        Stream { bytes: 0.0, limit: f64::INFINITY, uses }
    }

    /// Until the next volume, in seconds.
    pub(super) fn pause(&mut self) -> f64 {
        self.mean_pause * exponential(&mut self.rng)
    }

    /// As [`Way::reroute`].
    pub(super) fn reroute(&mut self, network: &Network<'_>, routes: &mut Routes<'_>) -> bool {
        self.way.reroute(network, routes, &mut self.rng)
    }
}

/// Exponentially distributed, with mean 1.
fn exponential(rng: &mut ChaCha8Rng) -> f64 {
    -(1.0 - rng.random::<f64>()).ln()
}
