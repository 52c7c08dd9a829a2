use std::fmt;

use time::{Duration, OffsetDateTime};

use crate::error::AuthorityError;

/// The time before now from which certificates are valid. It allows for hosts whose clocks are slow.
const CLOCK_SKEW: Duration = Duration::hours(1);

/// The period in which a certificate is valid.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Validity {
    /// The first moment of the period.
    pub from: OffsetDateTime,
    /// The last moment of the period.
    pub until: OffsetDateTime,
}

impl Validity {
    /// Returns the period of `days` days from now.
    ///
    /// # Errors
    /// [`AuthorityError::Days`]: the number of days is 0 or too large.
    pub fn days(days: u32) -> Result<Self, AuthorityError> {
        // Certificates have a resolution of whole seconds.
        let now = OffsetDateTime::now_utc().truncate_to_second();
        let until = now.checked_add(Duration::days(days.into()));
        let until = until.filter(|until| days > 0 && until.year() <= 9999);
        Ok(Self { from: now - CLOCK_SKEW, until: until.ok_or(AuthorityError::Days(days))? })
    }

    /// Shortens the period to end at `until` at the latest, because a certificate is useless after its CA
    /// has expired.
    pub(crate) fn within(self, until: OffsetDateTime) -> Self {
        Self { until: self.until.min(until), ..self }
    }
}

/// Displays the day on which the period ends, such as 2027-01-31 (UTC).
impl fmt::Display for Validity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.until.date().fmt(f)
    }
}
