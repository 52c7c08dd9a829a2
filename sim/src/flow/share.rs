//! Who gets how much of a link: max–min fairness by progressive filling.
//!
//! All streams grow at the same pace. When a link direction is full, the streams that use it stay as they are, and the others
//! grow on; so does a stream that has come to its own limit. In the end no stream can get more without taking from one that
//! has no more than it.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use super::ordered::Ordered;

/// A transfer that uses link directions at one rate, as long as it lasts.
///
/// What has to move together is one stream: the gradients of a tree, all of which wait for the slowest; the connections of a
/// ring, each of which waits for the one before it. A connection between two hosts that waits for nobody is a stream, too.
#[derive(Debug, Clone, PartialEq)]
pub struct Stream {
    /// Bytes at rate 1, headers included.
    pub bytes: f64,
    /// What it can use at most, bytes/s; infinite without a limit.
    pub limit: f64,
    /// How much of its rate each link direction carries: 1 for one copy, 2 for two, and so on. No direction twice.
    pub uses: Vec<(usize, f64)>,
}

/// Each stream's rate in bytes/s. `capacity`: of each link direction, in bytes/s.
///
/// A stream that uses nothing and has no limit gets an infinite rate. What a stream uses beyond `capacity` counts as down.
pub fn max_min(capacity: &[f64], streams: &[&Stream]) -> Vec<f64> {
    let mut sharing = Sharing::default();
    sharing.share(capacity, streams);
    sharing.rates
}

/// What keeps streams from growing on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Bound {
    /// Of a link direction.
    Link(usize),
    /// Of one stream.
    Stream(usize),
}

/// A link direction while it fills.
#[derive(Debug, Clone, Default)]
struct Filling {
    /// What is left for streams that still grow, bytes/s.
    left: f64,
    /// What those use together at rate 1.
    weight: f64,
    growing: usize,
    users: Vec<usize>,
}

impl Filling {
    fn full_at(&self) -> Ordered {
        Ordered(self.left.max(0.0) / self.weight)
    }
}

/// The filling, with memory that is used again the next time.
#[derive(Debug, Default)]
pub(super) struct Sharing {
    links: Vec<Filling>,
    touched: Vec<usize>,
    bounds: BinaryHeap<Reverse<(Ordered, Bound)>>,
    is_fixed: Vec<bool>,
    /// By stream, in bytes/s.
    pub(super) rates: Vec<f64>,
}

impl Sharing {
    pub(super) fn share(&mut self, capacity: &[f64], streams: &[&Stream]) {
        self.begin(capacity, streams);
        while let Some(Reverse((level, bound))) = self.bounds.pop() {
            match bound {
                Bound::Stream(stream) => self.fix(stream, level, streams),
                Bound::Link(at) => self.fill(at, level, streams),
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
        self.bounds.clear();
        for (place, stream) in streams.iter().enumerate() {
            if stream.limit.is_finite() {
                self.bounds.push(Reverse((Ordered(stream.limit.max(0.0)), Bound::Stream(place))));
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
            self.bounds.push(Reverse((self.links[at].full_at(), Bound::Link(at))));
        }
        self.is_fixed.clear();
        self.is_fixed.resize(streams.len(), false);
        self.rates.clear();
        self.rates.resize(streams.len(), f64::INFINITY);
    }

    /// A link direction is full, unless streams that use it have been fixed since that was worked out: then it is full later.
    fn fill(&mut self, at: usize, level: Ordered, streams: &[&Stream]) {
        if self.links[at].growing == 0 {
            return;
        }
        let now = self.links[at].full_at();
        if now > level {
            self.bounds.push(Reverse((now, Bound::Link(at))));
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
