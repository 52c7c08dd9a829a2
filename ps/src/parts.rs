//! What there is of a gradient that comes in parts. Both ends keep count, so that neither has to believe the other.

use std::collections::BTreeMap;
use std::ops::Range;

use thiserror::Error;

/// Parts of one gradient at most: each costs a message and an entry here, and one of a few values gains nothing.
pub const MAX_PARTS: usize = 1 << 16;

/// Why a part of a gradient cannot be used, or why parts are no gradient.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum PartError {
    /// A part has no values.
    #[error("a part from value {first} on without values: leave it out")]
    Empty {
        /// Where it begins.
        first: u64,
    },
    /// A part goes beyond the gradient's end.
    #[error(
        "a part of {count} values from value {first} on, of a gradient of {length}: it goes beyond the end"
    )]
    Beyond {
        /// Where it begins.
        first: u64,
        /// How many values it has.
        count: u64,
        /// How many the gradient has.
        length: usize,
    },
    /// Some of its values have come before.
    #[error(
        "a part of {count} values from value {first} on, where values {other:?} have come already: each comes once"
    )]
    Overlap {
        /// Where it begins.
        first: u64,
        /// How many values it has.
        count: u64,
        /// The part that has come before.
        other: Range<usize>,
    },
    /// Too many parts.
    #[error("a gradient of more than {MAX_PARTS} parts: make them larger")]
    TooMany,
    /// The gradient is not whole.
    #[error("the parts are no whole gradient: values {0:?} are missing")]
    Missing(Range<usize>),
    /// Something else was to be pushed in mid gradient.
    #[error("parts of another gradient are there: end that one first, or drop its parts")]
    Open,
}

/// Which values of a gradient are there.
#[derive(Debug)]
pub(crate) struct Parts {
    length: usize,
    /// Where each part begins, and ends.
    ends: BTreeMap<usize, usize>,
}

impl Parts {
    /// Nothing of a gradient of so many values.
    pub(crate) fn new(length: usize) -> Self {
        Self { length, ends: BTreeMap::new() }
    }

    /// One more part is there.
    ///
    /// # Errors
    /// It is not counted: [`PartError`].
    pub(crate) fn add(&mut self, first: u64, count: u64) -> Result<Range<usize>, PartError> {
        if count == 0 {
            return Err(PartError::Empty { first });
        }
        let length = self.length;
        let end = first.checked_add(count).and_then(|end| usize::try_from(end).ok());
        let (Ok(begin), Some(end)) = (usize::try_from(first), end.filter(|end| *end <= length)) else {
            return Err(PartError::Beyond { first, count, length });
        };
        // Of those that begin before its end, the last one is the only one that can reach into it, or the first to.
        if let Some((&start, &stop)) = self.ends.range(..end).next_back().filter(|(_, stop)| **stop > begin) {
            return Err(PartError::Overlap { first, count, other: start..stop });
        }
        if self.ends.len() >= MAX_PARTS {
            return Err(PartError::TooMany);
        }
        self.ends.insert(begin, end);
        Ok(begin..end)
    }

    /// Whether nothing is there.
    pub(crate) fn is_empty(&self) -> bool {
        self.ends.is_empty()
    }

    /// Whether everything is there.
    ///
    /// # Errors
    /// [`PartError::Missing`], of the first values that are not.
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

    /// Forgets all of them.
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
