//! The task of one switch: connects, carries out orders while there is a session, and reconnects after
//! its end.

use std::time::Duration;

use tokio::sync::{mpsc, oneshot, watch};
use tokio::time::Instant;
use tributary_p4runtime::Session;

use super::compare::{self, Compare};
use super::connect::{Connector, Ready, breaks_session, ended};
use super::counters::{Reading, Readings};
use super::operations;
use super::packets::Packets;
use crate::error::SwitchError;

/// The first pause between two attempts to connect. It is short, because some switches return at once.
const RETRY_FIRST: Duration = Duration::from_millis(50);
const RETRY_LAST: Duration = Duration::from_secs(1);

/// An order to set the counters of a job to zero.
pub(super) struct Clear {
    pub(super) job_index: u16,
    /// The time at which the caller stops waiting.
    pub(super) deadline: Instant,
    pub(super) reply: oneshot::Sender<Result<(), SwitchError>>,
}

/// The state of a switch's task.
pub(super) struct Driver {
    pub(super) connector: Connector,
    pub(super) worker: Worker,
    pub(super) packets: Packets,
}

/// The work for which a session is used, apart from packets.
pub(super) struct Worker {
    pub(super) clears: mpsc::Receiver<Clear>,
    pub(super) compares: mpsc::Receiver<Compare>,
    /// The number of readings of counters that callers have requested.
    pub(super) asked: watch::Receiver<u64>,
    pub(super) readings: watch::Sender<Readings>,
    /// The time that the switch may take for one order.
    pub(super) patience: Duration,
    /// The time of the next attempt to write a state that the switch refused; `None` if it refused none.
    pub(super) retry: Option<Instant>,
}

impl Driver {
    /// Runs the task, until the handle of the switch is dropped.
    pub(super) async fn run(mut self) {
        let mut pause = RETRY_FIRST;
        loop {
            let error = match self.connector.connect().await {
                Ok(ready) => {
                    let since = Instant::now();
                    self.connector.health.up();
                    let error = self.serve(&ready).await;
                    // The pause is reset only after a long session, so that a switch that repeatedly returns and fails
                    // is not retried quickly.
                    if since.elapsed() > RETRY_LAST {
                        pause = RETRY_FIRST;
                    }
                    error
                }
                Err(error) => error,
            };
            self.connector.health.unreachable(&error);
            tokio::time::sleep(pause).await;
            pause = (pause * 2).min(RETRY_LAST);
        }
    }

    /// Serves a session until the session ends, and returns the reason.
    async fn serve(&mut self, ready: &Ready) -> SwitchError {
        let session = ready.session();
        let pipeline = self.connector.pipeline.clone();
        tokio::select! {
            error = ended(session) => error,
            error = self.worker.run(session, &mut self.connector) => error,
            never = self.packets.pump(session, &pipeline) => match never {},
        }
    }
}

impl Worker {
    async fn run(&mut self, session: &Session, connector: &mut Connector) -> SwitchError {
        self.retry = None;
        loop {
            let outcome = tokio::select! {
                biased;
                newer = connector.desired.changed() => match newer {
                    Ok(()) => self.converge(session, connector).await,
                    Err(_) => return SwitchError::Stopped { switch: session.target().name.clone() },
                },
                () = at(self.retry) => self.converge(session, connector).await,
                Some(clear) = self.clears.recv() => self.clear(session, connector, clear).await,
                Some(compare) = self.compares.recv() => self.compare(session, connector, compare).await,
                Ok(()) = self.asked.changed() => self.read(session, connector).await,
            };
            match outcome {
                Err(error) if breaks_session(&error) => return error,
                Ok(()) | Err(_) => {}
            }
        }
    }

    async fn converge(&mut self, session: &Session, connector: &mut Connector) -> Result<(), SwitchError> {
        let outcome = operations::in_time(session, self.patience, connector.converge(session)).await;
        self.retry = outcome.is_err().then(|| Instant::now() + RETRY_LAST);
        if let Err(error) = &outcome {
            tracing::warn!(switch = session.target().name, %error, "cannot be brought into its state; is tried again");
        }
        outcome
    }

    async fn clear(&self, session: &Session, connector: &Connector, clear: Clear) -> Result<(), SwitchError> {
        let Clear { job_index, deadline, reply } = clear;
        if reply.is_closed() || deadline <= Instant::now() {
            return Ok(());
        }
        let clear = operations::clear_counters(session, &connector.pipeline, job_index);
        let outcome = operations::in_time(session, self.patience, clear).await;
        if outcome.is_ok() {
            self.readings.send_modify(|readings| {
                readings.last = readings.last.take().map(|reading| reading.without_job(job_index));
            });
        }
        // An error means that the caller no longer waits.
        let _ = reply.send(outcome.clone());
        outcome
    }

    async fn compare(
        &mut self,
        session: &Session,
        connector: &mut Connector,
        order: Compare,
    ) -> Result<(), SwitchError> {
        while order.is_wanted() {
            if connector.desired.has_changed().unwrap_or(false) {
                self.converge(session, connector).await?;
            }
            match compare::compare(session, connector, order.deadline).await {
                Ok(None) => {}
                outcome => {
                    let error = outcome.as_ref().err().cloned();
                    // An error means that the caller no longer waits.
                    let _ = order.reply.send(outcome.map(Option::unwrap_or_default));
                    return error.map_or(Ok(()), Err);
                }
            }
        }
        Ok(())
    }

    /// Reads the counters once, and answers all requests that arrived before the reading began.
    async fn read(&mut self, session: &Session, connector: &Connector) -> Result<(), SwitchError> {
        let answered = *self.asked.borrow_and_update();
        let at = Instant::now();
        let read = operations::in_time(
            session,
            self.patience,
            operations::read_counters(session, &connector.pipeline),
        )
        .await;
        self.readings.send_modify(|readings| {
            readings.answered = answered;
            readings.refusal = read.as_ref().err().map(ToString::to_string);
            if let Ok(cells) = &read {
                readings.last = Some(Reading { at, cells: cells.clone().into() });
            }
        });
        read.map(drop)
    }
}

/// Waits until `time`; forever if it is `None`.
async fn at(time: Option<Instant>) {
    match time {
        Some(time) => tokio::time::sleep_until(time).await,
        None => std::future::pending().await,
    }
}
