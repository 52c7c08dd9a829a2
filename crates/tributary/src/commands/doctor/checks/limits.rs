//! Limits of findings that the user can choose, and the format of times.

use std::time::Duration;

/// Limits of findings that the user can choose.
#[derive(Debug, Clone, Copy)]
pub(in crate::commands::doctor) struct Limits {
    /// Time for which a job may wait for members or results.
    pub(in crate::commands::doctor) patience: Duration,
    /// The remaining validity at which a certificate should be renewed.
    pub(in crate::commands::doctor) expiry: Duration,
}

/// Formats milliseconds as seconds for users.
pub(super) fn seconds(milliseconds: u64) -> String {
    format!("{:.0} s", Duration::from_millis(milliseconds).as_secs_f64())
}
