//! The server's side: jobs that a gRPC service serves.

mod checkpoint;
mod command;
mod group;
mod group_fabric;
mod holders;
mod job;
mod output;
mod parts;
mod pending;
mod pulse;
mod reductions;
mod runner;
#[cfg(test)]
mod schedules;
mod session;
mod spec;
mod stats;
mod steps;
mod weights;
mod writer;

use std::collections::BTreeMap;
use std::fs::File;
use std::io;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use thiserror::Error;
use tokio::net::TcpListener;
use tokio::sync::oneshot;
use tonic::transport::Server;
use tributary_api::ps::parameter_server_server::ParameterServerServer;
use tributary_transport::{ServerTls, Service as TransportService, incoming, innermost};

pub use checkpoint::CheckpointError;
pub use group_fabric::{GroupEvent, GroupEvents, GroupFabric, GroupRequest, Reduction, Sum};
pub use spec::{JobSpec, PolicyKind, SpecError};
pub use stats::{JobStats, WorkerStats};

use crate::optimizer::OptimizerError;
use command::Command;
use holders::Holders;
use job::Job;
use pulse::Pulse;
use runner::Runner;
use session::{Served, Service};

/// The time without a message after which the server pings a session. If the worker does not answer
/// within the same time, the session ends and the worker has left.
const KEEPALIVE: Duration = Duration::from_secs(10);
/// Time that sessions may take to end when the server stops.
const GOODBYE: Duration = Duration::from_secs(2);
/// The most connections besides the workers'.
const OTHER_CONNECTIONS: usize = 64;
/// The most open calls of one connection, including streams. An agent has one call for each of its
/// host's workers.
const STREAMS: u32 = 128;
/// The most bytes of a call's headers.
const HEADER_BYTES: u32 = 16 << 10;
/// The most bytes of a message in addition to a gradient or parameters.
const MESSAGE_ROOM: usize = 64 << 10;

/// A job's settings, and the token of its workers.
#[derive(Debug, Clone)]
pub struct JobSettings {
    /// The job's settings.
    pub spec: JobSpec,
    /// The token that the job's workers need. With `None`, any worker that reaches the server may take
    /// part.
    pub token: Option<Vec<u8>>,
}

/// An error that prevents the start of the server, or that ended it.
#[derive(Debug, Error)]
pub enum ServerError {
    /// A job's settings are invalid.
    #[error(transparent)]
    Spec(#[from] SpecError),
    /// Two jobs have the same name.
    #[error("there are two jobs {0:?}: give each its own name")]
    SameName(String),
    /// A checkpoint cannot be used.
    #[error(transparent)]
    Checkpoint(#[from] CheckpointError),
    /// A checkpoint belongs to another optimiser.
    #[error("job {job:?}: {error}")]
    Optimizer {
        /// The job's name.
        job: String,
        /// The difference.
        error: OptimizerError,
    },
    /// A job's thread cannot be started.
    #[error("cannot start a job's thread: {0}")]
    Thread(io::Error),
    /// The transport failed.
    #[error("the parameter server cannot go on: {0}")]
    Transport(String),
    /// The last checkpoints of some jobs could not be written; the log names the jobs and the errors.
    #[error("updates are lost that could not be written to a checkpoint: the log says why")]
    Unsaved,
}

/// The jobs of one server.
pub struct ParameterServer {
    jobs: Arc<BTreeMap<String, Arc<Served>>>,
    threads: Vec<std::thread::JoinHandle<bool>>,
    pulse: Arc<Pulse>,
    /// Locks that prevent other servers from using the checkpoints.
    _locks: Vec<File>,
}

impl ParameterServer {
    /// Starts the threads of all jobs, each from its checkpoint in the folder `checkpoints` if there is
    /// one. Without a folder, the server saves nothing. With a `fabric`, gradients that a policy aggregates
    /// may be summed in the network; otherwise all gradients arrive over TCP.
    ///
    /// # Errors
    /// Settings are invalid; a checkpoint cannot be used, or another server has locked it.
    pub fn start(
        jobs: Vec<JobSettings>,
        checkpoints: Option<&Path>,
        fabric: Option<&Arc<dyn GroupFabric>>,
    ) -> Result<Self, ServerError> {
        let (mut served, mut threads, mut locks) = (BTreeMap::new(), Vec::new(), Vec::new());
        let pulse = Arc::new(Pulse::new(TransportService::ParameterServer.answer_patience()));
        for JobSettings { spec, token } in jobs {
            spec.check()?;
            let name = spec.name.clone();
            if served.contains_key(&name) {
                return Err(ServerError::SameName(name));
            }
            let file = checkpoints.map(|folder| checkpoint::path(folder, &name));
            if let Some(file) = &file {
                locks.extend(checkpoint::lock(file)?);
            }
            let job = file.as_deref().map(|file| restore(&spec, file)).transpose()?.flatten();
            let Runner { commands, stats, thread } =
                Runner::start(spec.clone(), job, file, fabric.cloned(), Arc::clone(&pulse))
                    .map_err(ServerError::Thread)?;
            threads.push(thread);
            let one = Served { spec, token, commands, stats, holders: Holders::default() };
            served.insert(name, Arc::new(one));
        }
        Ok(Self { jobs: Arc::new(served), threads, pulse, _locks: locks })
    }

    /// Serves workers that connect to `listener` until `stop` completes; then writes the last checkpoints.
    /// Without `tls`, connections are plain text.
    ///
    /// # Errors
    /// [`ServerError::Transport`]; [`ServerError::Unsaved`] after a normal end of everything else.
    pub async fn serve(
        self,
        listener: TcpListener,
        tls: Option<ServerTls>,
        stop: impl Future<Output = ()> + Send + 'static,
    ) -> Result<(), ServerError> {
        let (end, ended) = oneshot::channel::<()>();
        let workers: usize = self.jobs.values().map(|job| usize::from(job.spec.workers.get())).sum();
        // A worker that has lost its connection opens another one before the server notices the loss.
        let connections = 4 * workers + OTHER_CONNECTIONS;
        let mut serving = tokio::spawn(
            Server::builder()
                .max_concurrent_streams(STREAMS)
                .http2_max_header_list_size(HEADER_BYTES)
                .http2_keepalive_interval(Some(KEEPALIVE))
                .http2_keepalive_timeout(Some(KEEPALIVE))
                .http2_adaptive_window(Some(true))
                .serve_with_incoming_shutdown(
                    self.service(),
                    incoming(listener, tls, connections),
                    async move {
                        // An error means that the sender, which belongs to this function, was dropped.
                        let _ = ended.await;
                    },
                ),
        );
        tokio::select! {
            over = &mut serving => return over.unwrap_or(Ok(())).map_err(|error| {
                ServerError::Transport(innermost(&error))
            }),
            () = self.pulse.beat() => {}
            () = stop => {}
        }
        self.jobs.values().for_each(|job| drop(job.commands.send(Command::Stop)));
        let threads = self.threads;
        // A job's thread should not panic. If it did, the checkpoints of the other jobs must still be
        // written.
        let join = move || {
            let is_saved: Vec<_> = threads.into_iter().map(|thread| thread.join().unwrap_or(false)).collect();
            is_saved.into_iter().all(|saved| saved)
        };
        let is_saved = tokio::task::spawn_blocking(join).await.unwrap_or(false);
        drop(end);
        if tokio::time::timeout(GOODBYE, &mut serving).await.is_err() {
            serving.abort();
        }
        if is_saved { Ok(()) } else { Err(ServerError::Unsaved) }
    }

    fn service(&self) -> ParameterServerServer<Service> {
        let most = self.jobs.values().map(|job| job.spec.max_parameters).max().unwrap_or(0);
        let most = usize::try_from(most).unwrap_or(usize::MAX).saturating_mul(size_of::<f32>());
        ParameterServerServer::new(Service::new(Arc::clone(&self.jobs)))
            .max_decoding_message_size(most.saturating_add(MESSAGE_ROOM))
            .max_encoding_message_size(usize::MAX)
    }

    /// Returns a view of the jobs that can be used while the server runs.
    pub fn view(&self) -> View {
        View { jobs: Arc::clone(&self.jobs) }
    }
}

fn restore(spec: &JobSpec, file: &Path) -> Result<Option<Job>, ServerError> {
    let Some(snapshot) = checkpoint::read(file, spec)? else {
        tracing::info!(job = spec.name, file = %file.display(), "there is no checkpoint: the job starts anew");
        return Ok(None);
    };
    let updates = snapshot.updates;
    let job = Job::restore(spec.clone(), snapshot);
    let job = job.map_err(|error| ServerError::Optimizer { job: spec.name.clone(), error })?;
    tracing::info!(job = spec.name, updates, "the job goes on from its checkpoint");
    Ok(Some(job))
}

/// A view of a server's jobs.
#[derive(Clone)]
pub struct View {
    jobs: Arc<BTreeMap<String, Arc<Served>>>,
}

impl View {
    /// Returns the figures of all jobs, by name.
    pub fn stats(&self) -> Vec<(String, JobStats)> {
        let stats = |job: &Served| job.stats.lock().clone();
        self.jobs.iter().map(|(name, job)| (name.clone(), stats(job))).collect()
    }

    /// Returns a job's present parameters; empty before a worker has brought them.
    ///
    /// `None` if the job does not exist, or if the server has stopped.
    pub async fn parameters(&self, job: &str) -> Option<Vec<f32>> {
        let (answer, answered) = oneshot::channel();
        self.jobs.get(job)?.commands.send(Command::Parameters(answer)).ok()?;
        answered.await.ok()
    }
}
