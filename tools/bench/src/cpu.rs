//! Processor time of another process, and of the whole machine.

use std::io;
use std::time::Duration;

use rustix::param::clock_ticks_per_second;

/// Fields of `/proc/PID/stat` between the program's name and its user time (proc_pid_stat(5)).
const FIELDS_BEFORE_TIMES: usize = 11;

/// Columns of the first line of `/proc/stat` that do not count as busy (proc_stat(5)).
///
/// They are idle, iowait, and the two columns for guests, which the first two columns already include.
const IDLE_COLUMNS: [usize; 4] = [3, 4, 8, 9];

/// The processor time of all threads of a process on all cores, including threads that have ended.
///
/// When a frame crosses a veth pair, the kernel's work up to the receiver's socket counts as the sender's
/// time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ProcessTimes {
    /// Time in user mode.
    pub user: Duration,
    /// Time in the kernel.
    pub system: Duration,
}

impl ProcessTimes {
    /// Returns the sum of user and system time.
    pub fn total(self) -> Duration {
        self.user + self.system
    }

    /// Returns the time since an earlier reading.
    #[must_use]
    pub fn since(self, earlier: Self) -> Self {
        Self {
            user: self.user.saturating_sub(earlier.user),
            system: self.system.saturating_sub(earlier.system),
        }
    }
}

/// Returns the times of a process.
///
/// # Errors
/// The process has ended, or `/proc` cannot be read.
pub fn of_process(pid: u32) -> io::Result<ProcessTimes> {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat"))?;
    let [user, system] = ticks(&stat)
        .ok_or_else(|| io::Error::other(format!("cannot parse the times of a process: {stat}")))?;
    Ok(ProcessTimes { user: duration(user), system: duration(system) })
}

/// Returns the time that all cores together have been busy since the machine started.
///
/// # Errors
/// `/proc` cannot be read.
pub fn of_machine() -> io::Result<Duration> {
    let stat = std::fs::read_to_string("/proc/stat")?;
    let ticks =
        machine_ticks(&stat).ok_or_else(|| io::Error::other("/proc/stat has no times of the cores"))?;
    Ok(duration(ticks))
}

fn duration(ticks: u64) -> Duration {
    Duration::from_secs_f64(ticks as f64 / clock_ticks_per_second() as f64)
}

fn machine_ticks(stat: &str) -> Option<u64> {
    let columns = stat.lines().next()?.strip_prefix("cpu ")?.split_ascii_whitespace();
    let at_work = columns.enumerate().filter(|(column, _)| !IDLE_COLUMNS.contains(column));
    at_work.map(|(_, ticks)| ticks.parse::<u64>().ok()).sum()
}

/// Reads utime and stime. The program's name is in parentheses and may contain any character.
fn ticks(stat: &str) -> Option<[u64; 2]> {
    let (_, fields) = stat.rsplit_once(')')?;
    let mut times = fields.split_ascii_whitespace().skip(FIELDS_BEFORE_TIMES);
    let mut next = || times.next()?.parse::<u64>().ok();
    Some([next()?, next()?])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_found_behind_any_name() {
        let stat = "42 (a (b) c) S 1 42 42 0 -1 4194560 100 0 0 0 250 50 0 0 20 0 1 0 9 9 9";
        assert_eq!(ticks(stat), Some([250, 50]));
        assert_eq!(ticks("42 (sh) S 1"), None);
    }

    #[test]
    fn times_since_an_earlier_one_are_apart() {
        let times = |user, system| ProcessTimes {
            user: Duration::from_secs(user),
            system: Duration::from_secs(system),
        };
        assert_eq!(times(7, 9).since(times(2, 5)), times(5, 4));
        assert_eq!(times(5, 4).total(), Duration::from_secs(9));
    }

    #[test]
    fn idle_cores_are_not_at_work() {
        let stat = "cpu  100 20 30 9000 400 5 6 7 0 0\ncpu0 1 1 1 1 1 1 1 1 0 0";
        assert_eq!(machine_ticks(stat), Some(168));
        assert_eq!(machine_ticks("intr 1"), None);
    }

    #[test]
    fn this_process_has_a_part_of_the_machines_time() {
        let process = of_process(std::process::id()).unwrap();
        assert!(process.total() <= of_machine().unwrap());
    }
}
