//! The parts of a gradient that have arrived. Worker and server both check them, so that neither
//! depends on the other's check.

use std::collections::BTreeMap;
use std::ops::Range;

use thiserror::Error;

/// The most parts of one gradient. Each part costs a message and an entry here, and parts of a few
/// values have no advantage.
pub const MAX_PARTS: usize = 1 << 16;

/// An invalid part, or an invalid set of parts.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum PartError {
    /// A part has no values.
    #[error("a part from value {first} on without values: leave it out")]
    Empty {
        /// The number of the part's first value.
        first: u64,
    },
    /// A part goes beyond the gradient's end.
    #[error(
        "a part of {count} values from value {first} on, of a gradient of {length}: it goes beyond the end"
    )]
    Beyond {
        /// The number of the part's first value.
        first: u64,
        /// The number of values in the part.
        count: u64,
        /// The number of values in the gradient.
        length: usize,
    },
    /// Some of the part's values have arrived before.
    #[error(
        "a part of {count} values from value {first} on, where values {other:?} have come already: each comes once"
    )]
    Overlap {
        /// The number of the part's first value.
        first: u64,
        /// The number of values in the part.
        count: u64,
        /// The values of the earlier part.
        other: Range<usize>,
    },
    /// The gradient has too many parts.
    #[error("a gradient of more than {MAX_PARTS} parts: make them larger")]
    TooMany,
    /// These values of the gradient are missing.
    #[error("the parts are no whole gradient: values {0:?} are missing")]
    Missing(Range<usize>),
    /// The worker pushed another gradient before all parts of its last gradient had arrived.
    #[error("parts of another gradient are there: end that one first, or drop its parts")]
    Open,
}

/// The set of the values of a gradient that have arrived.
#[derive(Debug)]
pub(crate) struct Parts {
    length: usize,
    /// The end of each part by its start.
    ends: BTreeMap<usize, usize>,
}

impl Parts {
    /// Creates an empty set of parts of a gradient of `length` values.
    pub(crate) fn new(length: usize) -> Self {
        Self { length, ends: BTreeMap::new() }
    }

    /// Adds a part; returns the range of its values.
    ///
    /// # Errors
    /// [`PartError`]; the part is not counted.
    pub(crate) fn add(&mut self, first: u64, count: u64) -> Result<Range<usize>, PartError> {
        if count == 0 {
            return Err(PartError::Empty { first });
        }
        let length = self.length;
        let end = first.checked_add(count).and_then(|end| usize::try_from(end).ok());
        let (Ok(begin), Some(end)) = (usize::try_from(first), end.filter(|end| *end <= length)) else {
            return Err(PartError::Beyond { first, count, length });
        };
        // The parts do not overlap each other. So if any of them overlaps the new part, the last one that
        // begins before the new part's end does.
        if let Some((&start, &stop)) = self.ends.range(..end).next_back().filter(|(_, stop)| **stop > begin) {
            return Err(PartError::Overlap { first, count, other: start..stop });
        }
        if self.ends.len() >= MAX_PARTS {
            return Err(PartError::TooMany);
        }
        self.ends.insert(begin, end);
        Ok(begin..end)
    }

    /// Returns true if no part has arrived.
    pub(crate) fn is_empty(&self) -> bool {
        self.ends.is_empty()
    }

    /// Checks that all values have arrived.
    ///
    /// # Errors
    /// [`PartError::Missing`] with the first missing values.
    pub(crate) fn check_whole(&self) -> Result<(), PartError> {
        let mut reached = 0;
        for (&begin, &end) in &self.ends {
            if begin > reached {
                return Err(PartError::Missing(reached..begin));
            }
            reached = end;
        }
        if reached < self.length {
            return Err(PartError::Missing(reached..self.length));
        }
        Ok(())
    }

    /// Forgets all parts.
    pub(crate) fn clear(&mut self) {
        self.ends.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_come_in_any_order_and_each_value_once() {
        let mut parts = Parts::new(10);
        assert_eq!(parts.check_whole(), Err(PartError::Missing(0..10)));
        assert_eq!(parts.add(6, 4), Ok(6..10));
        assert_eq!(parts.add(0, 3), Ok(0..3));
        assert_eq!(parts.check_whole(), Err(PartError::Missing(3..6)));
        for (first, count, other) in
            [(2, 1, 0..3), (2, 3, 0..3), (5, 2, 6..10), (0, 10, 6..10), (7, 1, 6..10)]
        {
            assert_eq!(parts.add(first, count), Err(PartError::Overlap { first, count, other }));
        }
        assert_eq!(parts.add(3, 3), Ok(3..6));
        assert_eq!(parts.check_whole(), Ok(()));
        parts.clear();
        assert!(parts.is_empty());
    }

    #[test]
    fn what_is_empty_or_beyond_the_end_is_no_part() {
        let mut parts = Parts::new(10);
        assert_eq!(parts.add(3, 0), Err(PartError::Empty { first: 3 }));
        for (first, count) in [(0, 11), (10, 1), (9, 2), (u64::MAX, 1), (1, u64::MAX)] {
            assert_eq!(parts.add(first, count), Err(PartError::Beyond { first, count, length: 10 }));
        }
        assert!(parts.is_empty());
    }

    #[test]
    fn there_are_not_more_parts_than_can_be_meant() {
        let mut parts = Parts::new(MAX_PARTS + 1);
        assert!((0..MAX_PARTS as u64).all(|first| parts.add(first, 1).is_ok()));
        assert_eq!(parts.add(MAX_PARTS as u64, 1), Err(PartError::TooMany));
    }
}
