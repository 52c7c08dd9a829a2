//! How much each creator of jobs may have.

/// The creator of all jobs where callers show no certificates.
pub(crate) const LOCAL: &str = "local";

/// Limits on those who create jobs: on each name in a certificate, or on all callers together where there are no
/// certificates.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Quotas {
    /// Jobs of one creator that are alive, including those that wait for slots; `None`: no limit.
    pub jobs: Option<u32>,
    /// Slots that the jobs of one creator may have together on each switch; `None`: no limit. While a job changes its
    /// structure it briefly has twice as many; this limit does not hold that up.
    pub slots: Option<u32>,
    /// Jobs of all creators that may wait for slots.
    pub queue: u32,
}

impl Default for Quotas {
    fn default() -> Self {
        Self { jobs: None, slots: None, queue: 64 }
    }
}

/// Who creates a job, and how.
#[derive(Debug, Clone)]
pub(crate) struct Asking {
    pub(crate) creator: String,
    /// Whether a job without slots is to wait for them rather than be refused.
    pub(crate) waits: bool,
}
