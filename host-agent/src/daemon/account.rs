//! The resources that one session takes from the agent.

use std::sync::Arc;

use parking_lot::Mutex;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use super::budget::{Budget, LimitError, Permit, Resource, User};
use super::kept::KeptVectors;
use super::limits::Limits;

/// One session's part of the [`Budget`]. Its resources are returned when the session has ended and
/// all its operations are done.
#[derive(Debug)]
pub(crate) struct Account {
    budget: Arc<Budget>,
    user: User,
    memory: Mutex<Memory>,
    calls: Arc<Semaphore>,
    operations: Arc<Semaphore>,
    _session: Permit,
}

#[derive(Debug)]
struct Memory {
    /// The reserved memory: the highest value that `in_use` has reached.
    reserved: Permit,
    in_use: u64,
    /// Vectors in memory that is reserved but not in use.
    kept: KeptVectors,
}

impl Memory {
    fn unused(&self) -> u64 {
        self.reserved.amount().saturating_sub(self.in_use)
    }
}

/// Memory that a session uses until this value is dropped.
#[derive(Debug)]
pub(crate) struct InUse {
    account: Arc<Account>,
    bytes: u64,
}

impl Drop for InUse {
    fn drop(&mut self) {
        self.account.memory.lock().in_use -= self.bytes;
    }
}

/// A permit for one call or operation, which counts as under way until the permit is dropped.
pub(crate) type Call = OwnedSemaphorePermit;

impl Account {
    /// Opens an account for a further session of this user's processes.
    pub(crate) fn open(budget: &Arc<Budget>, user: User) -> Result<Arc<Self>, LimitError> {
        let semaphore = || Arc::new(Semaphore::new(budget.limits().calls as usize));
        Ok(Arc::new(Self {
            budget: Arc::clone(budget),
            user,
            memory: Mutex::new(Memory {
                reserved: budget.take(user, Resource::Memory, 0)?,
                in_use: 0,
                kept: KeptVectors::default(),
            }),
            calls: semaphore(),
            operations: semaphore(),
            _session: budget.take(user, Resource::Sessions, 1)?,
        }))
    }

    pub(crate) fn user(&self) -> User {
        self.user
    }

    pub(crate) fn limits(&self) -> &Limits {
        self.budget.limits()
    }

    /// Counts a call, which may run or wait for other calls, until the permit is dropped.
    pub(crate) fn begin_call(&self) -> Result<Call, LimitError> {
        let limit = self.limits().calls;
        Arc::clone(&self.calls).try_acquire_owned().map_err(|_| LimitError::Calls { limit })
    }

    /// Waits until the session may run a further operation.
    pub(crate) async fn begin_operation(&self) -> Result<Call, LimitError> {
        let limit = self.limits().calls;
        Arc::clone(&self.operations).acquire_owned().await.map_err(|_| LimitError::Calls { limit })
    }

    /// Takes `bytes` more bytes for the session. The session's peak use stays reserved until the session
    /// ends. An operation that is under way therefore never waits for memory of another session's operation. Such a
    /// wait could deadlock, because that operation may wait on another host for the first session.
    pub(crate) fn take(self: &Arc<Self>, bytes: u64) -> Result<InUse, LimitError> {
        Ok(self.take_with_vectors(bytes, &[])?.0)
    }

    /// Takes bytes as [`take`](Self::take) does, and a vector of each length in `lens` for part of them. A
    /// vector is a [kept](Self::keep) one with arbitrary contents, or an empty vector if none of its length is kept.
    pub(crate) fn take_with_vectors(
        self: &Arc<Self>,
        bytes: u64,
        lens: &[usize],
    ) -> Result<(InUse, Vec<Vec<u32>>), LimitError> {
        let limit = self.limits().session_memory;
        let mut memory = self.memory.lock();
        let needed = memory.in_use.saturating_add(bytes);
        if needed > limit {
            return Err(LimitError::SessionMemory { needed: bytes, in_use: memory.in_use, limit });
        }
        memory.reserved.grow_to(needed)?;
        memory.in_use = needed;
        let vectors = lens.iter().map(|len| memory.kept.take(*len)).collect();
        let unused = memory.unused();
        memory.kept.keep_at_most(unused);
        Ok((InUse { account: Arc::clone(self), bytes }, vectors))
    }

    /// Keeps a vector that is no longer [in use](InUse), for the session's next operation of the same
    /// length. Drops it if it does not fit into memory that is reserved but unused.
    pub(crate) fn keep(&self, vector: Vec<u32>) {
        let mut memory = self.memory.lock();
        let unused = memory.unused();
        memory.kept.keep(vector, unused);
    }

    /// Reserves `bytes` bytes for a segment that is about to be mapped.
    pub(crate) fn mapping(&self, bytes: u64) -> Result<Permit, LimitError> {
        self.budget.take(self.user, Resource::Mapped, bytes)
    }

    /// Takes `count` file descriptors for files or sockets that the agent is about to open.
    pub(crate) fn descriptors(&self, count: u64) -> Result<Permit, LimitError> {
        self.budget.take(self.user, Resource::Descriptors, count)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_in_use_once_stays_reserved_until_the_session_is_over() {
        let limits = Limits { session_memory: 600, ..Limits::of_this_machine().with_memory(1000) };
        let budget = Budget::new(limits);
        let first = Account::open(&budget, 1).unwrap();
        drop(first.take(500).unwrap());
        let other = Account::open(&budget, 1).unwrap();
        assert!(matches!(other.take(300), Err(LimitError::Full { taken: 500, limit: 750, .. })));
        // The session's own uses add up.
        let half = first.take(250).unwrap();
        let error = first.take(351).unwrap_err();
        assert_eq!(error, LimitError::SessionMemory { needed: 351, in_use: 250, limit: 600 });
        drop(first.take(250).unwrap());
        drop(first);
        // The first session's memory stays taken until its last use ends.
        assert!(other.take(300).is_err());
        drop(half);
        drop(other.take(300).unwrap());
    }

    #[test]
    fn vectors_are_kept_in_memory_that_is_reserved_and_not_in_use() {
        const BYTES: u64 = 400_000;
        let len = BYTES as usize / 4;
        let budget = Budget::new(Limits::of_this_machine().with_memory(1 << 30));
        let account = Account::open(&budget, 1).unwrap();
        account.keep(vec![7; len]);
        let take = |len| {
            account.take_with_vectors(BYTES, &[len]).map(|(taken, mut all)| (taken, all.remove(0))).unwrap()
        };
        let (first, vector) = take(len);
        assert_eq!(vector, [0; 0], "none was reserved");
        let (second, _) = take(len);
        drop((first, second));
        // The reserved memory holds two vectors, so the first is dropped.
        for number in 0..3 {
            account.keep(vec![number; len]);
        }
        assert_eq!(take(len - 1).1, [0; 0], "one of its length only");
        let (one, vector) = take(len);
        assert_eq!(vector, vec![2; len]);
        // Memory of another kind takes the place of the second vector.
        let other = account.take(BYTES).unwrap();
        drop((one, other));
        assert_eq!(take(len).1, [0; 0]);
    }
}
