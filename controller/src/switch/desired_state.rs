//! The desired state of a switch, and callers' waits for it.
//!
//! There is one desired state for each switch, not a queue: a newer state replaces an older state that the switch does
//! not hold yet. A caller that has requested a state receives the outcome for that state or for a newer one.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;
use tokio::time::Instant;

use super::health::SwitchHealth;
use crate::error::SwitchError;
use crate::jobs::GenerationKey;
use crate::switch_state::SwitchState;

/// The time that orders wait for a switch whose session was just lost, because it may soon return.
///
/// Orders do not wait for a switch that has been unreachable for longer.
const GRACE: Duration = Duration::from_secs(2);

/// The desired state of a switch.
#[derive(Debug)]
pub(crate) struct Desired {
    /// The number of this desired state among all desired states of the switch.
    pub(super) version: u64,
    pub(super) state: SwitchState,
    /// Retired generations that have no tables in this state.
    pub(crate) withdraws: Vec<GenerationKey>,
}

/// The newest desired state that the controller tried to write, and the outcome.
#[derive(Debug, Clone)]
pub(super) struct Tried {
    pub(super) desired: Arc<Desired>,
    pub(super) outcome: Result<(), SwitchError>,
}

/// A caller's wait for a desired state.
#[derive(Debug)]
pub(crate) struct Pending {
    pub(super) version: u64,
    pub(super) tried: watch::Receiver<Option<Tried>>,
    pub(super) patience: Patience,
}

impl Pending {
    /// Waits until the switch holds this state or a newer one, and returns the state that it holds.
    ///
    /// The controller writes the state even if no caller waits.
    ///
    /// # Errors
    /// The switch refuses the state, is unreachable, or takes too long. It still gets the state as soon as possible.
    pub(crate) async fn outcome(mut self) -> Result<Arc<Desired>, SwitchError> {
        let version = self.version;
        let enough =
            |tried: &Option<Tried>| tried.as_ref().is_some_and(|tried| tried.desired.version >= version);
        let stopped = SwitchError::Stopped { switch: self.patience.switch.clone() };
        tokio::select! {
            biased;
            tried = self.tried.wait_for(enough) => match tried.map(|tried| tried.clone()) {
                Ok(Some(Tried { desired, outcome })) => outcome.map(|()| desired),
                Ok(None) | Err(_) => Err(stopped),
            },
            error = self.patience.lost() => Err(error),
        }
    }
}

/// The limit of a caller's wait for a switch.
#[derive(Debug)]
pub(super) struct Patience {
    switch: String,
    health: watch::Receiver<SwitchHealth>,
    given: Duration,
    deadline: Instant,
}

impl Patience {
    /// Creates the limit for a caller that begins to wait now. `given` is the longest duration of the wait.
    pub(super) fn new(switch: &str, health: watch::Receiver<SwitchHealth>, given: Duration) -> Self {
        Self { switch: switch.to_owned(), health, given, deadline: Instant::now() + given }
    }

    /// Returns the latest end of the wait.
    pub(super) fn deadline(&self) -> Instant {
        self.deadline
    }

    /// Waits until the caller should stop waiting, and returns the reason.
    pub(super) async fn lost(&mut self) -> SwitchError {
        loop {
            let end = match &*self.health.borrow_and_update() {
                SwitchHealth::Unreachable { since, .. } => self.deadline.min(*since + GRACE),
                SwitchHealth::Up { .. } | SwitchHealth::Connecting { .. } => self.deadline,
            };
            tokio::select! {
                () = tokio::time::sleep_until(end) => return self.error(),
                changed = self.health.changed() => if changed.is_err() {
                    return SwitchError::Stopped { switch: self.switch.clone() };
                },
            }
        }
    }

    fn error(&self) -> SwitchError {
        let switch = self.switch.clone();
        match &*self.health.borrow() {
            SwitchHealth::Unreachable { since, reason, .. } => SwitchError::Unreachable {
                switch,
                seconds: since.elapsed().as_secs(),
                reason: reason.clone(),
            },
            SwitchHealth::Up { .. } | SwitchHealth::Connecting { .. } => {
                SwitchError::Slow { switch, seconds: self.given.as_secs_f64() }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const GIVEN: Duration = Duration::from_secs(10);

    struct Channels {
        health: watch::Sender<SwitchHealth>,
        tried: watch::Sender<Option<Tried>>,
    }

    impl Channels {
        fn new(health: SwitchHealth) -> Self {
            Self { health: watch::Sender::new(health), tried: watch::Sender::new(None) }
        }

        fn order(&self, version: u64) -> Pending {
            let patience = Patience::new("leaf", self.health.subscribe(), GIVEN);
            Pending { version, tried: self.tried.subscribe(), patience }
        }

        fn done(&self, version: u64, outcome: Result<(), SwitchError>) {
            let desired = Desired { version, state: SwitchState::default(), withdraws: Vec::new() };
            self.tried.send_replace(Some(Tried { desired: Arc::new(desired), outcome }));
        }
    }

    fn up() -> SwitchHealth {
        SwitchHealth::Up { since: Instant::now() }
    }

    fn unreachable() -> SwitchHealth {
        SwitchHealth::Unreachable {
            since: Instant::now(),
            reason: "refused".into(),
            cause: crate::switch::UnreachableCause::NoAnswer,
        }
    }

    fn unreachable_for(seconds: u64) -> SwitchError {
        SwitchError::Unreachable { switch: "leaf".into(), seconds, reason: "refused".into() }
    }

    #[tokio::test(start_paused = true)]
    async fn a_newer_state_answers_for_an_older_one_and_an_older_one_for_none() {
        let channels = Channels::new(up());
        channels.done(1, Ok(()));
        let (second, third) = (channels.order(2), channels.order(3));
        let work = async {
            tokio::time::sleep(Duration::from_secs(1)).await;
            channels.done(3, Ok(()));
        };
        let (second, third, ()) = tokio::join!(second.outcome(), third.outcome(), work);
        assert_eq!([second.unwrap().version, third.unwrap().version], [3, 3]);
    }

    #[tokio::test(start_paused = true)]
    async fn a_switch_that_was_just_lost_is_waited_for_a_moment_and_one_that_is_long_away_is_not() {
        let begin = Instant::now();
        let channels = Channels::new(unreachable());
        assert_eq!(channels.order(1).outcome().await.unwrap_err(), unreachable_for(2));
        assert_eq!(begin.elapsed().as_secs(), 2);
        tokio::time::advance(Duration::from_secs(60)).await;
        let ordered = Instant::now();
        assert_eq!(channels.order(1).outcome().await.unwrap_err(), unreachable_for(62));
        assert!(ordered.elapsed() < Duration::from_millis(5), "it is known already");
    }

    #[tokio::test(start_paused = true)]
    async fn a_switch_that_comes_back_in_that_moment_has_never_been_away() {
        let channels = Channels::new(unreachable());
        let work = async {
            tokio::time::sleep(Duration::from_secs(1)).await;
            channels.health.send_replace(up());
            tokio::time::sleep(Duration::from_secs(5)).await;
            channels.done(1, Ok(()));
        };
        let (outcome, ()) = tokio::join!(channels.order(1).outcome(), work);
        assert_eq!(outcome.unwrap().version, 1);
    }

    #[tokio::test(start_paused = true)]
    async fn a_switch_that_is_there_has_its_time_and_no_more() {
        let channels = Channels::new(up());
        let begin = Instant::now();
        let slow = SwitchError::Slow { switch: "leaf".into(), seconds: 10.0 };
        assert_eq!(channels.order(1).outcome().await.unwrap_err(), slow);
        assert_eq!(begin.elapsed().as_secs(), GIVEN.as_secs());
        let order = channels.order(1);
        drop(channels);
        assert_eq!(order.outcome().await.unwrap_err(), SwitchError::Stopped { switch: "leaf".into() });
    }
}
