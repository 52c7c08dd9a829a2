//! Stripes: the parts of a job that a worker's threads run beside each other.
//!
//! A job with N stripes (a power of two) divides its slices by their numbers: slice s belongs to stripe (s − 1) mod N.
//! A slot of the window therefore belongs to one stripe, and the stripes share no state. Each stripe counts the job's
//! operations alike. A large operation has elements in all stripes, and a small one only in the first.

use thiserror::Error;
use tributary_wire::Seq;

/// The largest number of stripes.
pub const MOST_STRIPES: u32 = 64;

/// The number of stripes does not fit the window.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[error("{stripes} stripes: it must be a power of two, {MOST_STRIPES} and the window of {window} at most")]
pub struct StripesError {
    /// The number of stripes.
    pub stripes: u32,
    /// The job's window.
    pub window: u32,
}

/// One of the stripes of a job.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Stripe {
    number: u32,
    /// The binary logarithm of the number of stripes.
    bits: u32,
}

impl Stripe {
    /// The only stripe of a job that has one.
    pub const WHOLE: Self = Self { number: 0, bits: 0 };

    /// Returns all stripes of a job with `count` stripes and this window, in order.
    ///
    /// # Errors
    /// [`StripesError`] if the number is not a power of two up to [`MOST_STRIPES`], or is larger than the window.
    pub fn all(count: u32, window: u32) -> Result<impl Iterator<Item = Self>, StripesError> {
        if !count.is_power_of_two() || count > MOST_STRIPES.min(window) {
            return Err(StripesError { stripes: count, window });
        }
        Ok((0..count).map(move |number| Self { number, bits: count.ilog2() }))
    }

    /// Returns the number of the stripe, from 0.
    pub fn number(self) -> u32 {
        self.number
    }

    /// Returns the first slice of the stripe in a new job.
    pub fn first(self) -> Seq {
        Seq::FIRST.plus(self.number)
    }

    /// Returns true if the slice belongs to this stripe.
    pub fn contains(self, seq: Seq) -> bool {
        self.first().0 & self.mask() == seq.0 & self.mask()
    }

    fn mask(self) -> u32 {
        (1 << self.bits) - 1
    }

    /// Returns the number of the stripe's slots in a window of `window` slots.
    pub(crate) fn window(self, window: u32) -> u32 {
        window >> self.bits
    }

    /// Returns the index of a slice's slot among the slots of the stripe, if the window has enough slots.
    pub(crate) fn index(self, seq: Seq) -> u32 {
        seq.0 >> self.bits
    }

    /// Returns the stripe's slice that comes `count` slices of the stripe after `seq`.
    pub(crate) fn after(self, seq: Seq, count: u64) -> Seq {
        seq.plus((count as u32) << self.bits)
    }

    /// Returns the distance of `seq` ahead of `other`, in slices of the stripe.
    pub(crate) fn distance(self, seq: Seq, other: Seq) -> i32 {
        seq.distance(other) >> self.bits
    }
}
