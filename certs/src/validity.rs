use std::fmt;

use time::{Duration, OffsetDateTime};

use crate::error::AuthorityError;

/// Clocks differ: a certificate made now is good on a host whose clock is slow by this much.
const CLOCK_SKEW: Duration = Duration::hours(1);

/// From when and until when a certificate is good.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Validity {
    /// Its first moment.
    pub from: OffsetDateTime,
    /// Its last moment.
    pub until: OffsetDateTime,
}

impl Validity {
    /// From now on, for so many days.
    ///
    /// # Errors
    /// [`AuthorityError::Days`].
    pub fn days(days: u32) -> Result<Self, AuthorityError> {
        // Certificates tell whole seconds.
        let now = OffsetDateTime::now_utc().truncate_to_second();
        let until = now.checked_add(Duration::days(days.into()));
        let until = until.filter(|until| days > 0 && until.year() <= 9999);
        Ok(Self { from: now - CLOCK_SKEW, until: until.ok_or(AuthorityError::Days(days))? })
    }

    /// Until the day when `other` ends at the latest: a certificate is of no use once its CA has expired.
    pub(crate) fn within(self, until: OffsetDateTime) -> Self {
        Self { until: self.until.min(until), ..self }
    }
}

/// The day on which it ends, as in 2027-01-31 (UTC).
impl fmt::Display for Validity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.until.date().fmt(f)
    }
}
