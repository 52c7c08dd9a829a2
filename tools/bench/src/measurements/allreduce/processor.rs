//! The load of the machine's processors.

use std::fs;
use std::sync::mpsc::{self, RecvTimeoutError, Sender};
use std::sync::{Arc, Mutex};
use std::thread::{self, JoinHandle};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

const STAT: &str = "/proc/stat";
/// The interval at which the counters are read. The kernel counts in hundredths of a second.
const PERIOD: Duration = Duration::from_millis(20);
/// The number of fields: user, nice, system, idle, iowait, irq, softirq, steal.
///
/// The later fields are already included in these.
const FIELDS: usize = 8;
const IDLE: [usize; 2] = [3, 4];

/// The kernel's counters at one time.
#[derive(Debug, Clone, Copy)]
struct ProcessorSample {
    /// Unix time of the reading, in seconds.
    at: f64,
    busy: u64,
    total: u64,
}

/// Reads the processors' counters continuously until it is dropped.
#[derive(Debug)]
pub(in crate::measurements) struct Processor {
    samples: Arc<Mutex<Vec<ProcessorSample>>>,
    thread: Option<(Sender<()>, JoinHandle<()>)>,
}

impl Processor {
    /// Starts to read the counters.
    pub(in crate::measurements) fn watch() -> Self {
        let samples = Arc::<Mutex<Vec<ProcessorSample>>>::default();
        let (stop, stopped) = mpsc::channel();
        let into = samples.clone();
        let thread = thread::spawn(move || {
            while stopped.recv_timeout(PERIOD) == Err(RecvTimeoutError::Timeout) {
                if let (Some(sample), Ok(mut samples)) = (sample(), into.lock()) {
                    samples.push(sample);
                }
            }
        });
        Self { samples, thread: Some((stop, thread)) }
    }

    /// Returns the share of all processors' time between two times in which they were not idle.
    ///
    /// It includes all programs, and the time that the hypervisor took away.
    pub(in crate::measurements) fn busy(&self, began: f64, ended: f64) -> Option<f64> {
        let samples = self.samples.lock().ok()?;
        let first = samples.iter().rfind(|sample| sample.at <= began).or(samples.first())?;
        let last = samples.iter().find(|sample| sample.at >= ended).or(samples.last())?;
        let total = last.total.checked_sub(first.total).filter(|total| *total > 0)?;
        Some(last.busy.saturating_sub(first.busy) as f64 / total as f64)
    }
}

impl Drop for Processor {
    fn drop(&mut self) {
        if let Some((stop, thread)) = self.thread.take() {
            drop(stop);
            // The thread does not panic. A panic would have been reported already.
            let _ = thread.join();
        }
    }
}

fn sample() -> Option<ProcessorSample> {
    let text = fs::read_to_string(STAT).ok()?;
    let at = SystemTime::now().duration_since(UNIX_EPOCH).ok()?.as_secs_f64();
    let fields = text.lines().next()?.strip_prefix("cpu ")?.split_whitespace().take(FIELDS);
    let ticks: Vec<u64> = fields.map(str::parse).collect::<Result<_, _>>().ok()?;
    let total: u64 = ticks.iter().sum();
    let idle: u64 = IDLE.iter().filter_map(|field| ticks.get(*field)).sum();
    Some(ProcessorSample { at, busy: total - idle, total })
}
