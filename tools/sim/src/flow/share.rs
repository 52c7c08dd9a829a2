//! Shares of links: max–min fairness by progressive filling.
//!
//! All streams grow at the same pace. When a link direction is full, the streams that use it stop growing,
//! and the others continue. A stream also stops at its own limit. In the result, no stream can become faster
//! without making another stream slower that is already as slow or slower.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use super::ordered::Ordered;

/// A transfer that uses link directions at one rate for as long as it lasts.
///
/// Connections that move together are one stream. Examples are the gradients of a tree, all of which wait for
/// the slowest, and the connections of a ring, each of which waits for the previous one. An independent
/// connection between two hosts is a stream, too.
#[derive(Debug, Clone, PartialEq)]
pub struct Stream {
    /// Bytes that the stream moves over a link direction with factor 1, headers included.
    pub bytes: f64,
    /// The greatest rate that the stream can use, in bytes/s; infinite without a limit.
    pub limit: f64,
    /// The link directions that the stream uses, each once, with a factor of the stream's rate.
    ///
    /// The factor is 1 for one copy, 2 for two copies, and so on.
    pub uses: Vec<(usize, f64)>,
}

/// Returns the rate of each stream in bytes/s.
///
/// `capacity` is the capacity of each link direction in bytes/s.
///
/// A stream that uses no link and has no limit gets an infinite rate. A link direction beyond the end of
/// `capacity` counts as down.
pub fn max_min(capacity: &[f64], streams: &[&Stream]) -> Vec<f64> {
    let mut sharing = Sharing::default();
    sharing.share(capacity, streams);
    sharing.rates
}

/// The reason why a stream stops growing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Bottleneck {
    /// The link direction with this index is full.
    Link(usize),
    /// The stream with this index has reached its limit.
    Stream(usize),
}

/// A link direction during the filling.
#[derive(Debug, Clone, Default)]
struct Filling {
    /// Capacity that is left for streams that still grow, in bytes/s.
    left: f64,
    /// Capacity that the growing streams use together at rate 1.
    weight: f64,
    growing: usize,
    users: Vec<usize>,
}

impl Filling {
    fn full_at(&self) -> Ordered {
        Ordered(self.left.max(0.0) / self.weight)
    }
}

/// The filling algorithm, with memory that is reused.
#[derive(Debug, Default)]
pub(super) struct Sharing {
    links: Vec<Filling>,
    touched: Vec<usize>,
    bottlenecks: BinaryHeap<Reverse<(Ordered, Bottleneck)>>,
    is_fixed: Vec<bool>,
    /// The rate of each stream, in bytes/s.
    pub(super) rates: Vec<f64>,
}

impl Sharing {
    pub(super) fn share(&mut self, capacity: &[f64], streams: &[&Stream]) {
        self.begin(capacity, streams);
        while let Some(Reverse((level, bottleneck))) = self.bottlenecks.pop() {
            match bottleneck {
                Bottleneck::Stream(stream) => self.fix(stream, level, streams),
                Bottleneck::Link(at) => self.fill(at, level, streams),
            }
        }
    }

    fn begin(&mut self, capacity: &[f64], streams: &[&Stream]) {
        for at in self.touched.drain(..) {
            let link = &mut self.links[at];
            link.users.clear();
            (link.weight, link.growing) = (0.0, 0);
        }
        let most = streams.iter().flat_map(|stream| &stream.uses).map(|(at, _)| at + 1).max();
        let needed = most.unwrap_or(0).max(capacity.len());
        if self.links.len() < needed {
            self.links.resize_with(needed, Filling::default);
        }
        self.bottlenecks.clear();
        for (place, stream) in streams.iter().enumerate() {
            if stream.limit.is_finite() {
                self.bottlenecks.push(Reverse((Ordered(stream.limit.max(0.0)), Bottleneck::Stream(place))));
            }
            for &(at, weight) in &stream.uses {
                let link = &mut self.links[at];
                if link.growing == 0 {
                    self.touched.push(at);
                    link.left = capacity.get(at).copied().unwrap_or(0.0);
                }
                link.weight += weight;
                link.growing += 1;
                link.users.push(place);
            }
        }
        for &at in &self.touched {
            self.bottlenecks.push(Reverse((self.links[at].full_at(), Bottleneck::Link(at))));
        }
        self.is_fixed.clear();
        self.is_fixed.resize(streams.len(), false);
        self.rates.clear();
        self.rates.resize(streams.len(), f64::INFINITY);
    }

    /// Handles a full link direction.
    ///
    /// If some of its streams were fixed after its level was computed, the link direction fills up later, so
    /// it is queued again.
    fn fill(&mut self, at: usize, level: Ordered, streams: &[&Stream]) {
        if self.links[at].growing == 0 {
            return;
        }
        let now = self.links[at].full_at();
        if now > level {
            self.bottlenecks.push(Reverse((now, Bottleneck::Link(at))));
            return;
        }
        let users = std::mem::take(&mut self.links[at].users);
        for &stream in &users {
            self.fix(stream, level, streams);
        }
        self.links[at].users = users;
    }

    fn fix(&mut self, stream: usize, level: Ordered, streams: &[&Stream]) {
        if std::mem::replace(&mut self.is_fixed[stream], true) {
            return;
        }
        self.rates[stream] = level.0;
        for &(at, weight) in &streams[stream].uses {
            let link = &mut self.links[at];
            link.left -= weight * level.0;
            link.weight -= weight;
            link.growing -= 1;
        }
    }
}
