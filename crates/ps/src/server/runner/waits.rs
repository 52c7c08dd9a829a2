//! Reports to waiting workers about the workers for which they wait.

use std::time::Instant;

use tributary_api::agent::Moments;
use tributary_api::ps::server_message::Message;
use tributary_api::ps::{ServerMessage, Waiting};

use super::JobThread;
use crate::policy::Worker;

impl JobThread {
    /// Returns the time of the next check for workers with a long wait; `None` if no worker waits.
    pub(super) fn next_look(&self) -> Option<Instant> {
        let waits = self.sessions.values().any(|session| session.waits);
        waits.then(|| self.looked + Moments::LOOK_INTERVAL)
    }

    /// Sends reports to the workers that have waited long, at the [`Moments`] that agents use, too.
    pub(super) fn tell_waits(&mut self) {
        let now = Instant::now();
        let Some(job) = &self.job else { return };
        if now < self.looked + Moments::LOOK_INTERVAL {
            return;
        }
        self.looked = now;
        let awaited = job.awaited();
        let starts_in_milliseconds =
            awaited.start.map(|start| milliseconds(start.saturating_duration_since(now)));
        let mut told: Vec<Worker> = Vec::new();
        for (worker, session) in self.sessions.iter_mut().filter(|(_, session)| session.waits) {
            let waited = now - session.since;
            if !session.moments.is_one(waited) {
                continue;
            }
            told.push(*worker);
            let message = Message::Waiting(Waiting {
                workers: awaited.workers.iter().map(|worker| (*worker).into()).collect(),
                starts_in_milliseconds,
                waited_milliseconds: milliseconds(waited),
            });
            // If the channel is full, the report is dropped, and the worker gets the next one.
            let _ = session.replies.try_send(Ok(ServerMessage { message: Some(message) }));
        }
        if !told.is_empty() {
            let (waiting, missing) = (told, awaited.workers);
            match starts_in_milliseconds {
                Some(starts_in_milliseconds) => tracing::info!(
                    job = self.spec.name,
                    ?waiting,
                    ?missing,
                    starts_in_milliseconds,
                    "training has not started"
                ),
                None => tracing::info!(
                    job = self.spec.name,
                    ?waiting,
                    ?missing,
                    "workers wait for others' gradients"
                ),
            }
        }
    }
}

fn milliseconds(time: std::time::Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}
