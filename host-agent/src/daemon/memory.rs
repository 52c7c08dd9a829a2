//! How much of the machine's memory training processes can make the agent take.
//!
//! What a process names is only a number until the agent reads it: a sparse file of 2^48 bytes costs a process
//! nothing. So memory is counted before it is taken, for all processes together.

use std::sync::atomic::{AtomicU64, Ordering};

use tonic::Status;

/// What the agent holds of something that is reduced: the contribution, its sums, and what is under way of both.
const COPIES: u64 = 3;
/// The agent's part of the machine's memory: one in so many.
const SHARE: u64 = 2;

/// Held by all that is under way, bytes.
static HELD: AtomicU64 = AtomicU64::new(0);

/// Memory that is spoken for as long as this value lives.
#[derive(Debug)]
pub(crate) struct Held(u64);

impl Drop for Held {
    fn drop(&mut self) {
        HELD.fetch_sub(self.0, Ordering::AcqRel);
    }
}

/// The most bytes that one piece of work can be about.
pub(crate) fn most() -> u64 {
    rustix::system::sysinfo().totalram / SHARE / COPIES
}

/// Speaks for the memory that work on so many bytes takes.
///
/// # Errors
/// RESOURCE_EXHAUSTED: it is more than there is, or than the work of others has left.
pub(crate) fn hold(bytes: u64) -> Result<Held, Status> {
    let limit = most().saturating_mul(COPIES);
    let needed = bytes.checked_mul(COPIES).filter(|needed| *needed <= limit);
    let Some(needed) = needed else {
        let most = most();
        return Err(Status::resource_exhausted(format!(
            "{bytes} bytes at once, and the agent of this host takes {most} at most: reduce the tensor in pieces"
        )));
    };
    let take = |held: u64| held.checked_add(needed).filter(|held| *held <= limit);
    match HELD.fetch_update(Ordering::AcqRel, Ordering::Acquire, take) {
        Ok(_) => Ok(Held(needed)),
        Err(held) => Err(Status::resource_exhausted(format!(
            "{held} of {limit} bytes are taken by work that is under way: try again when some of it is done"
        ))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_more_than_there_is_is_refused_and_what_is_given_back_is_there_again() {
        for bytes in [u64::MAX, 1 << 48, most() + 1] {
            assert!(hold(bytes).unwrap_err().message().contains("in pieces"));
        }
        // Others test at the same time, with far less.
        let most_of_it = hold(most() - most() / 8).unwrap();
        assert!(hold(most() / 2).unwrap_err().message().contains("under way"));
        drop(most_of_it);
        assert!(hold(most() / 2).is_ok());
    }
}
