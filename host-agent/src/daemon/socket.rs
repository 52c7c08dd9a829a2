//! The Unix socket that training processes connect to.

use std::fs::{self, Permissions};
use std::io;
use std::os::unix::fs::{FileTypeExt, MetadataExt, PermissionsExt};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};

use thiserror::Error;
use tokio::net::UnixListener;

/// The permissions of the socket: its user and group may connect.
const MODE: u32 = 0o660;

/// The reason why the agent cannot listen on the socket.
#[derive(Debug, Error)]
pub enum SocketError {
    /// Another process listens on the socket.
    #[error("another agent listens on {}: stop it, or give this one another --socket", path.display())]
    InUse {
        /// The path of the socket.
        path: PathBuf,
    },
    /// The path belongs to a file that is not a socket.
    #[error("{} is there and is not a socket: remove it, or give another --socket", path.display())]
    NotASocket {
        /// The path of the existing file.
        path: PathBuf,
    },
    /// The operating system refused.
    #[error("cannot listen on {}: {reason}", path.display())]
    System {
        /// The path of the socket.
        path: PathBuf,
        /// The system's reason.
        reason: io::Error,
    },
}

/// The socket's file. Dropping this value removes it.
#[derive(Debug)]
pub(crate) struct SocketFile {
    path: PathBuf,
    /// The file's device and inode. They differ if another agent has replaced the socket by its own.
    identity: (u64, u64),
}

/// Listens on a socket at `path`, and replaces a socket that a crashed agent has left there.
///
/// The socket gets this path only after its permissions are set, so that no process can connect earlier.
pub(crate) fn listen(path: &Path) -> Result<(UnixListener, SocketFile), SocketError> {
    let failed = |reason| SocketError::System { path: path.into(), reason };
    check_free(path)?;
    let draft = draft(path);
    // If the file exists, an earlier, failed attempt with this process's id has left it.
    let _ = fs::remove_file(&draft);
    let listener = UnixListener::bind(&draft).map_err(failed)?;
    let named = fs::set_permissions(&draft, Permissions::from_mode(MODE)).and_then(|()| {
        let metadata = fs::metadata(&draft)?;
        fs::rename(&draft, path)?;
        Ok((metadata.dev(), metadata.ino()))
    });
    let identity = named.map_err(|reason| {
        let _ = fs::remove_file(&draft);
        failed(reason)
    })?;
    Ok((listener, SocketFile { path: path.into(), identity }))
}

/// Returns the path of the socket before it is renamed to its final path.
fn draft(path: &Path) -> PathBuf {
    path.with_extension(format!("{}.new", std::process::id()))
}

fn check_free(path: &Path) -> Result<(), SocketError> {
    match fs::symlink_metadata(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        Err(reason) => return Err(SocketError::System { path: path.into(), reason }),
        Ok(metadata) if !metadata.file_type().is_socket() => {
            return Err(SocketError::NotASocket { path: path.into() });
        }
        Ok(_) => {}
    }
    match UnixStream::connect(path) {
        // No process listens on the socket any more: a crashed agent has left it.
        Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => Ok(()),
        Err(reason) => Err(SocketError::System { path: path.into(), reason }),
        Ok(_) => Err(SocketError::InUse { path: path.into() }),
    }
}

impl Drop for SocketFile {
    fn drop(&mut self) {
        let own = |metadata: fs::Metadata| (metadata.dev(), metadata.ino()) == self.identity;
        if fs::symlink_metadata(&self.path).is_ok_and(own)
            && let Err(error) = fs::remove_file(&self.path)
        {
            tracing::warn!(path = %self.path.display(), %error, "cannot remove the socket");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn it_is_there_for_the_group_and_gone_in_the_end() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("agent.sock");
        let (_listener, file) = listen(&path).unwrap();
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, MODE);
        assert!(UnixStream::connect(&path).is_ok());
        drop(file);
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0);
    }

    #[tokio::test]
    async fn a_live_socket_is_refused_and_a_stale_one_replaced() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("agent.sock");
        let (listener, file) = listen(&path).unwrap();
        assert!(matches!(listen(&path).unwrap_err(), SocketError::InUse { .. }));
        // The state after a crash: the file exists, but no process listens.
        drop(listener);
        let (_second, replaced) = listen(&path).unwrap();
        drop(file);
        assert!(UnixStream::connect(&path).is_ok(), "the first one's end removed the second one's socket");
        drop(replaced);
        assert!(!path.exists());
    }

    #[tokio::test]
    async fn other_files_are_left_alone() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("notes.txt");
        fs::write(&path, "mine").unwrap();
        assert!(matches!(listen(&path).unwrap_err(), SocketError::NotASocket { .. }));
        assert_eq!(fs::read_to_string(&path).unwrap(), "mine");
        let nowhere = folder.path().join("nowhere/agent.sock");
        assert!(matches!(listen(&nowhere).unwrap_err(), SocketError::System { .. }));
    }
}
