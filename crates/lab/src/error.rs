//! Errors of a lab.

use std::io;
use std::path::PathBuf;

use thiserror::Error;

/// An error when a lab is created, used or removed. The message gives the next step for the user.
#[derive(Debug, Error)]
pub enum LabError {
    /// Creating namespaces and interfaces needs privileges that this process does not have.
    #[error("a lab needs root (CAP_SYS_ADMIN and CAP_NET_ADMIN, to make network namespaces): use sudo")]
    NotPermitted,
    /// This user may not create user namespaces, which a lab without root privileges needs.
    #[error("a lab needs root, or a user namespace: {0}; or use sudo")]
    NoUserNamespace(String),
    /// The namespaces of the user's labs cannot be created or entered.
    #[error("cannot {step}, which a lab needs without root: {reason}")]
    Rootless {
        /// The step that failed.
        step: &'static str,
        /// The operating system's error.
        reason: io::Error,
    },
    /// The folder through which a user's commands find the user's labs may belong to another user.
    #[error("{} is not a folder of this user alone: remove it, or set XDG_RUNTIME_DIR to one", .0.display())]
    ForeignFolder(PathBuf),
    /// The name cannot be part of the names of namespaces and files.
    #[error("bad lab name {0:?}: use 1 to 32 of a-z, A-Z, 0-9, '_' and, but not first, '-'")]
    BadName(String),
    /// The loss is not a probability, or it would drop every frame.
    #[error("bad loss {0}: give a probability from 0 up to, but not including, 1 (0.01 is one frame in 100)")]
    BadLoss(f64),
    /// The queue cannot hold a single frame.
    #[error("bad queue length 0: a link needs room for at least 1 frame")]
    BadQueue,
    /// The topology has too many nodes. The management network is a Linux bridge, whose number of ports is
    /// limited.
    #[error("{nodes} nodes are too many for one lab: its management network reaches at most {limit}")]
    TooManyNodes {
        /// Number of nodes in the topology.
        nodes: usize,
        /// Number of nodes that a lab can have.
        limit: usize,
    },
    /// The lab exists already; another process uses it, or a crash left it.
    #[error(
        "lab {0:?} exists already: remove it with `tributary lab down {0}`, or give another name by --name NAME"
    )]
    Exists(String),
    /// The lab does not exist.
    #[error("there is no lab {0:?}: `tributary lab up` makes one")]
    NoLab(String),
    /// The process that created the lab ended before the lab was complete.
    #[error("lab {0:?} was never finished: remove it with `tributary lab down {0}`, and make it again")]
    Incomplete(String),
    /// The name is neither a node of the topology nor the controller's station.
    #[error("lab {lab:?} has no node {station:?}: it has {known}")]
    NoStation {
        /// The lab's name.
        lab: String,
        /// The requested station.
        station: String,
        /// The existing stations, as text for users.
        known: String,
    },
    /// No link has this name.
    #[error("lab {lab:?} has no link {link:?}: give both ends of one of its links, {known}")]
    NoLink {
        /// The lab's name.
        lab: String,
        /// The requested link.
        link: String,
        /// The existing links, as text for users.
        known: String,
    },
    /// The name matches several links between two switches.
    #[error(
        "{link:?} can be any of several links: give the interface at one of its ends, such as {candidates}"
    )]
    SeveralLinks {
        /// The requested link.
        link: String,
        /// The matching links, as text for users.
        candidates: String,
    },
    /// The link is cut already.
    #[error("link {0} is cut already: repair it first")]
    IsCut(String),
    /// The link is not cut.
    #[error("link {0} is not cut: there is nothing to repair")]
    NotCut(String),
    /// The factor of a slowdown is out of range.
    #[error("bad factor {0:?}: give 1 (full speed) to 100 (a hundred times slower)")]
    BadFactor(f64),
    /// A program that sets up the network is not installed.
    #[error("cannot find `{tool}` on the PATH: install it with `apt-get install {package}`")]
    MissingTool {
        /// The program's name.
        tool: &'static str,
        /// The Debian package that contains the program.
        package: &'static str,
    },
    /// BMv2 should run at the switches, but is not installed.
    #[error(
        "cannot find `{0}` on the PATH: install BMv2 with its P4Runtime server (docs/bmv2.md), or use the \
         embedded switch"
    )]
    NoBmv2(&'static str),
    /// A program that sets up the network failed.
    #[error("`{tool}` failed in {place}: {message}")]
    Tool {
        /// The program's name.
        tool: &'static str,
        /// The station in whose namespace the program ran, or this machine.
        place: String,
        /// The program's error message.
        message: String,
    },
    /// A system call for a station's namespace failed.
    #[error("cannot {step} in network namespace {namespace}: {reason}")]
    Namespace {
        /// The namespace.
        namespace: String,
        /// The step that failed.
        step: &'static str,
        /// The operating system's error.
        reason: io::Error,
    },
    /// The record of the labs on this machine cannot be read or written.
    #[error("cannot {step} {}: {reason}", path.display())]
    Record {
        /// The file or folder.
        path: PathBuf,
        /// The step that failed.
        step: &'static str,
        /// The operating system's error.
        reason: io::Error,
    },
    /// A lab's record has a format that this version does not write.
    #[error(
        "{}: not a lab's record ({reason}): remove that lab with `tributary lab down`",
        path.display()
    )]
    BadRecord {
        /// The record's file.
        path: PathBuf,
        /// The error in the record.
        reason: serde_json::Error,
    },
    /// Processes in the lab did not end, even after SIGKILL.
    #[error("processes {pids:?} in lab {lab:?} do not end: they wait in the kernel; try again later")]
    StuckProcesses {
        /// The lab's name.
        lab: String,
        /// The ids of the remaining processes.
        pids: Vec<u32>,
    },
    /// Another program, such as `tributary-bench chaos`, keeps starting processes in the lab while they are
    /// being ended.
    #[error(
        "processes in lab {lab:?} are started again by processes {starters:?} as fast as they are ended: end those first, \
         then remove the lab with `tributary lab down {lab}`"
    )]
    RestartedProcesses {
        /// The lab's name.
        lab: String,
        /// The ids of the processes that start them.
        starters: Vec<u32>,
    },
}

impl LabError {
    /// Returns a function for `map_err` that reports a failed `step` in creating or entering a user's
    /// namespaces.
    pub(crate) fn rootless(step: &'static str) -> impl Fn(io::Error) -> Self {
        move |reason| Self::Rootless { step, reason }
    }
}
