//! One switch: a task that owns the P4Runtime session with it. When the session breaks it connects again,
//! and brings the switch back into its state.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinHandle;
use tokio::time::Instant;
use tributary_p4runtime::session::Mastership;
use tributary_p4runtime::{Session, Target};

use crate::election::Elections;
use crate::error::SwitchError;
use crate::pipeline::Pipeline;
use crate::state::SwitchState;
use crate::work::{Outcome, Work};

/// A second attempt is for a session that had broken unnoticed; a third would be for a switch that is ill.
const ATTEMPTS: usize = 2;
/// Between two attempts to restore a switch that does not answer.
const RESTORE_PAUSE: Duration = Duration::from_secs(1);

/// The handle on one switch. Its work is done one after the other, in the order of the calls.
#[derive(Debug)]
pub(crate) struct Switch {
    name: String,
    orders: mpsc::UnboundedSender<Order>,
    task: JoinHandle<()>,
}

/// What is to be done, and whom to tell.
type Order = (Work, oneshot::Sender<Outcome>);

/// The answer to an order.
#[derive(Debug)]
pub(crate) struct Pending {
    switch: String,
    outcome: Option<oneshot::Receiver<Outcome>>,
}

impl Pending {
    /// Waits until the order was carried out, or failed.
    pub(crate) async fn outcome(self) -> Outcome {
        let stopped = SwitchError::Stopped { switch: self.switch };
        match self.outcome {
            Some(outcome) => outcome.await.unwrap_or(Err(stopped)),
            None => Err(stopped),
        }
    }
}

impl Switch {
    /// Starts the task; it connects when there is something to do. `patience`: how long a switch may take
    /// to answer.
    pub(crate) fn start(
        target: Target,
        pipeline: Arc<Pipeline>,
        elections: Elections,
        patience: Duration,
    ) -> Self {
        let name = target.name.clone();
        let (orders, inbox) = mpsc::unbounded_channel();
        let driver = Driver { target, pipeline, elections, patience, session: None, want: None };
        Self { name, orders, task: tokio::spawn(driver.run(inbox)) }
    }

    /// Its name in the topology.
    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    /// Orders that the switch be brought into this state.
    pub(crate) fn converge(&self, want: SwitchState) -> Pending {
        self.order(Work::Converge(want))
    }

    /// Orders that the counters of the job with this index be set to zero.
    pub(crate) fn clear_counters(&self, job_index: u16) -> Pending {
        self.order(Work::ClearCounters(job_index))
    }

    /// Orders that all counters be read.
    pub(crate) fn read_counters(&self) -> Pending {
        self.order(Work::ReadCounters)
    }

    /// Orders that the counters of ports be read.
    pub(crate) fn read_port_counters(&self) -> Pending {
        self.order(Work::ReadPortCounters)
    }

    fn order(&self, work: Work) -> Pending {
        let (reply, outcome) = oneshot::channel();
        let taken = self.orders.send((work, reply)).is_ok();
        Pending { switch: self.name.clone(), outcome: taken.then_some(outcome) }
    }
}

impl Drop for Switch {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// The task's own state.
struct Driver {
    target: Target,
    pipeline: Arc<Pipeline>,
    elections: Elections,
    patience: Duration,
    session: Option<Session>,
    /// What the switch was last ordered to hold.
    want: Option<SwitchState>,
}

impl Driver {
    async fn run(mut self, mut inbox: mpsc::UnboundedReceiver<Order>) {
        loop {
            tokio::select! {
                order = inbox.recv() => {
                    let Some((work, reply)) = order else { return };
                    let outcome = self.carry_out(&work).await;
                    if let Work::Converge(want) = work {
                        self.want = Some(want);
                    }
                    // Whoever gave the order may have lost interest.
                    let _ = reply.send(outcome);
                }
                () = broken(self.session.as_ref()), if self.want.is_some() => self.restore().await,
            }
        }
    }

    /// The switch may have lost everything: it is to hold again what it held.
    async fn restore(&mut self) {
        self.session = None;
        let Some(want) = self.want.take() else { return };
        let work = Work::Converge(want);
        match self.carry_out(&work).await {
            Ok(_) => tracing::info!(switch = self.target.name, "restored"),
            Err(error) => tracing::warn!(switch = self.target.name, %error, "cannot restore"),
        }
        if let Work::Converge(want) = work {
            self.want = Some(want);
        }
    }

    async fn carry_out(&mut self, work: &Work) -> Outcome {
        let mut attempt = 1;
        loop {
            let session = match self.session.take().filter(Session::is_primary) {
                Some(session) => session,
                None => self.connect().await?,
            };
            let outcome = work.carry_out(&session, &self.pipeline).await;
            let connected = session.is_primary();
            self.session = Some(session);
            match outcome {
                Err(error) if attempt < ATTEMPTS && !connected => {
                    tracing::info!(switch = self.target.name, %error, "connecting again");
                    attempt += 1;
                }
                outcome => return outcome,
            }
        }
    }

    /// A session with a switch that runs our program.
    async fn connect(&mut self) -> Result<Session, SwitchError> {
        let deadline = Instant::now() + self.patience;
        let election_id = self.elections.next();
        let session = Session::connect(self.target.clone(), election_id, deadline).await?;
        match tokio::time::timeout_at(deadline, session.primary()).await {
            Ok(primary) => primary?,
            Err(_) => {
                let state = session.mastership().borrow().to_string();
                return Err(SwitchError::NotPrimary { switch: self.target.name.clone(), state });
            }
        }
        self.install_pipeline(&session).await?;
        Ok(session)
    }

    /// A switch that runs our program already keeps what it holds: what is right of it need not be written
    /// again.
    async fn install_pipeline(&self, session: &Session) -> Result<(), SwitchError> {
        let pipeline = &self.pipeline;
        if session.pipeline_cookie().await? != Some(pipeline.cookie) {
            tracing::info!(switch = self.target.name, "installing the pipeline");
            session.set_pipeline(pipeline.json.as_bytes(), &pipeline.info, pipeline.cookie).await?;
        }
        Ok(())
    }
}

/// Returns when the session has ended, or when it is time to try again where there is none. A session that
/// is no longer primary is not broken: another controller has taken over, and this one stays out of its way.
async fn broken(session: Option<&Session>) {
    match session {
        Some(session) => {
            let mut mastership = session.mastership();
            // An error means that nobody watches the session any more: it is as good as ended.
            let _ = mastership.wait_for(|state| matches!(state, Mastership::Ended { .. })).await;
        }
        None => tokio::time::sleep(RESTORE_PAUSE).await,
    }
}
