//! How much of the machine another process has had.

use std::io;
use std::time::Duration;

use rustix::param::clock_ticks_per_second;

/// Fields of `/proc/PID/stat` between the program's name and its user time (proc_pid_stat(5)).
const FIELDS_BEFORE_TIMES: usize = 11;

/// The time that all threads of a process have had, in user mode and in the kernel.
pub(super) fn of_process(pid: u32) -> io::Result<Duration> {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat"))?;
    let ticks = ticks(&stat).ok_or_else(|| io::Error::other(format!("not a process's times: {stat}")))?;
    Ok(Duration::from_secs_f64(ticks as f64 / clock_ticks_per_second() as f64))
}

/// The sum of utime and stime. The program's name is in parentheses and may hold anything.
fn ticks(stat: &str) -> Option<u64> {
    let (_, fields) = stat.rsplit_once(')')?;
    let mut times = fields.split_ascii_whitespace().skip(FIELDS_BEFORE_TIMES);
    let mut next = || times.next()?.parse::<u64>().ok();
    Some(next()? + next()?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_found_behind_any_name() {
        let stat = "42 (a (b) c) S 1 42 42 0 -1 4194560 100 0 0 0 250 50 0 0 20 0 1 0 9 9 9";
        assert_eq!(ticks(stat), Some(300));
        assert_eq!(ticks("42 (sh) S 1"), None);
    }

    #[test]
    fn this_process_has_times() {
        of_process(std::process::id()).unwrap();
    }
}
