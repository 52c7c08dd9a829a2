//! The parts of a change of generation that affect the job, its switches and the journal together.

use tokio::sync::watch;
use tokio::time::Instant;
use tributary_api::v1::EventKind;

use super::Manager;
use crate::jobs::JobKey;

impl Manager {
    /// Invites a host to join a job as its server.
    pub(crate) fn invite(&self, key: JobKey, host: &str) {
        let mut state = self.state();
        let Some(job) = state.jobs.get_mut(key) else { return };
        let now = Instant::now();
        job.invitations.ask(host, now);
        let (name, token) = (job.record.name.clone(), job.record.token.to_bytes());
        let told = state.hosts.order_to_serve(host, &name, token, now);
        tracing::info!(job = name, host, told, "asked to serve");
    }

    /// Notes that a job has completed a change of its generation.
    pub(crate) fn note_success(&self, key: JobKey) {
        self.note_setback(key, String::new());
        if let Some(job) = self.state().jobs.get(key) {
            job.record.warn_of_fallbacks();
            let record = &job.record;
            let words = match record.last_change.as_str() {
                "" => format!("runs in generation {}", record.current),
                reason => format!("changed over to generation {}: {reason}", record.current),
            };
            self.events.of_job(EventKind::JobChanged, &record.name, &words);
        }
    }

    /// Notes why a job has not changed its generation; empty if no problem exists. Returns true if the
    /// reason is new.
    pub(crate) fn note_setback(&self, key: JobKey, setback: String) -> bool {
        let mut state = self.state();
        let Some(job) = state.jobs.get_mut(key) else { return false };
        let words = format!("cannot change over yet: {setback}");
        let (is_setback, is_news) = (!setback.is_empty(), job.note_setback(setback));
        if is_setback && is_news {
            self.events.of_job(EventKind::JobHeldUp, &job.record.name, &words);
        }
        is_news
    }

    /// Returns the channel that wakes a job's reconciler.
    pub(crate) fn look_of(&self, key: JobKey) -> Option<watch::Receiver<()>> {
        self.state().jobs.get(key).map(|job| job.look.subscribe())
    }

    /// Withdraws the tables of earlier generations after all members have changed their generation.
    pub(crate) fn retire_others(&self, key: JobKey) {
        if let Some(job) = self.state().jobs.get_mut(key) {
            job.retire_others();
        }
        self.withdraw(key);
    }

    /// Cancels a change: withdraws its tables, and lets members that had stopped continue.
    pub(crate) fn call_off(&self, key: JobKey, number: u32) {
        if let Some(job) = self.state().jobs.get_mut(key) {
            job.call_off(&self.topology(), number);
        }
        self.withdraw(key);
    }
}
