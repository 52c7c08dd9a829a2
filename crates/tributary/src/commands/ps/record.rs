//! The times at which workers computed and waited, and the workers for which they waited.

use std::time::Duration;

use tokio::time::Instant;
use tributary_ps::policy::Worker;

/// A worker's change to computing or waiting.
#[derive(Debug, Clone, Copy)]
pub(super) struct Event {
    pub(super) worker: Worker,
    pub(super) at: Instant,
    /// If the worker begins to compute, the worker that released it, and true if it is in the synchronous
    /// group. `None` if it begins to wait.
    pub(super) released: Option<(Worker, bool)>,
}

/// A period of a worker's time. Its times are relative to the start of the experiment.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Span {
    pub(super) from: Duration,
    pub(super) to: Duration,
    pub(super) kind: SpanKind,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum SpanKind {
    Computes {
        /// True if the worker is in the synchronous group.
        in_group: bool,
    },
    Waits {
        /// The worker that released this worker; `None` if the wait lasted until the end.
        released_by: Option<Worker>,
    },
}

/// The record of a whole experiment.
#[derive(Debug)]
pub(super) struct ExperimentRecord {
    start: Instant,
    length: Duration,
    workers: Vec<Track>,
}

/// The periods of one worker.
#[derive(Debug, Default)]
struct Track {
    spans: Vec<Span>,
    /// The worker's present activity, and its start.
    now: Option<(Instant, Option<bool>)>,
}

impl ExperimentRecord {
    pub(super) fn new(workers: usize, start: Instant) -> Self {
        let workers = (0..workers).map(|_| Track::default()).collect();
        Self { start, length: Duration::ZERO, workers }
    }

    /// Adds a change. It ends the worker's previous activity.
    pub(super) fn add(&mut self, event: &Event) {
        let start = self.start;
        let Some(track) = self.workers.get_mut(usize::from(event.worker)) else { return };
        track.end(start, event.at, event.released.map(|(worker, _)| worker));
        track.now = Some((event.at, event.released.map(|(_, in_group)| in_group)));
    }

    /// Ends the present periods of all workers at the end of the experiment.
    pub(super) fn close(&mut self, end: Instant) {
        self.length = end - self.start;
        for track in &mut self.workers {
            track.end(self.start, end, None);
            track.now = None;
        }
    }

    pub(super) fn length(&self) -> Duration {
        self.length
    }

    /// Returns each worker's periods in order.
    pub(super) fn workers(&self) -> impl ExactSizeIterator<Item = &[Span]> {
        self.workers.iter().map(|track| track.spans.as_slice())
    }

    /// Returns the share of the time that a worker waited, from 0 to 1.
    pub(super) fn idle(&self, worker: usize) -> f64 {
        let spans = self.workers.get(worker).map(|track| track.spans.as_slice()).unwrap_or_default();
        let waits = spans.iter().filter(|span| matches!(span.kind, SpanKind::Waits { .. }));
        let waited: Duration = waits.map(|span| span.to - span.from).sum();
        waited.as_secs_f64() / self.length.as_secs_f64().max(f64::MIN_POSITIVE)
    }

    /// Returns the mean share of the time that workers waited, from 0 to 1.
    pub(super) fn mean_idle(&self) -> f64 {
        (0..self.workers.len()).map(|worker| self.idle(worker)).sum::<f64>()
            / self.workers.len().max(1) as f64
    }

    /// Returns the number of gradients that a worker has finished.
    pub(super) fn iterations(&self, worker: usize) -> usize {
        let spans = self.workers.get(worker).map(|track| track.spans.as_slice()).unwrap_or_default();
        spans.iter().filter(|span| matches!(span.kind, SpanKind::Waits { .. })).count()
    }
}

impl Track {
    fn end(&mut self, start: Instant, at: Instant, released_by: Option<Worker>) {
        let Some((since, computes)) = self.now else { return };
        let kind = match computes {
            Some(in_group) => SpanKind::Computes { in_group },
            None => SpanKind::Waits { released_by },
        };
        let from = since.saturating_duration_since(start);
        self.spans.push(Span { from, to: at.saturating_duration_since(start).max(from), kind });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn time_is_cut_into_spans_and_waiting_is_idle() {
        let start = Instant::now();
        let at = |ms| start + Duration::from_millis(ms);
        let mut record = ExperimentRecord::new(2, start);
        let mut event = |worker, ms, released| record.add(&Event { worker, at: at(ms), released });
        event(0, 0, Some((0, false)));
        event(1, 0, Some((1, false)));
        event(0, 10, None);
        event(1, 30, None);
        event(0, 30, Some((1, true)));
        record.close(at(40));
        let kinds: Vec<Vec<_>> =
            record.workers().map(|spans| spans.iter().map(|span| span.kind).collect()).collect();
        let computes = |in_group| SpanKind::Computes { in_group };
        let first = [computes(false), SpanKind::Waits { released_by: Some(1) }, computes(true)];
        assert_eq!(kinds, [first.to_vec(), vec![computes(false), SpanKind::Waits { released_by: None }]]);
        assert_eq!((record.idle(0), record.idle(1), record.mean_idle()), (0.5, 0.25, 0.375));
        assert_eq!(record.iterations(0), 1);
    }
}
