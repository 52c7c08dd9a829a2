//! The Unix socket that training processes connect to.

use std::fs::{self, Permissions};
use std::io;
use std::os::unix::fs::{FileTypeExt, MetadataExt, PermissionsExt};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};

use thiserror::Error;
use tokio::net::UnixListener;

/// The socket's user and group may connect.
const MODE: u32 = 0o660;

/// Why the socket cannot be listened on.
#[derive(Debug, Error)]
pub enum SocketError {
    /// Another process answers there.
    #[error("another agent listens on {}: stop it, or give this one another --socket", path.display())]
    InUse {
        /// The socket.
        path: PathBuf,
    },
    /// Something other than a socket has the name.
    #[error("{} is there and is not a socket: remove it, or give another --socket", path.display())]
    NotASocket {
        /// The path of the existing file.
        path: PathBuf,
    },
    /// The operating system refused.
    #[error("cannot listen on {}: {reason}", path.display())]
    System {
        /// The socket.
        path: PathBuf,
        /// The system's reason.
        reason: io::Error,
    },
}

/// A socket's name in the file system; removed when this is dropped.
#[derive(Debug)]
pub(crate) struct SocketFile {
    path: PathBuf,
    /// Its device and inode: another agent may have put its own socket in its place.
    identity: (u64, u64),
}

/// Listens on `path`, and replaces a socket that a crashed agent has left there.
///
/// Listens on a socket at `path`. The socket gets its name only after its permissions are set, so that no process can
/// connect before.
pub(crate) fn listen(path: &Path) -> Result<(UnixListener, SocketFile), SocketError> {
    let failed = |reason| SocketError::System { path: path.into(), reason };
    check_free(path)?;
    let draft = draft(path);
    // Anything there belongs to this process, from an earlier attempt that failed.
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

/// The path of the socket before it gets its name.
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
        // As after a crash: the name without a listener.
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
