//! Slice numbers and their order.

use std::cmp::Ordering;
use std::fmt;

/// The number of a slice in its job. It starts at 1 and wraps around.
/// Numbers are compared with serial-number arithmetic (RFC 1982): of two numbers less than 2^31 apart, the newer is the
/// one that counting up from the other reaches.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Seq(pub u32);

impl Seq {
    /// The first slice of a job.
    pub const FIRST: Self = Self(1);

    /// Returns the distance of `self` ahead of `other`; negative when it is behind.
    pub fn distance(self, other: Self) -> i32 {
        self.0.wrapping_sub(other.0).cast_signed()
    }

    /// Returns true if `self` comes after `other`.
    pub fn is_newer_than(self, other: Self) -> bool {
        self.distance(other) > 0
    }

    /// Compares numbers by age.
    /// If two numbers are exactly 2^31 apart, each of them is older than the other.
    pub fn compare(self, other: Self) -> Ordering {
        self.distance(other).cmp(&0)
    }

    /// Returns the number `n` after this one.
    #[must_use]
    pub fn plus(self, n: u32) -> Self {
        Self(self.0.wrapping_add(n))
    }

    /// Returns the number `n` before this one.
    #[must_use]
    pub fn minus(self, n: u32) -> Self {
        Self(self.0.wrapping_sub(n))
    }
}

impl fmt::Display for Seq {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn order_survives_the_wrap() {
        let before = Seq(u32::MAX);
        assert!(before.plus(1).is_newer_than(before));
        assert_eq!(before.plus(1), Seq(0));
        assert_eq!(Seq(0).compare(Seq(u32::MAX)), Ordering::Greater);
        assert_eq!(Seq(3).minus(5).distance(Seq(3)), -5);
    }
}
