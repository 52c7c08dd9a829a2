//! The workers of a job: joining, pushing and leaving.

use std::time::Instant;

use tonic::Status;
use tributary_api::agent::Moments;
use tributary_transport::Standstill;

use super::JobThread;
use crate::policy::Worker;
use crate::server::command::{Newcomer, Replies};
use crate::server::job::{Gradient, InvalidMessage, Job};
use crate::server::output::Outputs;
use crate::server::stats::WorkerStats;

/// A connected worker.
pub(super) struct ConnectedWorker {
    pub(super) number: u64,
    pub(super) replies: Replies,
    /// The time since which the worker has been computing, or waiting.
    pub(super) since: Instant,
    pub(super) waits: bool,
    /// The times of the reports to the worker while it waits.
    pub(super) moments: Moments,
}

impl ConnectedWorker {
    /// Records that the worker has been released and does not wait any more.
    pub(super) fn released(&mut self, stats: &mut WorkerStats) {
        if std::mem::replace(&mut self.waits, false) {
            let now = Instant::now();
            stats.idle += now - self.since;
            self.since = now;
        }
    }
}

impl JobThread {
    pub(super) fn join(&mut self, newcomer: Newcomer) {
        let Newcomer { worker, session: number, first, initial, settings, host, replies } = newcomer;
        let host = host.filter(|_| self.reductions.is_some());
        let agreed = self.agree(worker, settings);
        if let Err(refused) = agreed.and_then(|()| self.accept(first, initial)) {
            self.lock().refused += 1;
            tracing::warn!(job = self.spec.name, worker, refused, "a worker cannot join");
            let _ = replies.try_send(Err(Status::failed_precondition(refused)));
            return;
        }
        if let Some(old) = self.sessions.remove(&worker) {
            let _ = old.replies.try_send(Err(Status::aborted("the same worker has opened another session")));
            self.gone(worker);
        }
        let (since, moments) = (Instant::now(), Moments::default());
        self.sessions.insert(worker, ConnectedWorker { number, replies, since, waits: true, moments });
        self.lock().worker(worker).connected = true;
        tracing::info!(job = self.spec.name, worker, "a worker has joined");
        self.with_job(|job, stats| job.join(worker, host, Instant::now(), stats));
    }

    /// Checks that a worker has the same settings as the other present workers.
    fn agree(&mut self, worker: Worker, settings: String) -> Result<(), String> {
        // Workers that lost the server because of a standstill get time to reconnect.
        let may_come_back = |standstill: &Standstill| standstill.to.elapsed() < self.spec.gather_time();
        let is_alone = self.sessions.keys().all(|other| *other == worker);
        if is_alone && !self.stood_still.as_ref().is_some_and(may_come_back) {
            self.settings.clear();
        }
        if settings.is_empty() || settings == self.settings {
            return Ok(());
        }
        if self.settings.is_empty() {
            if !self.trained_with.is_empty() && self.trained_with != settings {
                let (job, before, now) = (&self.spec.name, &self.trained_with, &settings);
                tracing::warn!(job, before, now, "the training goes on with other settings of its workers");
            }
            self.trained_with.clone_from(&settings);
            self.settings = settings;
            return Ok(());
        }
        Err(format!(
            "worker {worker} trains with {settings:?}, and the others of job {:?} with {:?}: start all with the same",
            self.spec.name, self.settings
        ))
    }

    /// Checks that a worker's range is the range of this job. The first worker's range becomes the job's
    /// range.
    fn accept(&mut self, first: u64, initial: Vec<f32>) -> Result<(), String> {
        if let Some(job) = &self.job {
            return job.check_range(first, initial.len() as u64).map_err(|refusal| refusal.to_string());
        }
        let job = Job::new(self.spec.clone(), first, initial).map_err(|error| error.to_string())?;
        self.job = Some(job);
        Ok(())
    }

    pub(super) fn push(&mut self, worker: Worker, gradient: Gradient) {
        if let Some(session) = self.sessions.get_mut(&worker).filter(|session| !session.waits) {
            let now = Instant::now();
            let busy = now - session.since;
            (session.since, session.waits) = (now, true);
            self.lock().worker(worker).busy += busy;
        }
        let mut refused: Option<InvalidMessage> = None;
        self.with_job(|job, stats| match job.push(worker, gradient, Instant::now(), stats) {
            Ok(outputs) => outputs,
            Err(refusal) => {
                stats.refused += 1;
                refused = Some(refusal);
                Outputs::new()
            }
        });
        if let Some(refusal) = refused {
            tracing::warn!(job = self.spec.name, worker, %refusal, "a worker's session ends");
            if let Some(session) = self.sessions.get(&worker) {
                let _ = session.replies.try_send(Err(Status::invalid_argument(refusal.to_string())));
            }
            self.leave(worker);
        }
    }

    pub(super) fn leave(&mut self, worker: Worker) {
        tracing::info!(job = self.spec.name, worker, "a worker has left");
        self.sessions.remove(&worker);
        self.gone(worker);
        // The checkpoint is written now, because the worker may not come back to repeat its last iterations.
        self.save();
    }

    /// Gathers all workers again if the server has stood still. Some workers have closed their sessions
    /// meanwhile, because the server did not respond; they have not left the training.
    pub(super) fn look_for_standstill(&mut self) {
        let known = self.stood_still.map(|known| known.from);
        let standstill = self.pulse.standstill().filter(|one| known != Some(one.from));
        let Some(Standstill { from, to }) = standstill else { return };
        self.stood_still = standstill;
        if self.sessions.is_empty() {
            return;
        }
        let (seconds, workers) = ((to - from).as_secs(), self.sessions.keys().collect::<Vec<_>>());
        tracing::warn!(
            job = self.spec.name,
            seconds,
            ?workers,
            "this server has stood still: its workers are gathered again, and no update is lost"
        );
        for (worker, session) in std::mem::take(&mut self.sessions) {
            let reason = format!("it has stood still for {seconds} s, and gathers its workers again");
            let _ = session.replies.try_send(Err(Status::unavailable(reason)));
            self.lock().worker(worker).connected = false;
        }
        self.with_job(|job, stats| job.gather_again(stats));
    }

    fn gone(&mut self, worker: Worker) {
        self.lock().worker(worker).connected = false;
        self.with_job(|job, stats| job.leave(worker, stats));
    }

    /// Ends the session of a worker, so that the other workers do not wait for it.
    pub(super) fn end(&mut self, worker: Worker, reason: &str) {
        let Some(session) = self.sessions.get(&worker) else { return };
        tracing::warn!(job = self.spec.name, worker, reason, "a worker's session ends");
        // If the channel is full because the worker does not read, the worker sees only the end of its
        // session.
        let _ = session.replies.try_send(Err(Status::deadline_exceeded(reason)));
        self.leave(worker);
    }
}
