//! Creates, queues, fails and ends jobs.

use std::sync::{Arc, Weak};

use tokio::time::Instant;
use tributary_api::v1;
use tributary_api::v1::EventKind;
use tributary_planner::JobRequest;

use super::Manager;
use crate::error::SwitchError;
use crate::jobs::{GroupId, JobError, JobKey, JobState, Terms};
use crate::journal::JournalError;
use crate::quotas::Asking;
use crate::state::CreateError;

/// Reasons why a job was not created.
#[derive(Debug, thiserror::Error)]
pub(crate) enum CreateFailure {
    #[error(transparent)]
    Refused(#[from] CreateError),
    #[error(transparent)]
    Switch(#[from] SwitchError),
    #[error(transparent)]
    Journal(#[from] JournalError),
}

/// Error: a job has ended, but the journal still has it.
#[derive(Debug, thiserror::Error)]
#[error(
    "the job has ended, but that is not on disk, and a controller that starts before it is takes the job up again: {0}"
)]
pub(crate) struct EndFailure(JournalError);

impl Manager {
    /// Plans a job, reserves its resources, and clears its counters. If resources are missing, queues the
    /// job.
    /// The caller must start the reconciler of the job.
    pub(crate) async fn create(
        self: &Arc<Self>,
        asking: &Asking,
        name: &str,
        request: &JobRequest,
        terms: Terms,
    ) -> Result<JobKey, CreateFailure> {
        let key = self.state().create_for(asking, name, request, terms)?;
        self.prepare(key).await?;
        tracing::info!(job = name, creator = asking.creator, "created");
        self.note_creation(key, name, &asking.creator);
        Ok(key)
    }

    /// Creates the job of a group, as [`create`](Self::create) does. It has the token of its parent.
    pub(crate) async fn create_group(
        self: &Arc<Self>,
        asking: &Asking,
        name: &str,
        request: &JobRequest,
        terms: Terms,
        group: &GroupId,
    ) -> Result<JobKey, CreateFailure> {
        let (key, parent) = {
            let mut state = self.state();
            let parent =
                state.jobs.get(group.parent).map(|job| (job.record.name.clone(), job.record.token.clone()));
            let (parent, token) =
                parent.ok_or_else(|| CreateError::from(JobError::NoSuchJob(name.to_owned())))?;
            let key = state.create_for(asking, name, request, terms)?;
            if let Some(job) = state.jobs.get_mut(key) {
                (job.record.token, job.record.group) = (token, Some(group.clone()));
            }
            (key, parent)
        };
        self.prepare(key).await?;
        self.events.of_job(
            EventKind::JobCreated,
            name,
            &format!("created for a group of the processes of {parent}"),
        );
        Ok(key)
    }

    /// Creates the next run of a job, as [`create`](Self::create) does.
    ///
    /// Returns `None` if the last run is not over, or if the job was ended permanently.
    pub(crate) async fn create_again(self: &Arc<Self>, key: JobKey) -> Result<Option<JobKey>, CreateFailure> {
        let next = self.state().create_again(key)?;
        if let Some(next) = next {
            self.prepare(next).await?;
        }
        Ok(next)
    }

    /// Clears a new job's counters, and writes the job to the journal.
    async fn prepare(self: &Arc<Self>, key: JobKey) -> Result<(), CreateFailure> {
        if let Err(error) = self.clear_counters(key).await {
            self.fail(key, &format!("its counters cannot be cleared: {error}"));
            return Err(error.into());
        }
        if let Err(error) = self.keep(key).await {
            self.fail(key, &error.to_string());
            return Err(error.into());
        }
        Ok(())
    }

    fn note_creation(&self, key: JobKey, name: &str, creator: &str) {
        let waits = {
            let state = self.state();
            let queued = state.jobs.get(key).filter(|job| *job.state() == JobState::Queued);
            queued.map(|job| job.waits.clone())
        };
        match waits {
            Some(waits) => {
                self.events.of_job(
                    EventKind::JobQueued,
                    name,
                    &format!("created by {creator}; waits for {waits}"),
                );
            }
            None => self.events.of_job(EventKind::JobCreated, name, &format!("created by {creator}")),
        }
    }

    /// Writes the present state of a job to the journal, and waits for the outcome.
    async fn keep(&self, key: JobKey) -> Result<(), JournalError> {
        let kept = self.state().jobs.get(key).map(|job| self.journal.keep(&self.topology(), key, job));
        match kept {
            Some(written) => written.outcome_soon().await,
            None => Ok(()),
        }
    }

    /// Gives free slots to the jobs in the queue.
    async fn serve_queue(&self) {
        let served = self.state().advance_queue();
        for key in served {
            match self.start_queued(key).await {
                Ok(()) => {
                    tracing::info!(key, "has got the slots that it waited for");
                    let words = "has got the slots that it waited for";
                    self.events.of_job(EventKind::JobPlaced, &self.name_of(key), words);
                }
                Err(reason) => {
                    tracing::warn!(key, %reason, "has got slots, and waits on");
                    self.state().put_back(key);
                }
            }
        }
    }

    /// Admits a job from the queue after it got its slots.
    async fn start_queued(&self, key: JobKey) -> Result<(), SwitchError> {
        self.clear_counters(key).await?;
        let mut state = self.state();
        let Some(job) = state.jobs.get_mut(key) else { return Ok(()) };
        job.admit(Instant::now());
        // The result can be ignored: no member learns of the job before its first generation is on disk, which happens
        // later.
        drop(self.journal.keep(&self.topology(), key, job));
        Ok(())
    }

    pub(crate) fn fail(self: &Arc<Self>, key: JobKey, reason: &str) {
        self.finish(key, v1::JobFailed { reason: reason.to_owned(), wrong_sum: false });
    }

    /// Fails the job, unless it is already over.
    pub(super) fn finish(self: &Arc<Self>, key: JobKey, failure: v1::JobFailed) {
        let reason = failure.reason.clone();
        if self.state().jobs.get_mut(key).is_some_and(|job| job.fail(failure)) {
            tracing::warn!(key, reason, "job failed");
            self.events.of_job(EventKind::JobFailed, &self.name_of(key), &format!("failed: {reason}"));
            self.withdraw(key);
            self.end_groups(key);
        }
    }

    /// Ends the jobs of a job's groups, because their processes have lost their common job.
    fn end_groups(self: &Arc<Self>, parent: JobKey) {
        let groups = self.state().jobs.groups_of(parent);
        for group in groups {
            let manager = Arc::clone(self);
            // The error is ignored, because the controller logs the remaining work and retries it without a caller.
            self.runtime.spawn(async move { manager.end(group).await.ok() });
        }
    }

    /// Ends a job as [`end`](Self::end) does, and prevents further runs of it.
    pub(crate) async fn end_permanently(self: &Arc<Self>, key: JobKey) -> Result<(), EndFailure> {
        if let Some(job) = self.state().jobs.get_mut(key) {
            job.ended_permanently = true;
        }
        self.end(key).await
    }

    /// Ends a job and withdraws its tables.
    ///
    /// The call succeeds even if some tables cannot be withdrawn at once. They are withdrawn as soon as possible. Until
    /// then, no other job gets the job's slots on those switches.
    pub(crate) async fn end(self: &Arc<Self>, key: JobKey) -> Result<(), EndFailure> {
        if let Some(job) = self.state().jobs.get_mut(key)
            && job.end()
        {
            tracing::info!(job = job.record.name, "ended");
            self.events.of_job(EventKind::JobEnded, &job.record.name, "ended");
        }
        self.end_groups(key);
        let switches = self.state().switches_of(key);
        if let Err(error) = self.converge(switches).await {
            tracing::warn!(key, %error, "tables of a job that has ended stay for now, and go as soon as they can");
        }
        self.state().settle(key);
        let kept = self.keep(key).await;
        if let Err(error) = &kept {
            tracing::error!(key, %error, "a job that has ended is still on disk");
        }
        kept.map_err(EndFailure)
    }

    /// Returns a job's name, as text for users.
    fn name_of(&self, key: JobKey) -> String {
        self.state().jobs.get(key).map(|job| job.record.name.clone()).unwrap_or_default()
    }
}

/// Serves the queue each time that resources become free, until the controller ends.
pub(crate) async fn watch_queue(manager: Weak<Manager>) {
    let Some(mut news) = manager.upgrade().map(|manager| manager.state().queue_news.subscribe()) else {
        return;
    };
    loop {
        let Some(manager) = manager.upgrade() else { return };
        news.mark_unchanged();
        manager.serve_queue().await;
        drop(manager);
        if news.changed().await.is_err() {
            return;
        }
    }
}
