//! The model's assumptions.

use serde::Serialize;
use tributary_protocol::DEFAULT_WINDOW;

/// The model's assumptions about machines and protocols. Times are in seconds.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Assumptions {
    /// Delay from one node to the next in addition to the frame's time at the link's rate: a cable,
    /// and the switch behind it.
    pub hop_seconds: f64,
    /// A host's delay for each packet that it sends or receives, between the wire and the program.
    pub host_seconds: f64,
    /// The most that a host handles in each direction, in bit/s; `None`: whatever its link carries.
    pub host_rate: Option<u64>,
    /// Slots of each switch that runs our program.
    pub slots: u32,
    /// Time from a failure until a job of the fabric runs on another tree.
    pub replan_seconds: f64,
    /// Time from a failure until hosts' traffic uses other ways.
    pub reroute_seconds: f64,
}

impl Assumptions {
    /// 1 µs per hop, 10 µs per host and packet, hosts as fast as their links; 0.9 s until another tree, as
    /// `tributary-bench chaos` measures when a switch is killed (0.87 s, median); and 0.2 s until hosts use other ways,
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

    /// Calls [`with_slots`](Self::with_slots) with enough slots for `jobs` jobs with the default window.
    pub fn with_slots_for(jobs: u32) -> Self {
        Self::with_slots(DEFAULT_WINDOW.saturating_mul(jobs))
    }
}
