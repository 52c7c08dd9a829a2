//! The resources that one session takes from the agent.

use std::sync::Arc;

use parking_lot::{Mutex, MutexGuard};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use super::budget::{Budget, LimitError, Permit, Resource, User};
use super::kept::KeptVectors;
use super::limits::Limits;

/// One session's part of the [`Budget`].
/// It is given back once the session is over and none of its operations is under way.
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
    /// The most memory that was in use at once.
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

/// Memory in use by a session, until this is dropped.
#[derive(Debug)]
pub(crate) struct InUse {
    account: Arc<Account>,
    bytes: u64,
}

impl Drop for InUse {
    fn drop(&mut self) {
        self.account.memory().in_use -= self.bytes;
    }
}

/// A call under way, until it is dropped.
pub(crate) type Call = OwnedSemaphorePermit;

impl Account {
    /// Opens an account for another session of this user's processes.
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

    /// Counts one more call that is under way or waits for others.
    pub(crate) fn begin_call(&self) -> Result<Call, LimitError> {
        let limit = self.limits().calls;
        Arc::clone(&self.calls).try_acquire_owned().map_err(|_| LimitError::Calls { limit })
    }

    /// Waits until one more operation may be under way.
    pub(crate) async fn begin_operation(&self) -> Result<Call, LimitError> {
        let limit = self.limits().calls;
        Arc::clone(&self.operations).acquire_owned().await.map_err(|_| LimitError::Calls { limit })
    }

    /// Takes `bytes` more bytes for the session.
    /// The session's peak use stays reserved until the session ends: so an operation under way never waits for another
    /// session's operation, which on another host could wait for the first session.
    pub(crate) fn take(self: &Arc<Self>, bytes: u64) -> Result<InUse, LimitError> {
        Ok(self.take_with_vector(bytes, 0)?.0)
    }

    /// Takes bytes as [`take`](Self::take) does, and a vector of `len` elements for part of them: a
    /// [kept](Self::keep) one with arbitrary contents if there is one, else an empty one.
    pub(crate) fn take_with_vector(
        self: &Arc<Self>,
        bytes: u64,
        len: usize,
    ) -> Result<(InUse, Vec<u32>), LimitError> {
        let limit = self.limits().session_memory;
        let mut memory = self.memory();
        let needed = memory.in_use.saturating_add(bytes);
        if needed > limit {
            return Err(LimitError::SessionMemory { needed: bytes, in_use: memory.in_use, limit });
        }
        memory.reserved.grow_to(needed)?;
        memory.in_use = needed;
        let vector = memory.kept.take(len);
        let unused = memory.unused();
        memory.kept.keep_at_most(unused);
        Ok((InUse { account: Arc::clone(self), bytes }, vector))
    }

    /// Keeps a vector that is not [in use](InUse) any more for the next operation of its length, if it fits
    /// into memory that is reserved but unused.
    pub(crate) fn keep(&self, vector: Vec<u32>) {
        let mut memory = self.memory();
        let unused = memory.unused();
        memory.kept.keep(vector, unused);
    }

    fn memory(&self) -> MutexGuard<'_, Memory> {
        self.memory.lock()
    }

    /// Reserves `bytes` bytes for a segment that is about to be mapped.
    pub(crate) fn mapping(&self, bytes: u64) -> Result<Permit, LimitError> {
        self.budget.take(self.user, Resource::Mapped, bytes)
    }

    /// Takes the file descriptors for something that is about to be opened.
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
        // Two uses at once by the same session both count.
        let half = first.take(250).unwrap();
        let error = first.take(351).unwrap_err();
        assert_eq!(error, LimitError::SessionMemory { needed: 351, in_use: 250, limit: 600 });
        drop(first.take(250).unwrap());
        drop(first);
        // It stays taken as long as something is in use.
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
        let (first, vector) = account.take_with_vector(BYTES, len).unwrap();
        assert_eq!(vector, [0; 0], "none was reserved");
        let (second, _) = account.take_with_vector(BYTES, len).unwrap();
        drop((first, second));
        // There is room for two; the first is dropped.
        for number in 0..3 {
            account.keep(vec![number; len]);
        }
        assert_eq!(account.take_with_vector(BYTES, len - 1).unwrap().1, [0; 0], "one of its length only");
        let (one, vector) = account.take_with_vector(BYTES, len).unwrap();
        assert_eq!(vector, vec![2; len]);
        // Other memory takes the place of the second one.
        let other = account.take(BYTES).unwrap();
        drop((one, other));
        assert_eq!(account.take_with_vector(BYTES, len).unwrap().1, [0; 0]);
    }
}
