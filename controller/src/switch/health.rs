//! The health of a switch.

use std::fmt;

use tokio::sync::watch;
use tokio::time::Instant;
use tributary_p4runtime::SessionError;

use crate::error::SwitchError;

/// The health of a switch, according to the controller's session with it.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum SwitchHealth {
    /// The controller has just started, and its first attempt to connect has not ended.
    Connecting {
        /// The start of the attempt.
        since: Instant,
    },
    /// The switch is ready: it runs our program, and it held its desired state when the session began.
    /// Later changes of the desired state are written at once.
    Up {
        /// The start of the session.
        since: Instant,
    },
    /// The controller has no usable session with the switch.
    /// The switch's state is unknown, and the switch may be down.
    Unreachable {
        /// The time at which the last usable session ended, or the first attempt to connect failed.
        since: Instant,
        /// The error of the last attempt to connect, without the switch's name.
        reason: String,
        /// The kind of the error.
        cause: UnreachableCause,
    },
}

/// Kinds of reasons why a switch is unreachable.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum UnreachableCause {
    /// The switch's machine answers that no P4Runtime server runs there.
    NotRunning,
    /// The switch does not answer, or the connection has broken. The switch may still forward frames.
    NoAnswer,
    /// Another controller is primary.
    OtherController,
    /// The switch refuses our program or its desired state.
    Refuses,
}

impl From<&SwitchError> for UnreachableCause {
    fn from(error: &SwitchError) -> Self {
        match error {
            SwitchError::NotPrimary { .. } => Self::OtherController,
            SwitchError::Session(SessionError::Unreachable { refused: true, .. }) => Self::NotRunning,
            SwitchError::Session(SessionError::Refused { .. } | SessionError::Write { .. })
            | SwitchError::Entry { .. }
            | SwitchError::Refused { .. } => Self::Refuses,
            SwitchError::Session(
                SessionError::BadAddress { .. }
                | SessionError::Unreachable { .. }
                | SessionError::NoAnswer { .. }
                | SessionError::Ended { .. },
            )
            | SwitchError::Unreachable { .. }
            | SwitchError::Slow { .. }
            | SwitchError::Busy { .. }
            | SwitchError::Stopped { .. } => Self::NoAnswer,
        }
    }
}

impl SwitchHealth {
    /// Returns true if the switch is ready for work.
    pub(crate) fn is_up(&self) -> bool {
        matches!(self, Self::Up { .. })
    }

    /// Returns true if the switch is known not to forward frames.
    pub(crate) fn is_dead(&self) -> bool {
        matches!(self, Self::Unreachable { cause: UnreachableCause::NotRunning, .. })
    }

    /// Returns the start of the present state.
    pub(crate) fn since(&self) -> Instant {
        match self {
            Self::Connecting { since } | Self::Up { since } | Self::Unreachable { since, .. } => *since,
        }
    }

    /// Returns a short description of the reason why the switch is not ready; `None` if it is ready.
    pub(crate) fn reason(&self) -> Option<&str> {
        match self {
            Self::Connecting { .. } => Some("the first attempt to connect is under way"),
            Self::Up { .. } => None,
            Self::Unreachable { reason, .. } => Some(reason),
        }
    }
}

/// Publishes the health of a switch, and logs changes.
#[derive(Debug)]
pub(super) struct Reporter {
    switch: String,
    health: watch::Sender<SwitchHealth>,
}

impl Reporter {
    pub(super) fn new(switch: &str) -> Self {
        let health = watch::Sender::new(SwitchHealth::Connecting { since: Instant::now() });
        Self { switch: switch.to_owned(), health }
    }

    pub(super) fn watch(&self) -> watch::Receiver<SwitchHealth> {
        self.health.subscribe()
    }

    /// Returns true if at least one attempt to connect has ended.
    pub(super) fn is_decided(&self) -> bool {
        !matches!(&*self.health.borrow(), SwitchHealth::Connecting { .. })
    }

    pub(super) fn up(&self) {
        let before = self.health.send_replace(SwitchHealth::Up { since: Instant::now() });
        let switch = &self.switch;
        match before {
            SwitchHealth::Unreachable { since, .. } => {
                tracing::info!(switch, unreachable_for = ?since.elapsed(), "is up again, with what it should hold");
            }
            _ => tracing::info!(switch, "is up"),
        }
    }

    pub(super) fn unreachable(&self, error: &SwitchError) {
        let (reason, switch) = (without_name(&self.switch, error), &self.switch);
        let since = match &*self.health.borrow() {
            SwitchHealth::Connecting { since } | SwitchHealth::Unreachable { since, .. } => *since,
            SwitchHealth::Up { .. } => Instant::now(),
        };
        let unreachable = SwitchHealth::Unreachable { since, reason: reason.clone(), cause: error.into() };
        let before = self.health.send_replace(unreachable);
        match before {
            SwitchHealth::Unreachable { reason: same, .. } if same == reason => {}
            SwitchHealth::Unreachable { .. } => tracing::info!(switch, reason, "is still unreachable"),
            _ => tracing::warn!(
                switch,
                reason,
                "is unreachable: the controller retries, and writes its tables later"
            ),
        }
    }
}

/// Returns an error's message without the switch's name at the beginning, for contexts that show the
/// name.
pub(super) fn without_name(switch: &str, error: &impl fmt::Display) -> String {
    let text = error.to_string();
    let rest = text.strip_prefix(&format!("switch {switch}")).map(|rest| rest.trim_start_matches([':', ' ']));
    rest.map_or_else(|| text.clone(), ToOwned::to_owned)
}

#[cfg(test)]
mod tests {
    use tokio::time::{Duration, advance};

    use super::*;

    fn ended(reason: &str) -> SwitchError {
        SessionError::Ended { switch: "leaf".into(), reason: reason.into() }.into()
    }

    #[tokio::test(start_paused = true)]
    async fn a_switch_is_away_since_it_was_lost_however_often_it_is_tried() {
        let reporter = Reporter::new("leaf");
        let health = reporter.watch();
        let start = Instant::now();
        assert_eq!(*health.borrow(), SwitchHealth::Connecting { since: start });
        advance(Duration::from_secs(1)).await;
        reporter.up();
        assert!(health.borrow().is_up() && health.borrow().since() > start);
        advance(Duration::from_secs(1)).await;
        let lost = Instant::now();
        for reason in ["reset", "refused"] {
            reporter.unreachable(&ended(reason));
            let (words, cause) = (format!("the session has ended: {reason}"), UnreachableCause::NoAnswer);
            assert_eq!(*health.borrow(), SwitchHealth::Unreachable { since: lost, reason: words, cause });
            advance(Duration::from_secs(9)).await;
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_switch_that_was_never_there_is_away_since_the_start() {
        let reporter = Reporter::new("leaf");
        let start = Instant::now();
        advance(Duration::from_secs(1)).await;
        reporter.unreachable(&ended("refused"));
        assert_eq!(reporter.watch().borrow().since(), start);
    }

    #[test]
    fn a_reason_leaves_out_the_name_of_the_switch() {
        assert_eq!(without_name("leaf", &"switch leaf: gone"), "gone");
        assert_eq!(without_name("leaf", &"switch leaf refused it"), "refused it");
        assert_eq!(without_name("leaf", &"something else"), "something else");
    }
}
