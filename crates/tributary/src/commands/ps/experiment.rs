//! One training with its own parameter server: real gradients over TCP on loopback, by workers with
//! given speeds.

use std::net::Ipv4Addr;
use std::num::{NonZeroU16, NonZeroU64};
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use tokio::net::TcpListener;
use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep_until, timeout_at};
use tributary_codec::Kind;
use tributary_ps::client::{Client, ClientOptions, Step};
use tributary_ps::policy::Worker;
use tributary_ps::server::{JobSettings, JobSpec, ParameterServer, PolicyKind, View};
use tributary_trainer::{Digits, Model, RemoteLearner, Share, Training};
use tributary_transport::Remote;

use super::learner::Learner;
use super::record::{Event, ExperimentRecord};

const JOB: &str = "experiment";
/// Time that workers may take to start. If they need longer, the experiment fails.
const START_PATIENCE: Duration = Duration::from_secs(60);

/// The settings of an experiment.
#[derive(Debug, Clone)]
pub(super) struct Experiment {
    pub(super) policy: PolicyKind,
    pub(super) codec: Kind,
    pub(super) parameters_codec: Kind,
    /// Time that each worker needs for a gradient.
    pub(super) step_times: Vec<Duration>,
    /// Duration of the training.
    pub(super) length: Duration,
    pub(super) learning_rate: f32,
    /// Iterations of one worker that count as an epoch.
    pub(super) epoch: NonZeroU64,
    pub(super) seed: u64,
}

/// The results of an experiment.
#[derive(Debug)]
pub(super) struct ExperimentResult {
    /// Accuracy on held-out images, from 0 to 1.
    pub(super) accuracy: f64,
    /// Mean number of updates between a worker's pull and the use of its gradient.
    pub(super) staleness: f64,
    /// The number of gradients that were used.
    pub(super) iterations: u64,
    /// The number of updates of the parameters.
    pub(super) updates: u64,
    /// The times at which each worker computed and waited.
    pub(super) record: ExperimentRecord,
}

/// Runs an experiment. Calls `tick` repeatedly with the elapsed time.
///
/// # Errors
/// A server or a worker cannot continue.
pub(super) async fn run(
    experiment: &Experiment,
    digits: &Digits,
    mut tick: impl FnMut(Duration),
) -> Result<ExperimentResult> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.context("cannot listen on loopback")?;
    let remote = Remote::parameter_server(&listener.local_addr()?.to_string(), None)?;
    let server =
        ParameterServer::start(vec![JobSettings { spec: spec(experiment)?, token: None }], None, None)?;
    let view = server.view();
    let (stop, stopped) = oneshot::channel::<()>();
    let serving = tokio::spawn(server.serve(listener, None, async move {
        // An error also means that the experiment has ended.
        let _ = stopped.await;
    }));
    let (events, receiver) = mpsc::unbounded_channel();
    let mut workers = JoinSet::new();
    for (worker, step_time) in (0..).zip(&experiment.step_times) {
        let emulated = EmulatedWorker::new(experiment, digits, worker, *step_time)?;
        let mut options = ClientOptions::new(vec![remote.clone()], JOB, worker);
        (options.codec, options.parameters_codec) = (experiment.codec, experiment.parameters_codec);
        workers.spawn(emulated.run(options, events.clone()));
    }
    let outcome = watch(experiment, digits, &view, receiver, &mut workers, &mut tick).await;
    workers.shutdown().await;
    drop(stop);
    serving.await??;
    outcome
}

fn spec(experiment: &Experiment) -> Result<JobSpec> {
    let workers = u16::try_from(experiment.step_times.len()).ok().and_then(NonZeroU16::new);
    let workers = workers.context("an experiment has at least one worker")?;
    Ok(JobSpec::new(JOB, workers, experiment.policy, experiment.epoch, experiment.learning_rate))
}

/// Records the workers' events until the time has elapsed, and then reads the results, before the
/// departure of a worker can change them.
async fn watch(
    experiment: &Experiment,
    digits: &Digits,
    view: &View,
    mut events: mpsc::UnboundedReceiver<Event>,
    workers: &mut JoinSet<Result<()>>,
    tick: &mut impl FnMut(Duration),
) -> Result<ExperimentResult> {
    let first = tokio::select! {
        event = timeout_at(Instant::now() + START_PATIENCE, events.recv()) => event,
        Some(ended) = workers.join_next() => { ended??; bail!("a worker ended before the start") }
    };
    let first = first.ok().flatten().context("the workers have not joined within a minute")?;
    let start = first.at;
    let end = start + experiment.length;
    let mut record = ExperimentRecord::new(experiment.step_times.len(), start);
    record.add(&first);
    loop {
        tokio::select! {
            biased;
            () = sleep_until(end) => break,
            Some(event) = events.recv() => record.add(&event),
            Some(ended) = workers.join_next() => { ended??; bail!("a worker ended before the others") }
        }
        tick(start.elapsed().min(experiment.length));
    }
    let parameters = view.parameters(JOB).await.context("the server has ended")?;
    record.close(end);
    let Some((_, stats)) = view.stats().into_iter().next() else { bail!("the server has no job") };
    Ok(ExperimentResult {
        accuracy: Model::from_parameters(parameters)?.accuracy(&digits.held_out),
        staleness: stats.staleness(),
        iterations: stats.gradients(),
        updates: stats.updates,
        record,
    })
}

/// A worker with a given speed.
struct EmulatedWorker {
    learner: Learner,
    worker: Worker,
    step_time: Duration,
}

impl EmulatedWorker {
    fn new(experiment: &Experiment, digits: &Digits, worker: Worker, step_time: Duration) -> Result<Self> {
        let workers = u16::try_from(experiment.step_times.len())?;
        let training = Training::new(workers, 1, experiment.seed)?;
        let share = Share::Worker(worker);
        let remote = RemoteLearner::new(&training, Arc::clone(&digits.training), share)?;
        Ok(Self { learner: Learner::new(remote, experiment.seed), worker, step_time })
    }

    /// Trains until the task is stopped.
    async fn run(self, options: ClientOptions, events: mpsc::UnboundedSender<Event>) -> Result<()> {
        let initial = self.learner.initial();
        let (mut client, mut step) = Client::join(options, &initial).await?;
        loop {
            let begun = Instant::now();
            let released = Some((step.released_by, step.in_group));
            // If the receiver is gone, the experiment has ended.
            let _ = events.send(Event { worker: self.worker, at: begun, released });
            let gradient = self.gradient(step).await?;
            sleep_until(begun + self.step_time).await;
            let _ = events.send(Event { worker: self.worker, at: Instant::now(), released: None });
            step = client.push(&gradient).await?;
        }
    }

    /// Computes a gradient on a blocking thread, so that it does not delay the timers of other workers.
    async fn gradient(&self, step: Step) -> Result<Vec<f32>> {
        let learner = self.learner.clone();
        let gradient = move || learner.gradient(step.iteration, step.parameters);
        Ok(tokio::task::spawn_blocking(gradient).await??.unwrap_or_else(Learner::nothing))
    }
}
