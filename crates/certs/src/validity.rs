use std::fmt;

use time::{Duration, OffsetDateTime};

use crate::error::AuthorityError;

/// A certificate is valid from this long before now, for hosts whose clocks are slow.
const CLOCK_SKEW: Duration = Duration::hours(1);

/// When a certificate is valid.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Validity {
    /// Its first moment.
    pub from: OffsetDateTime,
    /// Its last moment.
    pub until: OffsetDateTime,
}

impl Validity {
    /// Valid from now on, for `days` days.
    ///
    /// # Errors
    /// [`AuthorityError::Days`].
    pub fn days(days: u32) -> Result<Self, AuthorityError> {
        // Certificates have a resolution of whole seconds.
        let now = OffsetDateTime::now_utc().truncate_to_second();
        let until = now.checked_add(Duration::days(days.into()));
        let until = until.filter(|until| days > 0 && until.year() <= 9999);
        Ok(Self { from: now - CLOCK_SKEW, until: until.ok_or(AuthorityError::Days(days))? })
    }

    /// Ends at `until` if it would end later: a certificate is of no use once its CA has expired.
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
