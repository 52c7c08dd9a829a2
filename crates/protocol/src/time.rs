//! Instants of the caller's clock.

use std::ops::{Add, Sub};
use std::time::Duration;

/// An instant: nanoseconds since an epoch that the caller chooses, such as the start of a program or a
/// simulation.
/// This crate never reads a clock. The caller passes in all instants, and they must not decrease.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Time(u64);

impl Time {
    /// The epoch.
    pub const ZERO: Self = Self(0);

    /// Makes the instant `nanos` nanoseconds after the epoch.
    pub const fn from_nanos(nanos: u64) -> Self {
        Self(nanos)
    }

    /// Returns the nanoseconds since the epoch.
    pub const fn as_nanos(self) -> u64 {
        self.0
    }
}

impl Add<Duration> for Time {
    type Output = Self;

    /// Adds a duration. The sum saturates at the largest instant, 584 years after the epoch.
    fn add(self, span: Duration) -> Self {
        Self(self.0.saturating_add(u64::try_from(span.as_nanos()).unwrap_or(u64::MAX)))
    }
}

impl Sub for Time {
    type Output = Duration;

    /// Returns the time from `earlier` to `self`; zero if `earlier` is later than `self`.
    fn sub(self, earlier: Self) -> Duration {
        Duration::from_nanos(self.0.saturating_sub(earlier.0))
    }
}
