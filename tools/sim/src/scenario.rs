//! The scenario of a simulation.

use std::time::Duration;

use tributary_protocol::{DEFAULT_WINDOW, Downlink, Timers};
use tributary_wire::frame::longest_frame;
use tributary_wire::{Seq, SliceWidth};

use crate::tree::Tree;

/// The scenario of one simulation: all inputs on which its outcome depends.
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
    /// The downlink on which the server sends results for the first time.
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
    /// Workers that start their first operation late, each with its rank and the delay.
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
    /// A full bucket lets this number of bytes pass at once. The bucket then fills again, so that packets
    /// leave in groups.
    pub burst: u64,
    /// The most packets that wait for the link. Further packets are dropped silently.
    pub queue: usize,
    /// Probability that the link loses a packet that it has sent.
    pub loss: f64,
}

/// Further faults.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Faults {
    /// Probability that a packet arrives a second time, later.
    pub duplicates: f64,
    /// Probability that a packet is delayed, so that other packets overtake it.
    pub late: f64,
    /// The longest delay of a late packet or of a duplicate.
    pub lateness: Duration,
    /// Switches that lose their memory, each with the time of its loss.
    pub reboots: Vec<(usize, Duration)>,
}

/// The handling of packets by a host.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Host {
    /// Time that the host needs for each received packet. It handles one packet at a time.
    pub turn_around: Duration,
    /// Probability, for each packet, that the host is descheduled when the packet arrives.
    pub pauses: f64,
    /// The longest time for which a descheduled host does not run.
    pub pause: Duration,
}

impl Default for Scenario {
    /// Returns a scenario of 8 MiB of f32 over the three-tier tree.
    ///
    /// The tree has 15 links of 50 Mbit/s, and queues of 64 packets, as in BMv2.
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
    /// Returns a scenario like the demo's, which runs everything in one process.
    ///
    /// Links are as fast as memory, but there are more threads than cores, so that all threads wait for their
    /// turns. The demo's model is small: several operations of 400 slices each.
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

    /// Returns the time that a link needs for a slice, as a GRADIENT with a full hop stack.
    pub fn slice_time(&self) -> Duration {
        Duration::from_secs_f64(longest_frame(self.width) as f64 * 8.0 / self.link.rate as f64)
    }

    /// Returns the least time of all operations.
    ///
    /// In this time, every link carries the values once, without headers.
    pub fn ideal(&self) -> Duration {
        let bits = self.elements as u64 * u64::from(self.operations) * u64::from(u32::BITS);
        Duration::from_secs_f64(bits as f64 / self.link.rate as f64)
    }
}
