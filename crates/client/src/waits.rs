//! The waits of this process for its agent, and the verdict if the process has abandoned the agent.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::{Notify, watch};
use tokio::time::Instant;
use tributary_api::agent::Moments;

use crate::error::ClientError;

/// Time after a deadline in which the agent may still report the passed deadline itself. Its report
/// is better, because the agent knows what is missing.
const GRACE: Duration = Duration::from_secs(1);

/// Everything in this process that waits for the agent, and the duration of the agent's silence.
#[derive(Debug, Default)]
pub(crate) struct Waits {
    state: Mutex<WaitList>,
    /// Notified when a first wait begins, and when no further wait will begin.
    begun: Notify,
    verdict: watch::Sender<Option<Verdict>>,
}

/// The waits in progress, and the agent's silence.
#[derive(Debug, Default)]
struct WaitList {
    begun: u64,
    under_way: BTreeMap<u64, PendingWait>,
    /// True if the agent has sent something since the last check.
    heard: bool,
    /// The duration of the agent's silence until the last check.
    silent: Duration,
    /// True if the next wait that begins must notify the monitor.
    is_idle: bool,
    /// True once no further wait will begin.
    is_closed: bool,
}

/// A wait in progress.
#[derive(Debug)]
struct PendingWait {
    place: Place,
    limit: Limit,
    /// The time from which a deadline counts; `None` while earlier waits come first.
    since: Option<Instant>,
}

/// The longest time that a wait may last while the agent is silent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Limit {
    /// The wait has no limit.
    Never,
    /// The wait may last for this time in total.
    Deadline(Duration),
    /// The agent may be silent for this time. The wait itself may be longer.
    Silence(Duration),
}

impl From<Option<Duration>> for Limit {
    /// Returns a deadline, or no limit for `None`.
    fn from(deadline: Option<Duration>) -> Self {
        deadline.map_or(Self::Never, Self::Deadline)
    }
}

/// The relation of a wait to the other waits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Place {
    /// An all-reduce: its time counts from the end of all earlier all-reduces, as in the agent.
    InOrder,
    /// A call that does not depend on other waits.
    Alone,
}

/// The reason for abandoning the agent: a deadline has passed while the agent was silent.
#[derive(Debug, Clone)]
pub(crate) struct Verdict {
    /// The number of the wait whose deadline has passed.
    expired: u64,
    deadline: Duration,
    silent: Duration,
    socket: PathBuf,
}

impl Verdict {
    fn given_up(self) -> ClientError {
        let Self { deadline, silent, socket, .. } = self;
        ClientError::GivenUp { deadline, silent, socket }
    }
}

/// A wait for the agent, until this value is dropped.
#[derive(Debug)]
pub(crate) struct Wait {
    waits: Arc<Waits>,
    number: u64,
}

impl Waits {
    /// Begins a wait.
    pub(crate) fn begin(self: &Arc<Self>, place: Place, limit: Limit) -> Wait {
        let mut state = self.state.lock();
        let is_behind = place == Place::InOrder && state.first_in_order().is_some();
        let since = if is_behind { None } else { Some(Instant::now()) };
        let number = state.begun;
        state.begun += 1;
        state.under_way.insert(number, PendingWait { place, limit, since });
        if std::mem::take(&mut state.is_idle) {
            self.begun.notify_one();
        }
        Wait { waits: Arc::clone(self), number }
    }

    /// Waits for the answer to a call, unless the process abandons the agent.
    ///
    /// # Errors
    /// The errors of the call; [`ClientError::AgentSilent`] or [`ClientError::GivenUp`] if the process abandons the
    /// agent.
    pub(crate) async fn call<T>(
        self: &Arc<Self>,
        what: &str,
        limit: impl Into<Limit>,
        call: impl Future<Output = Result<T, ClientError>>,
    ) -> Result<T, ClientError> {
        let wait = self.begin(Place::Alone, limit.into());
        tokio::select! {
            biased;
            () = self.given_up() => Err(wait.lost(|| what.to_owned())),
            answer = call => {
                self.heard();
                answer
            }
        }
    }

    /// Notes that the agent has sent a message.
    pub(crate) fn heard(&self) {
        self.state.lock().heard = true;
    }

    /// Notes that no further wait will begin.
    pub(crate) fn close(&self) {
        self.state.lock().is_closed = true;
        self.begun.notify_one();
    }

    /// Waits until a wait exists, and returns true. Returns false if no wait will begin any more, or if
    /// the process has abandoned the agent.
    pub(crate) async fn have_begun(&self) -> bool {
        loop {
            {
                let mut state = self.state.lock();
                if self.verdict.borrow().is_some() {
                    return false;
                }
                if !state.under_way.is_empty() {
                    (state.heard, state.silent) = (false, Duration::ZERO);
                    return true;
                }
                if state.is_closed {
                    return false;
                }
                state.is_idle = true;
            }
            self.begun.notified().await;
        }
    }

    /// Returns the time for which the agent has been silent; `None` if nothing waits any more. Must be
    /// called once in each [`Moments::LOOK_INTERVAL`].
    ///
    /// The time is a number of calls and not a clock's time, because a process that was itself stopped has not received
    /// the agent's messages in that time.
    pub(crate) fn look(&self) -> Option<Duration> {
        let mut state = self.state.lock();
        if state.under_way.is_empty() {
            return None;
        }
        let is_silent = !std::mem::take(&mut state.heard);
        state.silent = if is_silent { state.silent + Moments::LOOK_INTERVAL } else { Duration::ZERO };
        Some(state.silent)
    }

    /// Returns true if the agent was silent between the last two checks, and has been silent since.
    pub(crate) fn are_silent(&self) -> bool {
        let state = self.state.lock();
        !state.silent.is_zero() && !state.heard
    }

    /// Abandons the agent, which has been silent for `silent`, if a wait has reached its limit.
    pub(crate) fn give_up_in_time(&self, silent: Duration, socket: &Path) {
        let state = self.state.lock();
        let expired = state.under_way.iter().find_map(|(number, wait)| {
            let (limit, passed) = match wait.limit {
                Limit::Never => return None,
                Limit::Deadline(limit) => (limit, wait.since?.elapsed() >= limit.saturating_add(GRACE)),
                Limit::Silence(limit) => (limit, silent >= limit),
            };
            passed.then_some((*number, limit))
        });
        if let Some((expired, deadline)) = expired {
            self.verdict.send_replace(Some(Verdict { expired, deadline, silent, socket: socket.into() }));
        }
    }

    /// Waits until the process has abandoned the agent.
    pub(crate) async fn given_up(&self) {
        // The channel cannot be closed, because `self` owns the sender.
        let _ = self.verdict.subscribe().wait_for(Option::is_some).await;
    }

    /// Checks that the process has not abandoned the agent.
    ///
    /// # Errors
    /// [`ClientError::GivenUp`] if the process has abandoned the agent.
    pub(crate) fn check(&self) -> Result<(), ClientError> {
        match self.verdict.borrow().clone() {
            Some(verdict) => Err(verdict.given_up()),
            None => Ok(()),
        }
    }
}

impl WaitList {
    fn first_in_order(&mut self) -> Option<&mut PendingWait> {
        self.under_way.values_mut().find(|wait| wait.place == Place::InOrder)
    }
}

impl Wait {
    /// Returns the error of this wait after the process has abandoned the agent. `what` names the missing
    /// answer.
    pub(crate) fn lost(&self, what: impl FnOnce() -> String) -> ClientError {
        match self.waits.verdict.borrow().clone() {
            Some(Verdict { expired, deadline, silent, socket }) if expired == self.number => {
                ClientError::AgentSilent { what: what(), deadline, silent, socket }
            }
            Some(verdict) => verdict.given_up(),
            None => ClientError::Interrupted,
        }
    }
}

impl Drop for Wait {
    fn drop(&mut self) {
        let mut state = self.waits.state.lock();
        state.under_way.remove(&self.number);
        if let Some(first) = state.first_in_order() {
            first.since.get_or_insert_with(Instant::now);
        }
    }
}

#[cfg(test)]
mod tests {
    use tokio::time::advance;

    use super::*;

    /// Returns true if the process abandons the silent agent now.
    fn is_given_up(waits: &Waits) -> bool {
        waits.give_up_in_time(Moments::FIRST, "agent.sock".as_ref());
        waits.check().is_err()
    }

    #[tokio::test(start_paused = true)]
    async fn the_time_of_an_all_reduce_counts_from_the_end_of_those_before_it() {
        let waits = Arc::new(Waits::default());
        let deadline = Duration::from_secs(5);
        let first = waits.begin(Place::InOrder, Limit::Never);
        let second = waits.begin(Place::InOrder, Limit::Deadline(deadline));
        advance(2 * deadline).await;
        assert!(!is_given_up(&waits), "the first one has no deadline");
        drop(first);
        advance(deadline).await;
        assert!(!is_given_up(&waits), "the agent may still say itself that the deadline has passed");
        let third = waits.begin(Place::InOrder, Limit::Deadline(deadline));
        advance(GRACE).await;
        assert!(is_given_up(&waits));
        assert!(matches!(second.lost(String::new), ClientError::AgentSilent { .. }));
        assert!(matches!(third.lost(String::new), ClientError::GivenUp { .. }));
    }

    #[tokio::test(start_paused = true)]
    async fn a_call_does_not_wait_for_all_reduces() {
        let waits = Arc::new(Waits::default());
        let deadline = Duration::from_secs(5);
        let _all_reduce = waits.begin(Place::InOrder, Limit::Never);
        let call = waits.begin(Place::Alone, Limit::Deadline(deadline));
        advance(deadline + GRACE).await;
        assert!(is_given_up(&waits));
        assert!(matches!(call.lost(String::new), ClientError::AgentSilent { .. }));
    }

    #[tokio::test(start_paused = true)]
    async fn who_waits_for_others_anyway_gives_the_agent_up_for_its_silence_alone() {
        let waits = Arc::new(Waits::default());
        let step = waits.begin(Place::Alone, Limit::Silence(2 * Moments::FIRST));
        advance(Duration::from_secs(3600)).await;
        assert!(!is_given_up(&waits));
        waits.give_up_in_time(2 * Moments::FIRST, "agent.sock".as_ref());
        assert!(matches!(step.lost(String::new), ClientError::AgentSilent { .. }));
    }

    #[tokio::test(start_paused = true)]
    async fn only_looks_count_as_silence() {
        let waits = Arc::new(Waits::default());
        assert_eq!(waits.look(), None);
        let _wait = waits.begin(Place::Alone, Limit::Never);
        // The clock advances as in a process that was itself stopped.
        advance(Duration::from_secs(60)).await;
        assert_eq!(waits.look(), Some(Moments::LOOK_INTERVAL));
        assert!(waits.are_silent());
        waits.heard();
        assert!(!waits.are_silent());
        assert_eq!(waits.look(), Some(Duration::ZERO));
    }
}
