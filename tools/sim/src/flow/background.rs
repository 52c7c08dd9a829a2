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
///
/// Each host sends to one other host and receives from one other host, by a random permutation. If possible,
/// the two are under different switches. Each host sends a random volume over one TCP connection, pauses for
/// a random time, and repeats.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Background {
    /// The load that each source would cause alone, as a share of its path's slowest link direction.
    ///
    /// It is a long-term mean, at least 0 and less than 1. Where paths meet, the demand on a link can be
    /// higher.
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
    /// Returns the pairs, and the mean load of each link direction in bytes/s, by its index.
    ///
    /// The mean load applies if nothing slows the sources down.
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
            // All sources together cannot get more than the link carries.
            *mean = mean.min(network.capacity.get(at).copied().unwrap_or(0.0));
        }
        Ok((sources, mean))
    }
}

/// Returns a random permutation of the hosts, as pairs of a host and its successor.
///
/// A few exchanges separate hosts under one switch as far as possible.
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

    /// Returns the source's connection as a stream without bytes.
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

/// Draws a random number from the exponential distribution with mean 1.
fn exponential(rng: &mut ChaCha8Rng) -> f64 {
    -(1.0 - rng.random::<f64>()).ln()
}
