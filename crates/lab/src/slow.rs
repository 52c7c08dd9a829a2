//! Processes that run only part of the time, to simulate a slow host or switch.
//!
//! The processes are stopped and continued in turns (SIGSTOP, SIGCONT). A quota of processor time
//! (cgroups) would not work: a daemon that needs little time would not be slowed down, and the effect
//! would depend on the number of its threads.

use std::collections::{HashMap, HashSet};
use std::os::fd::OwnedFd;
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, pidfd_send_signal, setpriority_process};

use crate::error::LabError;
use crate::namespace::{self, NamespaceId};
use crate::processes;

/// The greatest factor. With [`SHORTEST_RUN`], it stops processes for a fifth of a second at a time,
/// and one second of work takes minutes.
const MAX_FACTOR: f64 = 100.0;
/// Length of a turn, if the bounds of a run allow it. It is short compared with usual measurements, and
/// long compared with the time for stopping a process.
const TURN: Duration = Duration::from_millis(20);
const SHORTEST_RUN: Duration = Duration::from_millis(2);
const LONGEST_RUN: Duration = Duration::from_millis(10);
/// The longest stop. A busy machine may delay this process, so that the next stop must be longer to
/// compensate. This is the limit.
const LONGEST_STOP: Duration = Duration::from_secs(1);
/// The interval of the searches for new processes at the station.
const LOOK_INTERVAL: Duration = Duration::from_millis(100);
/// The highest priority. With a lower one, this process might get the processor too late to stop the
/// others.
const PRIORITY: i32 = -20;

/// The factor by which a station's processes run slower, from 1 (full speed) to 100.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Slowdown(f64);

impl Slowdown {
    /// Creates a slowdown by `factor`.
    ///
    /// # Errors
    /// [`LabError::BadFactor`] if the factor is not from 1 to 100.
    pub fn new(factor: f64) -> Result<Self, LabError> {
        if (1.0..=MAX_FACTOR).contains(&factor) { Ok(Self(factor)) } else { Err(LabError::BadFactor(factor)) }
    }

    /// Returns the factor, at least 1.
    pub fn factor(self) -> f64 {
        self.0
    }

    /// Returns the time for which processes run in each turn.
    fn run(self) -> Duration {
        TURN.div_f64(self.0).clamp(SHORTEST_RUN, LONGEST_RUN)
    }

    /// Returns the time to stop the processes now, so that run and stop times together are the factor times
    /// the run time.
    fn stop(self, ran: Duration, stopped: Duration) -> Duration {
        ran.mul_f64(self.0 - 1.0).saturating_sub(stopped).min(LONGEST_STOP)
    }
}

/// Lets the processes of a namespace run for one part in `slowdown` of the time.
///
/// Returns when the sender of `end` sends or is dropped, or when the namespace does not exist any more.
/// Then the processes run at full speed again.
pub(crate) fn slow_down(namespace: &str, slowdown: Slowdown, end: &Receiver<()>) -> Result<(), LabError> {
    // Without the permission, turns are less even on a busy machine, but the total times are still right.
    let _ = setpriority_process(None, PRIORITY);
    let mut group = Group::of(namespace)?;
    let (mut ran, mut stopped) = (Duration::ZERO, Duration::ZERO);
    while group.look(namespace) {
        let began = Instant::now();
        if !waits(end, slowdown.run()) {
            break;
        }
        group.signal(Signal::STOP);
        ran += began.elapsed();
        let began = Instant::now();
        let goes_on = waits(end, slowdown.stop(ran, stopped));
        group.signal(Signal::CONT);
        stopped += began.elapsed();
        if !goes_on {
            break;
        }
    }
    Ok(())
}

/// Continues all processes of a namespace, including processes that a killed process has left stopped.
pub(crate) fn wake(namespace: &str) -> Result<(), LabError> {
    Group::of(namespace)?.signal(Signal::CONT);
    Ok(())
}

/// Waits for `time`. Returns false if the sender sends or is dropped meanwhile.
fn waits(end: &Receiver<()>, time: Duration) -> bool {
    matches!(end.recv_timeout(time), Err(RecvTimeoutError::Timeout))
}

/// The processes of a namespace.
#[derive(Debug)]
struct Group {
    ids: HashSet<NamespaceId>,
    processes: HashMap<Pid, OwnedFd>,
    looked: Instant,
}

impl Group {
    fn of(namespace: &str) -> Result<Self, LabError> {
        let id = namespace::id(&namespace::path(namespace));
        let step = "look for processes";
        let id = id.map_err(|reason| LabError::Namespace { namespace: namespace.into(), step, reason })?;
        let ids = HashSet::from_iter([id]);
        Ok(Self { processes: processes::inside(&ids), ids, looked: Instant::now() })
    }

    /// Searches for new processes if a search is due. Returns false if the namespace does not exist any
    /// more.
    fn look(&mut self, namespace: &str) -> bool {
        if self.looked.elapsed() < LOOK_INTERVAL {
            return true;
        }
        self.looked = Instant::now();
        self.processes = processes::inside(&self.ids);
        namespace::id(&namespace::path(namespace)).is_ok_and(|id| self.ids.contains(&id))
    }

    fn signal(&self, signal: Signal) {
        for process in self.processes.values() {
            // The call fails only if the process has ended.
            let _ = pidfd_send_signal(process, signal);
        }
    }
}

/// Continues the processes, even after an error or a panic.
impl Drop for Group {
    fn drop(&mut self) {
        self.signal(Signal::CONT);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn only_factors_that_make_sense_are_taken() {
        for bad in [0.0, 0.99, -2.0, 100.1, f64::NAN, f64::INFINITY] {
            assert!(matches!(Slowdown::new(bad), Err(LabError::BadFactor(_))), "{bad}");
        }
        assert_eq!(Slowdown::new(1.0).unwrap().stop(Duration::from_secs(5), Duration::ZERO), Duration::ZERO);
    }

    proptest! {
        /// Even if turns end late, the following stops compensate for it.
        #[test]
        fn all_of_the_time_is_the_factor_times_what_they_ran(
            factor in 1.0..100.0f64, late in proptest::collection::vec((0u64..5_000, 0u64..5_000), 1..50),
        ) {
            let slowdown = Slowdown::new(factor).unwrap();
            let (mut ran, mut stopped) = (Duration::ZERO, Duration::ZERO);
            for (late_to_stop, late_to_continue) in late {
                ran += slowdown.run() + Duration::from_micros(late_to_stop);
                stopped += slowdown.stop(ran, stopped) + Duration::from_micros(late_to_continue);
            }
            let total = (ran + stopped).as_secs_f64();
            prop_assert!(total >= ran.as_secs_f64() * factor - 1e-6);
        }
    }
}
