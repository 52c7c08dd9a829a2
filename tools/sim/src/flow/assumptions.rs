//! The model's assumptions.

use serde::Serialize;

/// The model's assumptions about machines and protocols. Times are in seconds.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Assumptions {
    /// Delay from one node to the next, without the frame's time at the link's rate.
    ///
    /// It is the delay of a cable and of the switch behind it.
    pub hop_seconds: f64,
    /// A host's delay for each packet that it sends or receives, between the wire and the program.
    pub host_seconds: f64,
    /// The most that a host handles in each direction, in bit/s; `None` if its link is the only limit.
    pub host_rate: Option<u64>,
    /// Number of slots of each switch that runs this project's program.
    pub slots: u32,
    /// Time from a failure until a job of the fabric runs on another tree.
    pub replan_seconds: f64,
    /// Time from a failure until the hosts' traffic uses other paths.
    pub reroute_seconds: f64,
}

impl Assumptions {
    /// Returns the default assumptions, with `slots` slots for each switch.
    ///
    /// A hop takes 1 µs, a host 10 µs per packet, and hosts are as fast as their links. A new tree takes 0.9
    /// s, because `tributary-bench chaos` measures a median of 0.87 s when a switch is killed. Other paths
    /// for hosts take 0.2 s, which is the least timeout of Linux's TCP.
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
}
