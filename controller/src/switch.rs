//! One switch: a task that owns the P4Runtime session with it, and connects again when it breaks.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinHandle;
use tokio::time::Instant;
use tributary_p4runtime::entry::{CounterCell, Entity, EntryError, Query};
use tributary_p4runtime::p4::v1;
use tributary_p4runtime::session::UpdateFailure;
use tributary_p4runtime::{Session, SessionError, Target};

use crate::error::{Refusal, SwitchError};
use crate::pipeline::{CounterArray, Pipeline};
use crate::reconcile::{self, Change};
use crate::state::SwitchState;

/// A second attempt is for a session that had broken unnoticed; a third would be for a switch that is ill.
const ATTEMPTS: usize = 2;

/// The handle on one switch. Its work is done one after the other, in the order of the calls.
#[derive(Debug)]
pub(crate) struct Switch {
    name: String,
    orders: mpsc::UnboundedSender<Order>,
    task: JoinHandle<()>,
}

/// What is to be done, and whom to tell.
type Order = (Work, oneshot::Sender<Outcome>);
/// The counters that were read, where that was the work.
pub(crate) type Outcome = Result<Vec<CounterCell>, SwitchError>;

#[derive(Debug)]
enum Work {
    /// Bring the switch into this state.
    Converge(SwitchState),
    /// Set the counters of the job with this index to zero.
    ClearCounters(u16),
    /// Read all counters.
    ReadCounters,
}

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
        election_id: u128,
        patience: Duration,
    ) -> Self {
        let name = target.name.clone();
        let (orders, inbox) = mpsc::unbounded_channel();
        let driver = Driver { target, pipeline, election_id, patience, session: None };
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
    election_id: u128,
    patience: Duration,
    session: Option<Session>,
}

impl Driver {
    async fn run(mut self, mut inbox: mpsc::UnboundedReceiver<Order>) {
        while let Some((work, reply)) = inbox.recv().await {
            let outcome = self.carry_out(&work).await;
            // Whoever gave the order may have lost interest.
            let _ = reply.send(outcome);
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
    async fn connect(&self) -> Result<Session, SwitchError> {
        let deadline = Instant::now() + self.patience;
        let session = Session::connect(self.target.clone(), self.election_id, deadline).await?;
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

impl Work {
    async fn carry_out(&self, session: &Session, pipeline: &Pipeline) -> Outcome {
        match self {
            Self::Converge(want) => converge(session, pipeline, want).await.map(|()| Vec::new()),
            Self::ClearCounters(index) => {
                clear_counters(session, pipeline, *index).await.map(|()| Vec::new())
            }
            Self::ReadCounters => read_counters(session, pipeline).await,
        }
    }
}

async fn converge(session: &Session, pipeline: &Pipeline, want: &SwitchState) -> Result<(), SwitchError> {
    let mut have = SwitchState::default();
    for entity in read(session, pipeline, &SwitchState::queries()).await? {
        have.put_read(entity);
    }
    for batch in reconcile::diff(&have, want) {
        tracing::debug!(switch = session.target().name, changes = batch.len(), first = %batch[0], "writing");
        write(session, pipeline, &batch).await?;
    }
    Ok(())
}

/// What the controller has no name for (BMv2's own clone sessions among the multicast groups, say) is not
/// its own to change, and left out.
async fn read(session: &Session, pipeline: &Pipeline, queries: &[Query]) -> Result<Vec<Entity>, SwitchError> {
    let switch = &session.target().name;
    let query = |query: &Query| {
        query
            .to_proto(&pipeline.info)
            .map_err(|source| entry_error(session, format!("read {query:?}"), source))
    };
    let patterns = queries.iter().map(query).collect::<Result<_, _>>()?;
    let known = |message: &v1::Entity| {
        let entity = Entity::from_proto(&pipeline.info, message);
        entity.inspect_err(|error| tracing::debug!(switch, %error, "not ours")).ok()
    };
    Ok(session.read(patterns).await?.iter().filter_map(known).collect())
}

async fn write(session: &Session, pipeline: &Pipeline, changes: &[Change]) -> Result<(), SwitchError> {
    let update = |change: &Change| {
        let update = change.to_update(&pipeline.info);
        update.map_err(|source| entry_error(session, change.to_string(), source))
    };
    let updates = changes.iter().map(update).collect::<Result<_, _>>()?;
    match session.write(updates).await {
        Err(SessionError::Write { switch, failures, .. }) => {
            let refusal = |failure: &UpdateFailure| Refusal {
                change: changes.get(failure.index).map(ToString::to_string).unwrap_or_default(),
                reason: format!("{}: {}", failure.code.as_str_name(), failure.reason),
            };
            Err(SwitchError::Refused { switch, refusals: failures.iter().map(refusal).collect() })
        }
        outcome => Ok(outcome?),
    }
}

async fn clear_counters(session: &Session, pipeline: &Pipeline, job_index: u16) -> Result<(), SwitchError> {
    let change = |counter: &CounterArray| Change {
        operation: reconcile::Operation::Modify,
        entity: CounterCell::zero(&counter.name, job_index.into()).into(),
    };
    let changes: Vec<_> = pipeline.job_counters.iter().map(change).collect();
    write(session, pipeline, &changes).await
}

async fn read_counters(session: &Session, pipeline: &Pipeline) -> Outcome {
    let counters = pipeline.job_counters.iter().chain(&pipeline.port_counters);
    let queries: Vec<_> = counters.map(|counter| Query::Counter(counter.name.clone())).collect();
    let cell = |entity| match entity {
        Entity::Counter(cell) => Some(cell),
        Entity::Table(_) | Entity::Multicast(_) => None,
    };
    Ok(read(session, pipeline, &queries).await?.into_iter().filter_map(cell).collect())
}

fn entry_error(session: &Session, change: String, source: EntryError) -> SwitchError {
    SwitchError::Entry { switch: session.target().name.clone(), change, source: Box::new(source) }
}
