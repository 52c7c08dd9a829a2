//! Limits on the resources that an agent holds for training processes.

use std::fs;
use std::path::Path;

use rustix::fs::statvfs;
use rustix::process::{Resource, getrlimit};
use rustix::system::sysinfo;
use tributary_api::agent::SegmentName;

/// The machine's memory divided by this number is the most that an agent takes. The processes
/// themselves, and the memory that they share with the agent, need the rest.
const MEMORY_SHARE: u64 = 4;
/// The default limit of sessions.
const SESSIONS: u32 = 64;
/// The default limit of segments per session.
const SEGMENTS: u32 = 256;
/// The default limit of calls under way per session.
const CALLS: u32 = 256;
/// The limit of mapped bytes as a multiple of the size of shared memory. If one user's segments fill
/// the shared memory, other users still have address space left. A segment whose file changes its size is mapped once
/// for each size.
const MAPPED_TIMES: u64 = 2;
/// The divisor of this process's address-space limit, if it has one. Segments get at most this share
/// of the address space.
const MAPPED_SHARE: u64 = 4;
/// File descriptors that the agent needs for itself: its log, its socket, its runtime, and the
/// connections of clients that read its metrics.
const OWN_DESCRIPTORS: u64 = 64;

/// Limits on the resources that an agent holds for training processes.
/// They keep a process that may connect to the agent's socket from using up the machine's memory and from blocking
/// other processes.
///
/// One user's processes together get at most three quarters of each limit. By default, one session gets at most three
/// quarters of the memory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Limits {
    /// Bytes of memory that the agent takes for all processes: for copies of their tensors, sums, ports and
    /// connections. Memory that processes share with it belongs to them and is not included.
    pub memory: u64,
    /// The most memory for one session, in bytes.
    pub session_memory: u64,
    /// The size of the largest segment in bytes.
    pub segment_bytes: u64,
    /// The most bytes in open segments of all processes together. A segment counts with its full size,
    /// because the agent maps all of it.
    pub mapped_bytes: u64,
    /// The most segments of one session.
    pub segments: u32,
    /// The most sessions, and the most jobs of which this host is a member, of all
    /// processes: up to [`MAX_SESSIONS`].
    pub sessions: u32,
    /// The most calls of one session that run or wait for other calls, and the most all-reduces of one
    /// session.
    pub calls: u32,
    /// The most file descriptors for all processes. Each connection, segment, job, and server of a
    /// training takes some.
    pub descriptors: u64,
}

/// The maximum configurable number of sessions. Each session may keep a few of the agent's threads
/// busy.
pub const MAX_SESSIONS: u32 = 256;

impl Limits {
    /// Returns limits that suit this machine. The agent's memory is a quarter of the machine's memory, or
    /// of the memory limit of this process's control group. Segments may be as large as /dev/shm. The agent may use as
    /// many file descriptors as this process may have.
    pub fn of_this_machine() -> Self {
        let shared_memory = shared_memory().unwrap_or_else(usable_memory);
        let limits = Self {
            memory: 0,
            session_memory: 0,
            segment_bytes: shared_memory,
            mapped_bytes: shared_memory.saturating_mul(MAPPED_TIMES).min(addresses() / MAPPED_SHARE),
            segments: SEGMENTS,
            sessions: SESSIONS,
            calls: CALLS,
            descriptors: descriptors(),
        };
        limits.with_memory(usable_memory() / MEMORY_SHARE)
    }

    /// Returns these limits with `memory` bytes for the agent, and three quarters of them for one
    /// session.
    #[must_use]
    pub fn with_memory(self, memory: u64) -> Self {
        Self { memory, session_memory: most_of(memory), ..self }
    }
}

/// Returns the share of a limit that one user or session may use, so that something remains for other
/// users.
pub(super) fn most_of(limit: u64) -> u64 {
    limit - limit / 4
}

/// Returns the most bytes of memory that this process can have.
fn usable_memory() -> u64 {
    let group = group_memory(Path::new("/proc/self/cgroup"), Path::new("/sys/fs/cgroup"));
    group.unwrap_or(u64::MAX).min(machine_memory())
}

fn machine_memory() -> u64 {
    let info = sysinfo();
    info.totalram.saturating_mul(info.mem_unit.into())
}

/// Returns the lowest memory limit of this process's control groups and their ancestors; `None` if
/// they have no limit.
fn group_memory(membership: &Path, root: &Path) -> Option<u64> {
    let text = fs::read_to_string(membership).ok()?;
    let limit = |line: &str| {
        let (_number, line) = line.split_once(':')?;
        let (controllers, group) = line.split_once(':')?;
        match controllers {
            // Version 2 of control groups has one hierarchy, which has no name.
            "" => tightest(root, group, "memory.max"),
            // Version 1 has one hierarchy for each controller. A group without a limit has a file with a huge number.
            one if one.split(',').any(|name| name == "memory") => {
                tightest(&root.join("memory"), group, "memory.limit_in_bytes")
            }
            _ => None,
        }
    };
    text.lines().filter_map(limit).min()
}

/// Returns the lowest limit of a control group and its ancestors in a hierarchy. In a container the
/// group's own folder may not be visible. The root of the hierarchy is then the container's group.
fn tightest(hierarchy: &Path, group: &str, file: &str) -> Option<u64> {
    let own = hierarchy.join(group.trim_start_matches('/'));
    let folders = own.ancestors().take_while(|folder| folder.starts_with(hierarchy));
    let limits = folders.filter_map(|folder| fs::read_to_string(folder.join(file)).ok());
    // The text "max" is not a number and means that the group has no limit.
    limits.filter_map(|limit| limit.trim().parse().ok()).min()
}

/// Returns the bytes that all segments together can have.
fn shared_memory() -> Option<u64> {
    let space = statvfs(SegmentName::FOLDER).ok()?;
    Some(space.f_blocks.saturating_mul(space.f_frsize)).filter(|bytes| *bytes > 0)
}

/// Returns the number of bytes of address space that this process may map.
fn addresses() -> u64 {
    getrlimit(Resource::As).current.unwrap_or(u64::MAX)
}

fn descriptors() -> u64 {
    getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX).saturating_sub(OWN_DESCRIPTORS)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_machine_has_more_than_its_agent_takes() {
        let limits = Limits::of_this_machine();
        let machine = machine_memory();
        assert!(limits.memory > 0 && limits.memory <= machine / MEMORY_SHARE);
        assert!(limits.session_memory < limits.memory);
        assert!(limits.segment_bytes < 1 << 48 && limits.descriptors > 0);
    }

    #[test]
    fn the_tightest_control_group_counts() {
        let folder = tempfile::tempdir().unwrap();
        let own = folder.path().join("system.slice/tributary-agent.service");
        fs::create_dir_all(&own).unwrap();
        let membership = folder.path().join("membership");
        fs::write(&membership, "1:cpu:/old\n0::/system.slice/tributary-agent.service\n").unwrap();
        assert_eq!(group_memory(&membership, folder.path()), None);
        fs::write(own.join("memory.max"), "max\n").unwrap();
        assert_eq!(group_memory(&membership, folder.path()), None);
        fs::write(folder.path().join("system.slice/memory.max"), "1000\n").unwrap();
        fs::write(own.join("memory.max"), "4000\n").unwrap();
        assert_eq!(group_memory(&membership, folder.path()), Some(1000));
    }

    #[test]
    fn limits_of_version_1_count_and_so_do_those_of_ancestors() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path();
        let own = root.join("memory/slurm/job_7");
        fs::create_dir_all(&own).unwrap();
        let membership = root.join("membership");
        fs::write(&membership, "12:cpuset:/slurm\n9:hugetlb,memory:/slurm/job_7\n0::/user.slice\n").unwrap();
        assert_eq!(group_memory(&membership, root), None);
        fs::write(own.join("memory.limit_in_bytes"), "9223372036854771712\n").unwrap();
        assert_eq!(group_memory(&membership, root), Some(9_223_372_036_854_771_712), "which is no limit");
        fs::write(own.join("memory.limit_in_bytes"), "4000\n").unwrap();
        assert_eq!(group_memory(&membership, root), Some(4000));
        fs::write(root.join("memory/slurm/memory.limit_in_bytes"), "3000\n").unwrap();
        assert_eq!(group_memory(&membership, root), Some(3000));
        // A container sees its own group as the root.
        fs::write(root.join("memory/memory.limit_in_bytes"), "2000\n").unwrap();
        fs::write(&membership, "9:memory:/docker/0123\n").unwrap();
        assert_eq!(group_memory(&membership, root), Some(2000));
    }
}
