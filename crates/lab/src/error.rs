//! Errors of a lab.

use std::io;
use std::path::PathBuf;

use thiserror::Error;

/// Why a lab could not be made, used or removed. The message says what to do.
#[derive(Debug, Error)]
pub enum LabError {
    /// Making namespaces and interfaces needs rights that this process does not have.
    #[error("a lab needs root (CAP_SYS_ADMIN and CAP_NET_ADMIN, to make network namespaces): use sudo")]
    NotPermitted,
    /// This user may not make the namespaces that stand in for root's rights.
    #[error("a lab needs root, or a user namespace: {0}; or use sudo")]
    NoUserNamespace(String),
    /// The namespaces of the user's labs cannot be made or entered.
    #[error("cannot {step}, which a lab needs without root: {reason}")]
    Rootless {
        /// The step that failed.
        step: &'static str,
        /// The operating system's error.
        reason: io::Error,
    },
    /// The folder by which a user's commands find one another may belong to another user.
    #[error("{} is not a folder of this user alone: remove it, or set XDG_RUNTIME_DIR to one", .0.display())]
    ForeignFolder(PathBuf),
    /// The name cannot be a part of the names of namespaces and files.
    #[error("bad lab name {0:?}: use 1 to 32 of a-z, A-Z, 0-9, '_' and, but not first, '-'")]
    BadName(String),
    /// The loss is not a probability, or it would drop every frame.
    #[error("bad loss {0}: give a probability from 0 up to, but not including, 1 (0.01 is one frame in 100)")]
    BadLoss(f64),
    /// The queue cannot hold a single frame.
    #[error("bad queue length 0: a link needs room for at least 1 frame")]
    BadQueue,
    /// A Linux bridge, which the management network is, cannot have that many ports.
    #[error("{nodes} nodes are too many for one lab: its management network reaches at most {limit}")]
    TooManyNodes {
        /// Number of nodes that the topology has.
        nodes: usize,
        /// Number of nodes that a lab can have.
        limit: usize,
    },
    /// The lab exists already, in use or left by a crash.
    #[error(
        "lab {0:?} exists already: remove it with `tributary lab down {0}`, or give another name by --name NAME"
    )]
    Exists(String),
    /// The lab does not exist.
    #[error("there is no lab {0:?}: `tributary lab up` makes one")]
    NoLab(String),
    /// The process that made it died before it was done.
    #[error("lab {0:?} was never finished: remove it with `tributary lab down {0}`, and make it anew")]
    Incomplete(String),
    /// Neither a node of the topology nor the controller's station.
    #[error("lab {lab:?} has no node {station:?}: it has {known}")]
    NoStation {
        /// The lab.
        lab: String,
        /// The requested station.
        station: String,
        /// The existing stations, as text for users.
        known: String,
    },
    /// No link has this name.
    #[error("lab {lab:?} has no link {link:?}: give both ends of one of its links, {known}")]
    NoLink {
        /// The lab.
        lab: String,
        /// The requested link.
        link: String,
        /// The existing links, as text for users.
        known: String,
    },
    /// The name fits several links between two switches.
    #[error(
        "{link:?} can be any of several links: give the interface at one of its ends, such as {candidates}"
    )]
    SeveralLinks {
        /// The requested link.
        link: String,
        /// The links that it fits, as text for users.
        candidates: String,
    },
    /// The link is cut already.
    #[error("link {0} is cut already: repair it first")]
    IsCut(String),
    /// The link is not cut.
    #[error("link {0} is not cut: there is nothing to repair")]
    NotCut(String),
    /// The factor of a slowdown is out of range.
    #[error("bad factor {0:?}: give 1 (as fast as ever) to 100 (a hundred times slower)")]
    BadFactor(f64),
    /// A program that sets up the network is not installed.
    #[error("cannot find `{tool}` on the PATH: install it with `apt-get install {package}`")]
    MissingTool {
        /// The program.
        tool: &'static str,
        /// The Debian package that has it.
        package: &'static str,
    },
    /// BMv2 should run as the switches, and is not installed.
    #[error(
        "cannot find `{0}` on the PATH: install BMv2 with its P4Runtime server (docs/bmv2.md), or use the \
         embedded switch"
    )]
    NoBmv2(&'static str),
    /// A program that sets up the network refused.
    #[error("`{tool}` failed in {place}: {message}")]
    Tool {
        /// The program.
        tool: &'static str,
        /// The station whose namespace it ran in, or this machine.
        place: String,
        /// Its error message.
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
    /// The record of a lab is not one that this version wrote.
    #[error(
        "{}: not a lab's record ({reason}): remove that lab with `tributary lab down`",
        path.display()
    )]
    BadRecord {
        /// The file.
        path: PathBuf,
        /// The error in the record.
        reason: serde_json::Error,
    },
    /// Processes inside the lab did not end, not even when killed.
    #[error("processes {pids:?} in lab {lab:?} do not end: they wait in the kernel; try again later")]
    StuckProcesses {
        /// The lab.
        lab: String,
        /// Their process ids.
        pids: Vec<u32>,
    },
    /// Another program, such as `tributary-bench chaos`, starts processes in the lab
    /// as fast as they are ended.
    #[error(
        "processes in lab {lab:?} are started again by processes {starters:?} as fast as they are ended: end those first, \
         then remove the lab with `tributary lab down {lab}`"
    )]
    RestartedProcesses {
        /// The lab.
        lab: String,
        /// The process ids of the programs that start them.
        starters: Vec<u32>,
    },
}

impl LabError {
    /// For `map_err`: a step in the making of a user's namespaces failed.
    pub(crate) fn rootless(step: &'static str) -> impl Fn(io::Error) -> Self {
        move |reason| Self::Rootless { step, reason }
    }
}
