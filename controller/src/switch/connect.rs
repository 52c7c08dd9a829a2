//! Opens a session with a switch and brings the switch into its desired state, in one step.
//! A session can be used for other work only after the switch runs our program and holds its desired state.

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

/// Time in which an attempt to connect must get the answer to the controller's claim to be primary.
/// It is short, so that the controller soon reaches a machine that was off.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(1);
/// The limit for the first attempt to connect.
/// It is longer because many switches may have just started.
const FIRST_TIMEOUT: Duration = Duration::from_secs(3);
/// The interval between health probes of a switch.
const PROBE_INTERVAL: Duration = Duration::from_secs(1);
const PROBE_PATIENCE: Duration = Duration::from_millis(1500);

/// A session with a switch that held its desired state when the session began.
/// Only [`Connector::connect`] creates it.
pub(super) struct Ready(Session);

impl Ready {
    pub(super) fn session(&self) -> &Session {
        &self.0
    }
}

/// The controller's knowledge of a switch's program.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Program {
    /// True if the switch ran our program at the last check; `None` before the first check.
    pub(crate) ours: Option<bool>,
    /// The last time that the switch lost our program.
    pub(crate) reset: Option<Reset>,
}

/// A loss of our program by a switch, because of a reboot or because it received another program.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Reset {
    /// The number of losses of the program by this switch.
    pub(crate) count: u32,
    pub(crate) at: Instant,
    /// True if the switch had another program at that time; false if it had none.
    pub(crate) other_program: bool,
}

impl Program {
    /// Updates the knowledge after a check of the switch's program.
    fn found(&mut self, running: Running) {
        let is_ours = running == Running::Same;
        if !is_ours && self.ours == Some(true) {
            let count = self.reset.map_or(0, |reset| reset.count) + 1;
            self.reset = Some(Reset { count, at: Instant::now(), other_program: running == Running::Other });
        }
        self.ours = Some(is_ours);
    }
}

/// The parts that are necessary to connect to a switch.
pub(super) struct Connector {
    pub(super) target: Target,
    pub(super) pipeline: Arc<Pipeline>,
    pub(super) elections: Elections,
    pub(super) desired: watch::Receiver<Arc<Desired>>,
    pub(super) tried: watch::Sender<Option<Tried>>,
    /// The newest desired state that the switch holds, or held when the controller last reached it.
    pub(super) held: watch::Sender<Option<Arc<Desired>>>,
    pub(super) program: watch::Sender<Program>,
    pub(super) health: Reporter,
    /// True until the first session of a controller with a new journal.
    /// If the switch then holds tables of jobs, those jobs have been lost.
    pub(super) expects_no_jobs: bool,
}

impl Connector {
    /// Becomes the switch's primary controller, installs our program, and writes the newest desired state.
    /// While another controller is primary, it waits until that controller disconnects.
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
                Mastership::Backup { .. } => self.health.unreachable(&not_primary(&session, &state)),
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

    /// Warns if the switch has tables of unknown jobs.
    /// An operator may have removed the journal without knowing that this removes the jobs.
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

    /// Installs our program, unless the switch already runs it.
    /// If it does, the switch keeps its entries, and correct entries need not be written again.
    async fn install_pipeline(&self, session: &Session) -> Result<(), SwitchError> {
        let pipeline = &self.pipeline;
        if !self.check_program(session).await? {
            tracing::info!(switch = self.target.name, "installing the pipeline");
            session.set_pipeline(&pipeline.device_config, &pipeline.info, pipeline.cookie).await?;
            self.program.send_modify(|program| program.ours = Some(true));
        }
        Ok(())
    }

    /// Returns true if the switch runs our program.
    pub(super) async fn check_program(&self, session: &Session) -> Result<bool, SwitchError> {
        let running = session.running(&self.pipeline.device_config, self.pipeline.cookie).await?;
        self.program.send_modify(|program| program.found(running));
        Ok(running == Running::Same)
    }

    /// Brings the switch into its newest desired state, and notifies the callers that wait for it.
    ///
    /// # Errors
    /// The switch refused the state, or the session broke. After a broken session, the switch's state is unknown.
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

/// Waits until the session is no longer primary, and returns the reason.
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

/// Returns true if this error makes the session unusable, even if the switch keeps the session open.
pub(super) fn breaks_session(error: &SwitchError) -> bool {
    matches!(error, SwitchError::Session(SessionError::Ended { .. } | SessionError::NoAnswer { .. }))
}
