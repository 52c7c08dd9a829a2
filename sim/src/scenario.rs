//! What is simulated.

use std::time::Duration;

use tributary_protocol::{DEFAULT_WINDOW, Downlink, Timers};
use tributary_wire::{Seq, SliceWidth};

use crate::tree::Tree;

/// One simulation: everything that its outcome depends on.
#[derive(Debug, Clone)]
pub struct Scenario {
    /// Who hangs where.
    pub tree: Tree,
    /// Elements in each all-reduce.
    pub elements: usize,
    /// Whether they are i32, whose sums are compared exactly, or f32.
    pub integers: bool,
    /// All-reduces, one after the other.
    pub operations: u32,
    /// The first slice.
    pub start: Seq,
    /// How many values a slice has.
    pub width: SliceWidth,
    /// Slices that the job may have under way: a power of two.
    pub window: u32,
    /// How first results travel.
    pub downlink: Downlink,
    /// When workers ask again.
    pub timers: Timers,
    /// Every link, in both directions.
    pub link: Link,
    /// The hosts.
    pub host: Host,
    /// What else goes wrong on links and in switches.
    pub faults: Faults,
    /// Switches: from a packet's arrival to its place in a queue.
    pub switch_delay: Duration,
    /// Workers that start their first operation late: rank and by how much.
    pub stragglers: Vec<(usize, Duration)>,
    /// Where the random numbers come from: the same seed, the same outcome.
    pub seed: u64,
}

/// One direction of a link.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Link {
    /// Bits a second.
    pub rate: u64,
    /// Time on the way.
    pub delay: Duration,
    /// Packets that wait for the link at most; those that come then are dropped silently.
    pub queue: usize,
    /// Probability that a packet that was sent does not arrive.
    pub loss: f64,
}

/// What else can go wrong.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Faults {
    /// Probability that a packet that arrives does so once more, later.
    pub duplicates: f64,
    /// Probability that a packet is held back, so that others overtake it...
    pub late: f64,
    /// ...and for how long at most, as duplicates are.
    pub lateness: Duration,
    /// Switches that lose their memory: which, and when.
    pub reboots: Vec<(usize, Duration)>,
}

/// How a host treats packets.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Host {
    /// Time that it takes over each packet that it receives, one after the other.
    pub turn_around: Duration,
    /// Probability, for each packet, that the host is not scheduled just then...
    pub pauses: f64,
    /// ...and for how long at most.
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
            link: Link { rate: 50_000_000, delay: Duration::from_micros(50), queue: 64, loss: 0.0 },
            host: Host { turn_around: Duration::from_micros(20), pauses: 0.0, pause: Duration::ZERO },
            faults: Faults::default(),
            switch_delay: Duration::from_micros(20),
            stragglers: Vec::new(),
            seed: 1,
        }
    }
}

impl Scenario {
    /// The demo: all in one process, so links are as fast as memory, but more threads than cores, so that everybody has to
    /// wait for its turn. The model in front of it is small: 400 slices an operation, several operations.
    pub fn in_process() -> Self {
        Self {
            elements: 100 << 10,
            operations: 20,
            link: Link { rate: 1_000_000_000, delay: Duration::from_micros(5), queue: 1024, loss: 0.0 },
            host: Host {
                turn_around: Duration::from_micros(10),
                pauses: 0.01,
                pause: Duration::from_millis(5),
            },
            switch_delay: Duration::from_micros(50),
            ..Self::default()
        }
    }

    /// The least time that one operation can take: every link carries the bare gradient once.
    pub fn ideal(&self) -> Duration {
        let bits = self.elements as u64 * u64::from(self.operations) * u64::from(u32::BITS);
        Duration::from_secs_f64(bits as f64 / self.link.rate as f64)
    }
}
