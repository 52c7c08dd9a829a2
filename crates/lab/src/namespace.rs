//! Lists network namespaces, and runs code inside one. `setup` makes them.

use std::fs::{self, File};
use std::io;
use std::os::fd::AsFd;
use std::os::unix::fs::MetadataExt;
use std::panic;
use std::path::{Path, PathBuf};
use std::thread;

use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};

use crate::error::LabError;
use crate::names;

/// The folder in which `ip netns` mounts the namespaces that it creates.
const FOLDER: &str = "/run/netns";

/// The identity of a namespace, independent of its name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct NamespaceId {
    device: u64,
    inode: u64,
}

/// Returns the identity of the namespace at `path`.
pub(crate) fn id(path: &Path) -> io::Result<NamespaceId> {
    let metadata = fs::metadata(path)?;
    Ok(NamespaceId { device: metadata.dev(), inode: metadata.ino() })
}

/// Returns the path at which a namespace is mounted.
pub(crate) fn path(namespace: &str) -> PathBuf {
    Path::new(FOLDER).join(namespace)
}

/// Returns the names of all labs' namespaces on this machine, each with its lab's name.
pub(crate) fn all() -> Result<Vec<(String, String)>, LabError> {
    let failed =
        |reason| LabError::Record { path: FOLDER.into(), step: "list network namespaces in", reason };
    let entries = match fs::read_dir(FOLDER) {
        // The folder does not exist if no namespace has been created since this machine started.
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        entries => entries.map_err(failed)?,
    };
    let mut found = Vec::new();
    for entry in entries {
        let Ok(name) = entry.map_err(failed)?.file_name().into_string() else { continue };
        if let Some(lab) = names::lab_of(&name) {
            found.push((lab.to_owned(), name));
        }
    }
    found.sort_unstable();
    Ok(found)
}

/// Returns the namespaces of one lab.
pub(crate) fn of_lab(lab: &str) -> Result<Vec<String>, LabError> {
    let mut namespaces = all()?;
    namespaces.retain(|(owner, _)| owner == lab);
    Ok(namespaces.into_iter().map(|(_, namespace)| namespace).collect())
}

/// Calls `work` on a new thread inside the namespace, and waits for it. The calling thread stays in its
/// own namespace. Sockets and processes that `work` creates belong to `namespace`.
pub(crate) fn inside<T: Send>(namespace: &str, work: impl FnOnce() -> T + Send) -> Result<T, LabError> {
    let failed = |step| move |reason| LabError::Namespace { namespace: namespace.into(), step, reason };
    let door = File::open(path(namespace)).map_err(failed("open"))?;
    let enter_and_work = || {
        move_into_link_name_space(door.as_fd(), Some(LinkNameSpaceType::Network))
            .map_err(|errno| failed("enter")(errno.into()))?;
        Ok(work())
    };
    thread::scope(|scope| {
        let thread = thread::Builder::new().name(namespace.into()).spawn_scoped(scope, enter_and_work);
        let thread = thread.map_err(failed("start a thread"))?;
        thread.join().unwrap_or_else(|panicked| panic::resume_unwind(panicked))
    })
}
