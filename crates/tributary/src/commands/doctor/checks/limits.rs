//! Limits for findings where a limit is a matter of choice, and the format of times.

use std::time::Duration;

/// Limits for findings where a limit is a matter of choice.
#[derive(Debug, Clone, Copy)]
pub(in crate::commands::doctor) struct Limits {
    /// Time for which a job may wait, for members or for results.
    pub(in crate::commands::doctor) patience: Duration,
    /// A certificate that expires within this time should be renewed.
    pub(in crate::commands::doctor) expiry: Duration,
}

/// Formats milliseconds for people.
pub(super) fn seconds(milliseconds: u64) -> String {
    format!("{:.0} s", Duration::from_millis(milliseconds).as_secs_f64())
}
