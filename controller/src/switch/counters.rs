//! The last reading of a switch's counters, and how a new one is asked for.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;
use tokio::time::Instant;
use tributary_p4runtime::entry::CounterCell;

use super::health::SwitchHealth;

/// A look at the counters waits this long for a switch, and then makes do with what was read before: every view
/// answers within a second.
const READ_PATIENCE: Duration = Duration::from_millis(800);

/// What was read from a switch.
#[derive(Debug, Clone, Default)]
pub(super) struct Readings {
    /// The number of the newest request that has been answered.
    pub(super) answered: u64,
    /// Why it was answered without a reading.
    pub(super) refusal: Option<String>,
    pub(super) last: Option<Reading>,
}

/// All counters of a switch at one time.
#[derive(Debug, Clone)]
pub(crate) struct Reading {
    pub(crate) at: Instant,
    pub(crate) cells: Arc<[CounterCell]>,
}

/// The counters of a switch as far as they are known.
#[derive(Debug, Clone)]
pub(crate) struct Counters {
    /// The last reading, if there ever was one.
    pub(crate) last: Option<Reading>,
    /// Why it is not of now.
    pub(crate) stale: Option<String>,
}

impl Counters {
    /// The reading, where it is of now.
    pub(crate) fn fresh(&self) -> Option<&Reading> {
        self.last.as_ref().filter(|_| self.stale.is_none())
    }
}

/// A reading that was asked for.
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

    /// The reading, or the last one there was if the switch is away or does not answer in time.
    pub(crate) async fn latest(mut self) -> Counters {
        let number = self.number;
        let stale = tokio::select! {
            biased;
            readings = self.readings.wait_for(|readings| readings.answered >= number) => match readings {
                Ok(readings) => readings.refusal.clone(),
                Err(_) => Some("the controller has stopped".to_owned()),
            },
            reason = away(&mut self.health) => Some(reason),
            () = tokio::time::sleep_until(self.deadline) => {
                Some(format!("it has not answered within {} s", READ_PATIENCE.as_secs_f64()))
            }
        };
        Counters { last: self.readings.borrow().last.clone(), stale }
    }
}

/// Returns when the switch is not up, and says why.
async fn away(health: &mut watch::Receiver<SwitchHealth>) -> String {
    match health.wait_for(|health| !health.is_up()).await {
        Ok(health) => health.reason().unwrap_or_default().to_owned(),
        Err(_) => "the controller has stopped".to_owned(),
    }
}
