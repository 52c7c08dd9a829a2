//! Limits for each creator of jobs.

/// The creator of all jobs where callers show no certificates.
pub(crate) const LOCAL: &str = "local";

/// Limits for creators of jobs. A creator is a name in a certificate; without certificates, all callers
/// together are one creator.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Quotas {
    /// Jobs of one creator that are alive, including those that wait for slots; `None`: no limit.
    pub jobs: Option<u32>,
    /// Slots that the jobs of one creator may have together on each switch; `None`: no limit.
    /// While a job changes its structure it briefly has twice as many; this limit does not hold that up.
    pub slots: Option<u32>,
    /// Jobs of all creators that may wait for slots.
    pub queue: u32,
}

impl Default for Quotas {
    fn default() -> Self {
        Self { jobs: None, slots: None, queue: 64 }
    }
}

/// The creator of a job, and the creator's choice to wait for slots.
#[derive(Debug, Clone)]
pub(crate) struct Asking {
    pub(crate) creator: String,
    /// True if a job without slots waits for them; false if the controller refuses it.
    pub(crate) waits: bool,
}
