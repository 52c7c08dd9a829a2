//! What is simulated, and what is taken for granted.

use serde::Serialize;
use tributary_protocol::DEFAULT_WINDOW;
use tributary_topology::{LinkKey, NodeKey, Topology};

use super::background::Background;
use super::job::Job;

/// Everything that an outcome depends on.
#[derive(Debug, Clone)]
pub struct Setup<'a> {
    /// The network. Its loads and roles are not used: `background` and `jobs` say who sends.
    pub topology: &'a Topology,
    /// What is taken for granted.
    pub assumptions: Assumptions,
    /// The jobs, in the order in which they are planned: all of them before the first begins.
    pub jobs: Vec<Job>,
    /// After so many iterations of each job it is over. Jobs that are done first go on, so that the others do not get their
    /// links.
    pub iterations: u32,
    /// What else the links carry.
    pub background: Option<Background>,
    /// What dies.
    pub outages: Vec<Outage>,
    /// Where the random numbers come from.
    pub seed: u64,
}

/// What the model takes for granted of machines and protocols. Times are in seconds.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Assumptions {
    /// From one node to the next, besides the time that a frame takes at the link's rate: a cable, and the switch behind it.
    pub hop_seconds: f64,
    /// In a host, for each packet that it sends or receives, from the wire to the program.
    pub host_seconds: f64,
    /// What a host handles at most in each direction, bit/s; `None`: whatever its link carries.
    pub host_rate: Option<u64>,
    /// Slots of each switch that runs our program.
    pub slots: u32,
    /// From a failure until a job of the fabric runs on another tree.
    pub replan_seconds: f64,
    /// From a failure until hosts' traffic takes other ways.
    pub reroute_seconds: f64,
}

impl Assumptions {
    /// 1 µs a hop, 10 µs a host and packet, hosts as fast as their links; 0.9 s until another tree, which is what
    /// `tributary lab chaos` measures when a switch is killed (0.87 s, median), and 0.2 s until hosts have other ways:
    /// the least timeout of Linux's TCP.
    pub fn with_slots(slots: u32) -> Self {
        Self {
            hop_seconds: 1e-6,
            host_seconds: 10e-6,
            host_rate: None,
            slots,
            replan_seconds: 0.9,
            reroute_seconds: 0.2,
        }
    }

    /// As many slots as `jobs` jobs with the default window take.
    pub fn with_slots_for(jobs: u32) -> Self {
        Self::with_slots(DEFAULT_WINDOW.saturating_mul(jobs))
    }
}

/// What can die.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Down {
    /// A switch or a host, with all its links.
    Node(NodeKey),
    /// A link, in both directions.
    Link(LinkKey),
}

/// Something dies, and comes back.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Outage {
    /// What.
    pub what: Down,
    /// When it dies, in seconds.
    pub from: f64,
    /// When it is back, in seconds.
    pub until: f64,
}
