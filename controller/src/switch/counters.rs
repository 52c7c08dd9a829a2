//! The last reading of a switch's counters, and requests for new readings.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;
use tokio::time::Instant;
use tributary_p4runtime::entry::CounterCell;

use super::health::SwitchHealth;
use crate::pipeline::JOB_COUNTER_PREFIX;

/// The time that a request for counters waits for a switch before it uses the last reading.
///
/// It is short, because every view answers within a second.
const READ_PATIENCE: Duration = Duration::from_millis(800);

/// The readings of a switch's counters.
#[derive(Debug, Clone, Default)]
pub(super) struct Readings {
    /// The number of the newest request that has been answered.
    pub(super) answered: u64,
    /// The reason why the newest request got no reading; `None` if it got one.
    pub(super) refusal: Option<String>,
    pub(super) last: Option<Reading>,
}

/// All counters of a switch at one time.
#[derive(Debug, Clone)]
pub(crate) struct Reading {
    pub(crate) at: Instant,
    pub(crate) cells: Arc<[CounterCell]>,
}

impl Reading {
    /// Returns the reading without the counters of the job with index `job_index`.
    ///
    /// They are removed when the index is given to another job, because the old counts belong to the earlier job.
    pub(super) fn without_job(&self, job_index: u16) -> Self {
        let of_job = |cell: &CounterCell| {
            cell.counter.starts_with(JOB_COUNTER_PREFIX) && cell.index == u64::from(job_index)
        };
        Self { at: self.at, cells: self.cells.iter().filter(|cell| !of_job(cell)).cloned().collect() }
    }
}

/// The known counters of a switch.
#[derive(Debug, Clone)]
pub(crate) struct Counters {
    /// The last reading; `None` if there is none yet.
    pub(crate) last: Option<Reading>,
    /// The reason why the last reading is out of date; `None` if it is current.
    pub(crate) stale: Option<String>,
}

impl Counters {
    /// Returns the reading if it is current.
    pub(crate) fn fresh(&self) -> Option<&Reading> {
        self.last.as_ref().filter(|_| self.stale.is_none())
    }
}

/// A request for a new reading.
#[derive(Debug)]
pub(crate) struct Asked {
    pub(super) number: u64,
    pub(super) readings: watch::Receiver<Readings>,
    pub(super) health: watch::Receiver<SwitchHealth>,
    pub(super) deadline: Instant,
}

impl Asked {
    pub(super) fn new(
        number: u64,
        readings: watch::Receiver<Readings>,
        health: watch::Receiver<SwitchHealth>,
    ) -> Self {
        Self { number, readings, health, deadline: Instant::now() + READ_PATIENCE }
    }

    /// Returns the requested reading; the last reading if the switch is unreachable or does not answer in
    /// time.
    pub(crate) async fn latest(mut self) -> Counters {
        let number = self.number;
        let stale = tokio::select! {
            biased;
            readings = self.readings.wait_for(|readings| readings.answered >= number) => match readings {
                Ok(readings) => readings.refusal.clone(),
                Err(_) => Some("the controller has stopped".to_owned()),
            },
            reason = unreachable(&mut self.health) => Some(reason),
            () = tokio::time::sleep_until(self.deadline) => {
                Some(format!("it has not answered within {} s", READ_PATIENCE.as_secs_f64()))
            }
        };
        Counters { last: self.readings.borrow().last.clone(), stale }
    }
}

/// Waits until the switch is not up, and returns the reason.
async fn unreachable(health: &mut watch::Receiver<SwitchHealth>) -> String {
    match health.wait_for(|health| !health.is_up()).await {
        Ok(health) => health.reason().unwrap_or_default().to_owned(),
        Err(_) => "the controller has stopped".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cell(counter: &str, index: u64) -> CounterCell {
        CounterCell { counter: counter.into(), index, packets: 5, bytes: 50 }
    }

    fn channels(health: SwitchHealth) -> (watch::Sender<Readings>, watch::Sender<SwitchHealth>) {
        (watch::Sender::default(), watch::Sender::new(health))
    }

    fn reading() -> Reading {
        Reading { at: Instant::now(), cells: [cell("job_received", 4), cell("port_egress", 4)].into() }
    }

    #[tokio::test(start_paused = true)]
    async fn a_switch_that_does_not_answer_in_time_has_the_counters_it_had() {
        let (readings, health) = channels(SwitchHealth::Up { since: Instant::now() });
        readings.send_modify(|readings| {
            readings.answered = 3;
            readings.last = Some(reading());
        });
        let ask = |number| Asked::new(number, readings.subscribe(), health.subscribe());
        assert!(ask(3).latest().await.fresh().is_some());
        let begin = Instant::now();
        let late = ask(4).latest().await;
        assert!(begin.elapsed() < Duration::from_secs(1), "every view answers within a second");
        assert_eq!(late.stale.as_deref(), Some("it has not answered within 0.8 s"));
        assert!(late.fresh().is_none() && late.last.unwrap().at == begin);
    }

    #[tokio::test(start_paused = true)]
    async fn a_switch_that_is_away_is_not_waited_for() {
        let (since, cause) = (Instant::now(), crate::switch::UnreachableCause::NoAnswer);
        let (readings, health) =
            channels(SwitchHealth::Unreachable { since, reason: "refused".into(), cause });
        let counters = Asked::new(1, readings.subscribe(), health.subscribe()).latest().await;
        assert_eq!((counters.stale.as_deref(), since.elapsed()), (Some("refused"), Duration::ZERO));
        assert!(counters.last.is_none());
    }

    #[test]
    fn what_was_cleared_is_nobodys() {
        let left = reading().without_job(4);
        assert_eq!(left.cells[..], [cell("port_egress", 4)]);
        assert_eq!(reading().without_job(5).cells.len(), 2);
    }
}
