//! Ends the processes of a lab, including those that other processes started.

use std::collections::{HashMap, HashSet};
use std::fs;
use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};

use crate::error::LabError;
use crate::names;
use crate::namespace::{self, NamespaceId};
use crate::station::CONTROLLER;
use crate::tools::LAB_VARIABLE;

/// Time that processes have to end after a signal, before the next round.
const GRACE: Duration = Duration::from_secs(2);
/// The number of SIGKILL rounds. Several are needed, because a process may start another one between
/// the search and the signal.
const KILL_ROUNDS: usize = 4;

/// Ends all processes of a lab except this one: first with SIGTERM, the remaining ones with SIGKILL.
///
/// A process belongs to the lab if it is in one of the namespaces, or if its environment contains the
/// lab's name. The latter finds a tool that has outlived a killed `up` and works on a namespace from
/// outside.
pub(crate) fn end(lab: &str, namespaces: &[String]) -> Result<(), LabError> {
    let ids: HashSet<NamespaceId> =
        namespaces.iter().filter_map(|name| namespace::id(&namespace::path(name)).ok()).collect();
    // The controller ends first, so that it can remove its table entries from running switches.
    let controller = namespace::id(&namespace::path(&names::namespace(lab, CONTROLLER)));
    let controller = HashSet::from_iter(controller.ok());
    tell(find(&|pid| is_inside(pid, &controller)), Signal::TERM);

    let belongs = |pid: Pid| is_inside(pid, &ids) || is_marked(pid, lab);
    let mut killed = HashSet::new();
    for signal in std::iter::once(Signal::TERM).chain([Signal::KILL; KILL_ROUNDS]) {
        let running = find(&belongs);
        if running.is_empty() {
            return Ok(());
        }
        killed.extend(running.keys().filter(|_| signal == Signal::KILL));
        tell(running, signal);
    }
    why_left(lab, &killed, find(&belongs).into_keys().collect())
}

/// Returns the reason why processes are left: some have survived SIGKILL, or other programs have
/// started all of them meanwhile.
fn why_left(lab: &str, killed: &HashSet<Pid>, left: Vec<Pid>) -> Result<(), LabError> {
    if left.is_empty() {
        return Ok(());
    }
    let stuck: Vec<u32> = left.iter().filter(|pid| killed.contains(pid)).map(|pid| plain(*pid)).collect();
    if !stuck.is_empty() {
        return Err(LabError::StuckProcesses { lab: lab.into(), pids: stuck });
    }
    let mut starters: Vec<u32> = left.into_iter().filter_map(parent).collect();
    starters.sort_unstable();
    starters.dedup();
    Err(LabError::RestartedProcesses { lab: lab.into(), starters })
}

/// Returns the id of the parent of process `pid`; `None` if `pid` has ended.
fn parent(pid: Pid) -> Option<u32> {
    let status = fs::read_to_string(format!("/proc/{}/status", plain(pid))).ok()?;
    status.lines().find_map(|line| line.strip_prefix("PPid:"))?.trim().parse().ok()
}

fn plain(pid: Pid) -> u32 {
    pid.as_raw_nonzero().get().unsigned_abs()
}

/// Sends the signal and waits until all processes have ended, or until the grace period is over.
fn tell(running: HashMap<Pid, OwnedFd>, signal: Signal) {
    for process in running.values() {
        // The call fails only if the process has ended.
        let _ = pidfd_send_signal(process, signal);
    }
    wait(running.into_values().collect());
}

/// Returns the processes that satisfy `belongs`. Each has a handle that stays valid if the pid is
/// reused.
fn find(belongs: &impl Fn(Pid) -> bool) -> HashMap<Pid, OwnedFd> {
    let own = rustix::process::getpid();
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    let pids = entries.filter_map(|entry| Pid::from_raw(entry.file_name().to_str()?.parse().ok()?));
    pids.filter(|pid| *pid != own && belongs(*pid))
        .filter_map(|pid| Some((pid, pidfd_open(pid, PidfdFlags::empty()).ok()?)))
        // The check is repeated with the open handle, because the pid may have been reused before.
        .filter(|(pid, _)| belongs(*pid))
        .collect()
}

/// Returns the processes in the namespaces.
pub(crate) fn inside(namespaces: &HashSet<NamespaceId>) -> HashMap<Pid, OwnedFd> {
    find(&|pid| is_inside(pid, namespaces))
}

/// Returns true if the process runs in the namespace.
pub(crate) fn runs_in(pid: u32, namespace: &str) -> bool {
    let ids = ids(namespace);
    number(pid).is_some_and(|pid| is_inside(pid, &ids))
}

/// Returns true if the process runs and was started for the lab.
pub(crate) fn is_of(pid: u32, lab: &str) -> bool {
    number(pid).is_some_and(|pid| is_marked(pid, lab))
}

/// Kills a process in the namespace (SIGKILL) and waits for its end. Returns false, and does nothing,
/// if the process has ended or is in another namespace.
pub(crate) fn kill_in(pid: u32, lab: &str, namespace: &str) -> Result<bool, LabError> {
    let ids = ids(namespace);
    end_one(pid, lab, &|pid| is_inside(pid, &ids), &[Signal::KILL])
}

/// Ends a process that was started for the lab, and waits for its end; otherwise like [`kill_in`].
///
/// Sends SIGTERM, and SIGKILL if the process does not end.
pub(crate) fn end_of(pid: u32, lab: &str) -> Result<bool, LabError> {
    end_one(pid, lab, &|pid| is_marked(pid, lab), &[Signal::TERM, Signal::KILL])
}

fn end_one(
    pid: u32,
    lab: &str,
    belongs: &impl Fn(Pid) -> bool,
    signals: &[Signal],
) -> Result<bool, LabError> {
    let handle =
        number(pid).and_then(|pid| pidfd_open(pid, PidfdFlags::empty()).ok().filter(|_| belongs(pid)));
    let Some(handle) = handle else { return Ok(false) };
    for signal in signals {
        // The call fails only if the process has ended.
        let _ = pidfd_send_signal(&handle, *signal);
        if wait(vec![&handle]) {
            return Ok(true);
        }
    }
    Err(LabError::StuckProcesses { lab: lab.into(), pids: vec![pid] })
}

fn ids(namespace: &str) -> HashSet<NamespaceId> {
    HashSet::from_iter(namespace::id(&namespace::path(namespace)).ok())
}

fn number(pid: u32) -> Option<Pid> {
    i32::try_from(pid).ok().and_then(Pid::from_raw)
}

fn is_inside(pid: Pid, namespaces: &HashSet<NamespaceId>) -> bool {
    let path = format!("/proc/{}/ns/net", pid.as_raw_nonzero());
    namespace::id(Path::new(&path)).is_ok_and(|id| namespaces.contains(&id))
}

fn is_marked(pid: Pid, lab: &str) -> bool {
    let mark = format!("{LAB_VARIABLE}={lab}");
    let environment = fs::read(format!("/proc/{}/environ", pid.as_raw_nonzero()));
    environment.is_ok_and(|all| all.split(|&b| b == 0).any(|entry| entry == mark.as_bytes()))
}

/// Waits until all processes have ended, or until the grace period is over. Returns true if all have
/// ended.
fn wait<H: AsFd>(mut running: Vec<H>) -> bool {
    let until = Instant::now() + GRACE;
    while !running.is_empty() {
        let left = until.saturating_duration_since(Instant::now());
        let Ok(timeout) = Timespec::try_from(left) else { return false };
        let mut ends: Vec<_> = running.iter().map(|process| PollFd::new(process, PollFlags::IN)).collect();
        match poll(&mut ends, Some(&timeout)) {
            // If the process is a child, SIGCHLD can interrupt this call.
            Err(Errno::INTR) => continue,
            Ok(_) if !left.is_zero() => {}
            _ => return false,
        }
        let ended: Vec<bool> = ends.iter().map(|end| !end.revents().is_empty()).collect();
        let mut ended = ended.into_iter();
        running.retain(|_| !ended.next().unwrap_or(false));
    }
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn processes_that_are_started_again_are_told_from_those_that_do_not_end() {
        let own = rustix::process::getpid();
        let other = Pid::from_raw(1).unwrap();
        let left = |killed: &[Pid], left: &[Pid]| {
            why_left("lab", &killed.iter().copied().collect(), left.to_vec()).unwrap_err().to_string()
        };
        assert!(why_left("lab", &HashSet::from([other]), Vec::new()).is_ok());
        let stuck = left(&[own], &[other, own]);
        assert!(
            stuck.contains(&format!("processes [{}]", plain(own))) && stuck.contains("kernel"),
            "{stuck}"
        );
        let starter = std::os::unix::process::parent_id();
        let restarted = left(&[other], &[own]);
        assert!(restarted.contains(&format!("started again by processes [{starter}]")), "{restarted}");
        assert!(restarted.contains("tributary lab down lab"), "{restarted}");
    }
}
