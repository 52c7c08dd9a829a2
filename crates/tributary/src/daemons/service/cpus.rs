//! The processors on which a daemon runs.

use anyhow::{Context, Result};
use clap::Args;
use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};
use serde::{Deserialize, Serialize};

use super::settings::WrongUse;

/// Which processors a daemon's threads run on.
#[derive(Debug, Default, Args, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(super) struct CpuArgs {
    /// Processors that the daemon's threads run on, by their numbers, as in 2,3 [default: any]
    #[arg(long, value_name = "LIST", value_delimiter = ',')]
    #[serde(skip_serializing_if = "Vec::is_empty")]
    cpus: Vec<usize>,
}

/// Pins the calling thread, and threads that it starts later, to the requested processors. Does nothing
/// if none are requested.
///
/// # Errors
/// [`WrongUse`]: a processor does not exist, or this process may not use it.
pub(super) fn pin(args: &CpuArgs) -> Result<()> {
    if args.cpus.is_empty() {
        return Ok(());
    }
    let allowed = sched_getaffinity(None).context("cannot find out which processors there are")?;
    let mut wanted = CpuSet::new();
    for &cpu in &args.cpus {
        if cpu >= CpuSet::MAX_CPU || !allowed.is_set(cpu) {
            let problem =
                format!("--cpus: there is no processor {cpu} that this process may use (see `nproc`)");
            return Err(WrongUse(problem).into());
        }
        wanted.set(cpu);
    }
    sched_setaffinity(None, &wanted).context("cannot choose the processors to run on")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn first_allowed() -> usize {
        let allowed = sched_getaffinity(None).unwrap();
        (0..CpuSet::MAX_CPU).find(|&cpu| allowed.is_set(cpu)).unwrap()
    }

    #[test]
    fn a_thread_and_its_children_stay_where_they_are_put() {
        let cpu = first_allowed();
        // The affinity belongs to a thread. The test pins a new thread, so that its own affinity stays
        // unchanged.
        let inherited = std::thread::spawn(move || {
            pin(&CpuArgs { cpus: vec![cpu] }).unwrap();
            std::thread::spawn(|| sched_getaffinity(None).unwrap()).join().unwrap()
        });
        let inherited = inherited.join().unwrap();
        assert!(inherited.is_set(cpu));
        assert_eq!(inherited.count(), 1);
    }

    #[test]
    fn a_processor_that_is_not_there_is_wrong_use() {
        for cpu in [CpuSet::MAX_CPU - 1, CpuSet::MAX_CPU, usize::MAX] {
            let error = pin(&CpuArgs { cpus: vec![first_allowed(), cpu] }).unwrap_err();
            assert!(error.is::<WrongUse>() && error.to_string().contains(&cpu.to_string()), "{error}");
        }
    }

    #[test]
    fn nothing_asked_for_changes_nothing() {
        let before = sched_getaffinity(None).unwrap();
        pin(&CpuArgs::default()).unwrap();
        assert_eq!(sched_getaffinity(None).unwrap(), before);
    }
}
