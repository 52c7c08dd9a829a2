//! Limits for each creator of jobs.

/// The creator of all jobs if callers show no certificates.
pub(crate) const LOCAL: &str = "local";

/// Limits for creators of jobs.
/// A creator is a name in a certificate. Without certificates, all callers together are one creator.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Quotas {
    /// The number of jobs of one creator that may be alive, including queued jobs; `None` sets no limit.
    pub jobs: Option<u32>,
    /// The number of slots that the jobs of one creator may have in total on each switch; `None` sets no
    /// limit.
    /// While a job changes its structure, it briefly has twice as many slots. The limit does not apply to these
    /// additional slots.
    pub slots: Option<u32>,
    /// The total number of jobs that may wait for slots, over all creators.
    pub queue: u32,
}

impl Default for Quotas {
    fn default() -> Self {
        Self { jobs: None, slots: None, queue: 64 }
    }
}

/// The creator of a new job, and the creator's choice to wait for slots.
#[derive(Debug, Clone)]
pub(crate) struct Asking {
    pub(crate) creator: String,
    /// True if the job may wait for slots; false if the controller must refuse it when slots are missing.
    pub(crate) waits: bool,
}
