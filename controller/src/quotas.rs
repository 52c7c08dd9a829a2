//! How much each creator of jobs may have.

/// Who creates jobs where callers show no certificates.
pub(crate) const LOCAL: &str = "local";

/// Limits that a controller sets to those who create jobs: each by the name in its certificate, and all together where
/// there are no certificates.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Quotas {
    /// Jobs of one creator that are alive, those that wait for slots among them; `None`: as many as there can be.
    pub jobs: Option<u32>,
    /// Slots that the jobs of one creator may have together on each switch; `None`: as many as there are. A job that
    /// changes its structure has twice its own for a moment, and is not held up by this.
    pub slots: Option<u32>,
    /// Jobs that may wait for slots, of all creators.
    pub queue: u32,
}

impl Default for Quotas {
    fn default() -> Self {
        Self { jobs: None, slots: None, queue: 64 }
    }
}

/// Who asks for a job, and how.
#[derive(Debug, Clone)]
pub(crate) struct Asking {
    pub(crate) creator: String,
    /// A job without slots is to wait for them, and not to be refused.
    pub(crate) waits: bool,
}
