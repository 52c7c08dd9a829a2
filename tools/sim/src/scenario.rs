//! The scenario of a simulation.

use std::time::Duration;

use tributary_protocol::{DEFAULT_WINDOW, Downlink, Timers};
use tributary_wire::frame::longest_frame;
use tributary_wire::{Seq, SliceWidth};

use crate::tree::Tree;

/// One simulation: everything that its outcome depends on.
#[derive(Debug, Clone)]
pub struct Scenario {
    /// The tree of switches and workers.
    pub tree: Tree,
    /// Elements in each all-reduce.
    pub elements: usize,
    /// True if elements are i32, with exact comparison of the sums; otherwise they are f32.
    pub integers: bool,
    /// Number of all-reduces, one after the other.
    pub operations: u32,
    /// The number of the first slice.
    pub start: Seq,
    /// Number of values in a slice.
    pub width: SliceWidth,
    /// The job's window: slices in flight, a power of two.
    pub window: u32,
    /// The way in which first results travel.
    pub downlink: Downlink,
    /// Retransmission timers of the workers.
    pub timers: Timers,
    /// All links, in both directions.
    pub link: Link,
    /// The hosts.
    pub host: Host,
    /// Other faults on links and in switches.
    pub faults: Faults,
    /// Time in a switch from a packet's arrival to its place in a queue.
    pub switch_delay: Duration,
    /// Workers that start their first operation late: the rank, and the delay.
    pub stragglers: Vec<(usize, Duration)>,
    /// The seed of all random numbers.
    pub seed: u64,
}

/// One direction of a link.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Link {
    /// Rate in bit/s.
    pub rate: u64,
    /// Propagation delay.
    pub delay: Duration,
    /// The size of a token bucket, in bytes; 0 for a link without a bucket.
    ///
    /// A full bucket lets this number of bytes pass at once. It then fills again, so that packets leave in groups.
    pub burst: u64,
    /// The most packets that wait for the link; further ones are dropped silently.
    pub queue: usize,
    /// Probability that a packet that was sent does not arrive.
    pub loss: f64,
}

/// Further faults.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Faults {
    /// Probability that a packet that arrives does so a second time, later.
    pub duplicates: f64,
    /// Probability that a packet is delayed, so that others overtake it ...
    pub late: f64,
    /// ... and the longest delay, which also applies to duplicates.
    pub lateness: Duration,
    /// Switches that lose their memory: which, and when.
    pub reboots: Vec<(usize, Duration)>,
}

/// The handling of packets by a host.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Host {
    /// Processing time of each received packet, one after the other.
    pub turn_around: Duration,
    /// Probability, for each packet, that the host is descheduled at that moment ...
    pub pauses: f64,
    /// ... and the longest time until it runs again.
    pub pause: Duration,
}

impl Default for Scenario {
    /// 8 MiB of f32 over the three-tier tree: 15 links of 50 Mbit/s with BMv2's queues of 64 packets.
    fn default() -> Self {
        Self {
            tree: Tree::three_tier_8(),
            elements: 2 << 20,
            integers: false,
            operations: 1,
            start: Seq::FIRST,
            width: SliceWidth::ETHERNET,
            window: DEFAULT_WINDOW,
            downlink: Downlink::Multicast,
            timers: Timers::default(),
            link: Link { rate: 50_000_000, delay: Duration::from_micros(50), burst: 0, queue: 64, loss: 0.0 },
            host: Host { turn_around: Duration::from_micros(20), pauses: 0.0, pause: Duration::ZERO },
            faults: Faults::default(),
            switch_delay: Duration::from_micros(20),
            stragglers: Vec::new(),
            seed: 1,
        }
    }
}

impl Scenario {
    /// The demo: everything in one process, with links as fast as memory, but more threads than cores, so
    /// that all have to wait for their turns. The demo's model is small: 400 slices an operation, several operations.
    pub fn in_process() -> Self {
        Self {
            elements: 100 << 10,
            operations: 20,
            link: Link {
                rate: 1_000_000_000,
                delay: Duration::from_micros(5),
                burst: 0,
                queue: 1024,
                loss: 0.0,
            },
            host: Host {
                turn_around: Duration::from_micros(10),
                pauses: 0.01,
                pause: Duration::from_millis(5),
            },
            switch_delay: Duration::from_micros(50),
            ..Self::default()
        }
    }

    /// The time that a slice, as a GRADIENT with a full hop stack, takes on a link.
    pub fn slice_time(&self) -> Duration {
        Duration::from_secs_f64(longest_frame(self.width) as f64 * 8.0 / self.link.rate as f64)
    }

    /// The least time of one operation: every link carries the bare gradient once.
    pub fn ideal(&self) -> Duration {
        let bits = self.elements as u64 * u64::from(self.operations) * u64::from(u32::BITS);
        Duration::from_secs_f64(bits as f64 / self.link.rate as f64)
    }
}
