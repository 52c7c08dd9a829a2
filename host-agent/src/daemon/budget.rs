//! The resources that the agent holds for training processes, compared with its [`Limits`].
//!
//! The agent requests each resource here before it uses it. Dropping the [`Permit`] returns the resource.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use parking_lot::Mutex;
use thiserror::Error;
use tonic::Status;

use super::limits::{Limits, most_of};

/// A limited resource.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Resource {
    /// Memory of the agent, in bytes.
    Memory,
    Descriptors,
    /// Mapped segments, in bytes.
    Mapped,
    Sessions,
    /// Jobs of which this host is a member. They count with or without a session.
    Jobs,
}

/// The id of the user that owns the requesting process.
pub(crate) type User = u32;

/// The reason why a request for a resource is refused.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub(crate) enum LimitError {
    /// Too little of the resource is left, either for all processes or for one user.
    #[error("{}", full(*.resource, *.wanted, *.taken, *.limit, .whose))]
    Full { resource: Resource, wanted: u64, taken: u64, limit: u64, whose: Whose },
    #[error(
        "this needs {needed} bytes of the agent's memory; operations that are not done, given up or not, have {in_use}, \
         and a session may have {limit}: hand in less at once, or start the agent with a larger --max-session-memory"
    )]
    SessionMemory { needed: u64, in_use: u64, limit: u64 },
    #[error(
        "{limit} calls of this session are under way: wait for one of them, or start the agent with a larger \
         --max-calls"
    )]
    Calls { limit: u32 },
    #[error(
        "this session has {limit} segments: close one, put more into one, or start the agent with a larger \
         --max-segments"
    )]
    Segments { limit: u32 },
    #[error(
        "a segment of {bytes} bytes is too large: the agent opens segments of up to {limit} bytes; use several, or \
         start it with a larger --max-segment"
    )]
    SegmentBytes { bytes: u64, limit: u64 },
}

/// The share that is used up: the share of all processes, or the share of one user.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Whose {
    All,
    User(User),
}

impl fmt::Display for Whose {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::All => write!(f, "all processes of this host together"),
            Self::User(user) => write!(f, "the processes of one user ({user}) together"),
        }
    }
}

fn full(resource: Resource, wanted: u64, taken: u64, limit: u64, whose: &Whose) -> String {
    match resource {
        Resource::Memory => format!(
            "the agent has no memory left for this: it needs {wanted} bytes, and of the {limit} that {whose} may make \
             it take, {taken} are taken; end what is not needed, hand in less at once, or start the agent with a \
             larger --max-memory"
        ),
        Resource::Descriptors => format!(
            "the agent has no file descriptors left: {whose} may make it open {limit}, and {taken} are open; close \
             segments, or allow the agent more (ulimit -n, or LimitNOFILE= in its unit)"
        ),
        Resource::Mapped => format!(
            "the agent has no room left for a segment of {wanted} bytes: {whose} may open segments of {limit} bytes, and \
             {taken} are open; close segments, or allow the agent more addresses (ulimit -v) if these are limited"
        ),
        Resource::Sessions => format!(
            "the agent has no session left: {whose} may have {limit}; end one, or start the agent with a larger \
             --max-sessions"
        ),
        Resource::Jobs => format!(
            "this host is a member of too many jobs: {whose} may make it one of {limit}; end one at the controller, or \
             start the agent with a larger --max-sessions"
        ),
    }
}

impl From<LimitError> for Status {
    fn from(error: LimitError) -> Self {
        Self::resource_exhausted(error.to_string())
    }
}

/// The amount taken of each resource.
type Amounts = BTreeMap<Resource, u64>;

/// The limits of all resources, and the amounts that are taken.
#[derive(Debug)]
pub(crate) struct Budget {
    limits: Limits,
    taken: Mutex<Taken>,
}

#[derive(Debug, Default)]
struct Taken {
    all: Amounts,
    by_user: BTreeMap<User, Amounts>,
}

impl Budget {
    pub(crate) fn new(limits: Limits) -> Arc<Self> {
        Arc::new(Self { limits, taken: Mutex::default() })
    }

    pub(crate) fn limits(&self) -> &Limits {
        &self.limits
    }

    /// Takes an amount of a resource for a process of this user.
    pub(crate) fn take(
        self: &Arc<Self>,
        user: User,
        resource: Resource,
        amount: u64,
    ) -> Result<Permit, LimitError> {
        let mut permit = Permit { budget: Arc::clone(self), user, resource, amount: 0 };
        permit.grow_to(amount)?;
        Ok(permit)
    }

    fn limit(&self, resource: Resource) -> u64 {
        match resource {
            Resource::Memory => self.limits.memory,
            Resource::Descriptors => self.limits.descriptors,
            Resource::Mapped => self.limits.mapped_bytes,
            Resource::Sessions | Resource::Jobs => self.limits.sessions.into(),
        }
    }
}

impl Taken {
    fn of(&mut self, user: User, resource: Resource) -> [&mut u64; 2] {
        let own = self.by_user.entry(user).or_default().entry(resource).or_default();
        [self.all.entry(resource).or_default(), own]
    }
}

/// A taken amount of a resource; dropping it gives the amount back.
#[derive(Debug)]
pub(crate) struct Permit {
    budget: Arc<Budget>,
    user: User,
    resource: Resource,
    amount: u64,
}

impl Permit {
    /// Returns the amount that was taken.
    pub(crate) fn amount(&self) -> u64 {
        self.amount
    }

    /// Takes more of the resource until the permit holds `amount`. Never releases a part.
    ///
    /// # Errors
    /// [`LimitError::Full`] if too little is left. The permit then keeps its amount.
    pub(crate) fn grow_to(&mut self, amount: u64) -> Result<(), LimitError> {
        let wanted = amount.saturating_sub(self.amount);
        let (resource, limit) = (self.resource, self.budget.limit(self.resource));
        let mut taken = self.budget.taken.lock();
        let [all, own] = taken.of(self.user, resource);
        let shares = [(&*all, limit, Whose::All), (&*own, most_of(limit), Whose::User(self.user))];
        for (taken, limit, whose) in shares {
            if wanted > limit.saturating_sub(*taken) {
                return Err(LimitError::Full { resource, wanted, taken: *taken, limit, whose });
            }
        }
        *all += wanted;
        *own += wanted;
        self.amount += wanted;
        Ok(())
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        let mut taken = self.budget.taken.lock();
        for amount in taken.of(self.user, self.resource) {
            *amount = amount.saturating_sub(self.amount);
        }
        // The map holds only users that have taken something.
        let nothing = |amounts: &mut Amounts| amounts.values().all(|amount| *amount == 0);
        taken.by_user.retain(|_, amounts| !nothing(amounts));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn budget() -> Arc<Budget> {
        let limits = Limits { memory: 1000, sessions: 4, ..Limits::of_this_machine() };
        Budget::new(limits)
    }

    #[test]
    fn what_is_given_back_can_be_taken_again() {
        let budget = budget();
        for _ in 0..10 {
            let _permit = budget.take(1, Resource::Memory, 750).unwrap();
        }
        assert!(budget.taken.lock().by_user.is_empty());
    }

    #[test]
    fn one_user_leaves_something_for_the_others() {
        let budget = budget();
        let mut first = budget.take(1, Resource::Memory, 700).unwrap();
        let error = budget.take(1, Resource::Memory, 51).unwrap_err();
        let whose = Whose::User(1);
        let expected =
            LimitError::Full { resource: Resource::Memory, wanted: 51, taken: 700, limit: 750, whose };
        assert_eq!(error, expected);
        let _second = budget.take(2, Resource::Memory, 250).unwrap();
        let error = first.grow_to(751).unwrap_err();
        assert!(matches!(
            error,
            LimitError::Full { wanted: 51, taken: 950, limit: 1000, whose: Whose::All, .. }
        ));
        first.grow_to(750).unwrap();
    }

    #[test]
    fn no_amount_is_too_large_to_be_refused() {
        let budget = budget();
        let _first = budget.take(1, Resource::Memory, 1).unwrap();
        assert!(budget.take(1, Resource::Memory, u64::MAX).is_err());
        assert!(budget.take(2, Resource::Memory, u64::MAX).is_err());
    }

    #[test]
    fn refusals_say_the_limit_and_the_option() {
        let budget = budget();
        let _held: Vec<_> = (0..3).map(|_| budget.take(7, Resource::Sessions, 1).unwrap()).collect();
        let words = budget.take(7, Resource::Sessions, 1).unwrap_err().to_string();
        assert!(words.contains("user (7)") && words.contains("may have 3"), "{words}");
        assert!(words.contains("--max-sessions"), "{words}");
    }
}
