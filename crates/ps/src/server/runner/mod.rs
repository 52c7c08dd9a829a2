//! A job's thread. It owns the job, and receives all events of the job as commands.

mod waits;
mod workers;

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::thread::{self, JoinHandle};
use std::time::Instant;

use parking_lot::{Mutex, MutexGuard};
use tonic::Status;
use tributary_api::ps::ServerMessage;
use tributary_api::ps::server_message::Message;
use tributary_transport::Standstill;

use super::command::Command;
use super::group_fabric::{GroupFabric, GroupRequest};
use super::job::Job;
use super::output::{Output, Outputs};
use super::pulse::Pulse;
use super::reductions::Reductions;
use super::spec::JobSpec;
use super::stats::JobStats;
use super::writer::Writer;
use crate::policy::Worker;
use workers::ConnectedWorker;

/// A handle on a job's thread.
pub(super) struct Runner {
    pub(super) commands: Arc<Sender<Command>>,
    pub(super) stats: Arc<Mutex<JobStats>>,
    /// The thread. It returns true if a checkpoint contains the job's last updates, or if no checkpoints
    /// are written.
    pub(super) thread: JoinHandle<bool>,
}

impl Runner {
    /// Starts a job's thread. `job` is the job from its checkpoint, if one exists; new checkpoints go to
    /// `file`.
    pub(super) fn start(
        spec: JobSpec,
        job: Option<Job>,
        file: Option<PathBuf>,
        fabric: Option<Arc<dyn GroupFabric>>,
        pulse: Arc<Pulse>,
    ) -> std::io::Result<Self> {
        let (commands, receiver) = mpsc::channel();
        let commands = Arc::new(commands);
        let reductions = fabric.map(|fabric| Reductions::new(fabric, Arc::downgrade(&commands)));
        let saved = job.as_ref().map_or(0, Job::updates);
        let stats = Arc::new(Mutex::new(JobStats { updates: saved, ..JobStats::default() }));
        let writer = file.map(|file| Writer::start(file, Arc::clone(&stats))).transpose()?;
        let name = format!("job {}", spec.name);
        let sessions = BTreeMap::new();
        let state = JobThread {
            spec,
            job,
            sessions,
            settings: String::new(),
            trained_with: String::new(),
            reductions,
            stats: Arc::clone(&stats),
            writer,
            saved,
            pulse,
            stood_still: None,
            looked: Instant::now(),
        };
        let thread = thread::Builder::new().name(name).spawn(move || state.run(&receiver))?;
        Ok(Self { commands, stats, thread })
    }
}

/// The state of a job's thread.
struct JobThread {
    spec: JobSpec,
    /// The job; `None` before the first worker has brought parameters.
    job: Option<Job>,
    sessions: BTreeMap<Worker, ConnectedWorker>,
    /// The settings that all present workers share; empty if no worker has sent any.
    settings: String,
    /// The settings of the workers that trained this job last.
    trained_with: String,
    /// The reductions; `None` without a fabric.
    reductions: Option<Reductions>,
    stats: Arc<Mutex<JobStats>>,
    writer: Option<Writer>,
    /// The number of updates in the last snapshot that was handed to the writer.
    saved: u64,
    pulse: Arc<Pulse>,
    /// The last standstill that this thread has handled.
    stood_still: Option<Standstill>,
    /// The time of the last check for waiting workers.
    looked: Instant,
}

impl JobThread {
    fn run(mut self, commands: &Receiver<Command>) -> bool {
        loop {
            let deadline = self.job.as_ref().and_then(Job::deadline);
            let command = match deadline.into_iter().chain(self.next_look()).min() {
                None => commands.recv().map_err(|_| RecvTimeoutError::Disconnected),
                Some(end) => commands.recv_timeout(end.saturating_duration_since(Instant::now())),
            };
            // This comes before the command is handled. If the command reports that a worker has left, the
            // cause may be a standstill of the server.
            self.look_for_standstill();
            match command {
                Ok(Command::Stop) | Err(RecvTimeoutError::Disconnected) => break,
                Ok(command) => self.handle(command),
                Err(RecvTimeoutError::Timeout) => self.with_job(|_, _| Outputs::new()),
            }
            self.tell_waits();
        }
        for session in self.sessions.values() {
            let _ = session.replies.try_send(Err(Status::unavailable("the parameter server is stopping")));
        }
        self.save();
        self.writer.take().is_none_or(Writer::finish)
    }

    fn handle(&mut self, command: Command) {
        match command {
            Command::Join(newcomer) => self.join(*newcomer),
            Command::Push { worker, session, gradient, taken } if self.is(worker, session) => {
                self.push(worker, gradient);
                let _ = taken.send(());
            }
            Command::Urge { worker, session, taken } if self.is(worker, session) => {
                self.with_job(|job, stats| job.urge(worker, stats));
                let _ = taken.send(());
            }
            Command::FabricFailed { worker, session, group, reason, taken } if self.is(worker, session) => {
                self.with_job(|job, stats| job.fabric_failed(worker, group, &reason, stats));
                let _ = taken.send(());
            }
            Command::Leave { worker, session } if self.is(worker, session) => self.leave(worker),
            Command::Fabric { group, event } => self.with_job(|job, stats| job.fabric(group, event, stats)),
            Command::Parameters(answer) => {
                // If the caller has stopped waiting, the answer is dropped.
                let _ =
                    answer.send(self.job.as_ref().map(|job| job.parameters().to_vec()).unwrap_or_default());
            }
            // The session has ended.
            Command::Push { .. }
            | Command::Urge { .. }
            | Command::FabricFailed { .. }
            | Command::Leave { .. }
            | Command::Stop => {}
        }
        let since = self.job.as_ref().map_or(0, |job| job.updates() - self.saved);
        if since >= self.spec.checkpoint_updates.get() && self.writer.as_ref().is_some_and(|w| !w.is_busy()) {
            self.save();
        }
    }

    fn is(&self, worker: Worker, session: u64) -> bool {
        self.sessions.get(&worker).is_some_and(|there| there.number == session)
    }

    /// Passes an event to the job, and carries out the resulting actions.
    fn with_job(&mut self, event: impl FnOnce(&mut Job, &mut JobStats) -> Outputs) {
        let Some(job) = &mut self.job else { return };
        let mut guard = self.stats.lock();
        let stats = &mut *guard;
        let mut outputs = event(job, stats);
        outputs.extend(job.conclude(Instant::now(), stats));
        let length = job.parameters().len();
        let mut gone = Vec::new();
        for output in outputs {
            match (output, &mut self.reductions) {
                (Output::Send(worker, message), _) => {
                    let Some(session) = self.sessions.get_mut(&worker) else { continue };
                    if matches!(message, Message::Step(_)) {
                        session.released(stats.worker(worker));
                    }
                    let message = ServerMessage { message: Some(message) };
                    if session.replies.try_send(Ok(message)).is_err() {
                        gone.push((worker, "it does not read what it is sent"));
                    }
                }
                (Output::Expel(worker), _) => gone.push((worker, "it did not push what it had announced")),
                (Output::Open { group, hosts }, Some(reductions)) => {
                    let job = self.spec.name.clone();
                    reductions.open(GroupRequest { job, group, hosts, length });
                }
                (Output::Expect { group, round }, Some(reductions)) => reductions.expect(group, round),
                (Output::Close { group }, Some(reductions)) => reductions.close(group),
                (Output::Open { .. } | Output::Expect { .. } | Output::Close { .. }, None) => {}
            }
        }
        drop(guard);
        gone.into_iter().for_each(|(worker, reason)| self.end(worker, reason));
    }

    /// Hands a snapshot to the writer if there are new updates.
    fn save(&mut self) {
        let (Some(job), Some(writer)) = (&self.job, &self.writer) else { return };
        if job.updates() > self.saved {
            self.saved = job.updates();
            writer.write(job.snapshot());
        }
    }

    fn lock(&self) -> MutexGuard<'_, JobStats> {
        self.stats.lock()
    }
}

impl Drop for JobThread {
    /// Ends all sessions if the thread panics, because workers must not wait for this job.
    fn drop(&mut self) {
        if thread::panicking() {
            let failed = "a defect of the parameter server has ended this job: its log says more";
            for session in self.sessions.values() {
                let _ = session.replies.try_send(Err(Status::internal(failed)));
            }
        }
    }
}
