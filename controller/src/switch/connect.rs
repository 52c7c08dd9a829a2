//! Leads from no session to a switch in its right state, in one step: a session is used for nothing
//! else before the switch has our program and holds what it should.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;
use tokio::time::Instant;
use tributary_p4runtime::session::{Mastership, Running};
use tributary_p4runtime::{Session, SessionError, Target};

use super::desired_state::{Desired, Tried};
use super::election::Elections;
use super::health::Reporter;
use super::operations;
use crate::error::SwitchError;
use crate::pipeline::Pipeline;

/// Time that an attempt may take until the switch has answered the claim to be its controller.
/// Short, so that a machine that was off is found soon after it is on again.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(1);
/// The same for the first attempt, when the switch itself may have only just started, and many with it.
const FIRST_TIMEOUT: Duration = Duration::from_secs(3);
/// The interval between probes of a switch, and the time limit for its answer.
const PROBE_INTERVAL: Duration = Duration::from_secs(1);
const PROBE_PATIENCE: Duration = Duration::from_millis(1500);

/// A session with a switch that was in its right state when it began.
/// Only [`Connector::connect`] makes one.
pub(super) struct Ready(Session);

impl Ready {
    pub(super) fn session(&self) -> &Session {
        &self.0
    }
}

/// The controller's knowledge of the program that a switch runs.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Program {
    /// True if the switch ran our program at the last check; `None` before the first check.
    pub(crate) ours: Option<bool>,
    /// The last time that the switch lost our program.
    pub(crate) reset: Option<Reset>,
}

/// A switch lost our program: it was rebooted, or received another program.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Reset {
    /// The number of resets of this switch.
    pub(crate) count: u32,
    pub(crate) at: Instant,
    /// True if the switch had another program then.
    pub(crate) other_program: bool,
}

impl Program {
    /// Notes what program a switch turned out to run.
    fn found(&mut self, running: Running) {
        let is_ours = running == Running::Same;
        if !is_ours && self.ours == Some(true) {
            let count = self.reset.map_or(0, |reset| reset.count) + 1;
            self.reset = Some(Reset { count, at: Instant::now(), other_program: running == Running::Other });
        }
        self.ours = Some(is_ours);
    }
}

/// All that is needed to connect.
pub(super) struct Connector {
    pub(super) target: Target,
    pub(super) pipeline: Arc<Pipeline>,
    pub(super) elections: Elections,
    pub(super) desired: watch::Receiver<Arc<Desired>>,
    pub(super) tried: watch::Sender<Option<Tried>>,
    /// The newest state that the switch is known to hold, or to have held when it was last heard of.
    pub(super) held: watch::Sender<Option<Arc<Desired>>>,
    pub(super) program: watch::Sender<Program>,
    pub(super) health: Reporter,
    /// Set until the first session: any jobs that the switch then holds tables of must have been lost.
    pub(super) expects_no_jobs: bool,
}

impl Connector {
    /// Becomes the switch's primary controller, makes it run our program, and brings it into its newest
    /// desired state. While another controller is primary, it waits until that controller disconnects.
    pub(super) async fn connect(&mut self) -> Result<Ready, SwitchError> {
        let session = self.claim().await?;
        let right = tokio::select! {
            right = self.make_right(&session) => right,
            error = ended(&session) => Err(error),
        };
        right.map(|()| Ready(session))
    }

    async fn claim(&mut self) -> Result<Session, SwitchError> {
        let timeout = if self.health.is_decided() { CONNECT_TIMEOUT } else { FIRST_TIMEOUT };
        let (target, deadline) = (self.target.clone(), Instant::now() + timeout);
        let mut session = Session::connect_once(target, self.elections.next(), deadline).await?;
        session.watch_silence(PROBE_INTERVAL, PROBE_PATIENCE);
        let mut mastership = session.mastership();
        loop {
            let state = mastership.borrow_and_update().clone();
            match state {
                Mastership::Primary => return Ok(session),
                Mastership::Ended { .. } | Mastership::Nobody => return Err(not_primary(&session, &state)),
                Mastership::Backup { .. } => self.health.away(&not_primary(&session, &state)),
            }
            if mastership.changed().await.is_err() {
                return Err(SwitchError::Stopped { switch: self.target.name.clone() });
            }
        }
    }

    async fn make_right(&mut self, session: &Session) -> Result<(), SwitchError> {
        self.install_pipeline(session).await?;
        if std::mem::take(&mut self.expects_no_jobs) {
            self.warn_of_lost_jobs(session).await?;
        }
        self.converge(session).await
    }

    /// Warns of tables of unknown jobs: an operator may have removed the journal without knowing
    /// that the jobs went with it.
    async fn warn_of_lost_jobs(&self, session: &Session) -> Result<(), SwitchError> {
        let desired = self.desired.borrow().clone();
        let lost = operations::jobs_to_withdraw(session, &self.pipeline, &desired.state).await?;
        if lost > 0 {
            tracing::warn!(
                switch = self.target.name,
                jobs = lost,
                "withdrawing tables of jobs that this controller does not know, since its journal is new: was jobs.redb \
                 removed, or is the folder of its state (--state) another one than before?"
            );
        }
        Ok(())
    }

    /// Installs our program, unless the switch already runs it: then its entries stay, and correct ones
    /// need not be written again.
    async fn install_pipeline(&self, session: &Session) -> Result<(), SwitchError> {
        let pipeline = &self.pipeline;
        if !self.check_program(session).await? {
            tracing::info!(switch = self.target.name, "installing the pipeline");
            session.set_pipeline(&pipeline.device_config, &pipeline.info, pipeline.cookie).await?;
            self.program.send_modify(|program| program.ours = Some(true));
        }
        Ok(())
    }

    /// Asks the switch whether it runs our program.
    pub(super) async fn check_program(&self, session: &Session) -> Result<bool, SwitchError> {
        let running = session.running(&self.pipeline.device_config, self.pipeline.cookie).await?;
        self.program.send_modify(|program| program.found(running));
        Ok(running == Running::Same)
    }

    /// Brings the switch into its newest desired state, and notifies the callers that wait for it.
    ///
    /// # Errors
    /// The switch refused the state, or the session broke; after a broken session the switch's state is unknown.
    pub(super) async fn converge(&mut self, session: &Session) -> Result<(), SwitchError> {
        let desired = self.desired.borrow_and_update().clone();
        let outcome = operations::converge(session, &self.pipeline, &desired.state).await;
        if outcome.is_ok() {
            self.held.send_replace(Some(desired.clone()));
        }
        if !outcome.as_ref().is_err_and(breaks_session) {
            self.tried.send_replace(Some(Tried { desired, outcome: outcome.clone() }));
        }
        outcome
    }
}

/// Returns once the session is no longer primary, with the reason.
pub(super) async fn ended(session: &Session) -> SwitchError {
    let mut mastership = session.mastership();
    match mastership.wait_for(|state| *state != Mastership::Primary).await.map(|state| state.clone()) {
        Ok(state) => not_primary(session, &state),
        Err(_) => SwitchError::Stopped { switch: session.target().name.clone() },
    }
}

fn not_primary(session: &Session, state: &Mastership) -> SwitchError {
    let switch = session.target().name.clone();
    match state {
        Mastership::Ended { reason } => SessionError::Ended { switch, reason: reason.clone() }.into(),
        state => SwitchError::NotPrimary { switch, state: state.to_string() },
    }
}

/// Returns true if the session is unusable after this error, even if the switch keeps it open.
pub(super) fn breaks_session(error: &SwitchError) -> bool {
    matches!(error, SwitchError::Session(SessionError::Ended { .. } | SessionError::NoAnswer { .. }))
}
