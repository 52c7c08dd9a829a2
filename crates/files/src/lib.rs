//! Files that users name. They are read completely or not at all, and written completely or not at all.
//!
//! An input must be a regular file of a bounded size, because a pipe or a device might never end. An output never
//! replaces a device, a pipe or a link:
//!
//! | at the path of an output is | [`write()`] |
//! |---|---|
//! | nothing, or a regular file | replaces it as a whole |
//! | a symbolic link to a regular file | replaces that file; the link stays |
//! | a character device, a pipe that is read, or this process's own output | writes to it |
//! | anything else, or a link that leads nowhere | refuses |

use std::fs::{self, File, FileType, Metadata, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::{FileTypeExt, MetadataExt, OpenOptionsExt};
use std::path::Path;

use rustix::fs::{OFlags, fcntl_setfl};

/// The maximum size in bytes of a file that is read completely. The largest P4 programs have a few
/// megabytes.
const MAX_BYTES: u64 = 256 << 20;
/// The maximum size in bytes of a file that users write.
const MAX_TEXT_BYTES: u64 = 16 << 20;
/// The maximum size of a secret in bytes.
const MAX_SECRET_BYTES: u64 = 64 << 10;

/// The accounts that may read a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Readers {
    /// Only the owner. The file has that mode from its creation on.
    Owner,
    /// All users.
    Everyone,
}

/// Reads a regular file.
///
/// # Errors
/// The file cannot be read, is not a regular file, or has more than 256 MiB.
pub fn read(path: &Path) -> io::Result<Vec<u8>> {
    read_up_to(path, MAX_BYTES)
}

/// Reads a regular file that people write, such as settings.
///
/// # Errors
/// The file cannot be read, is not a regular file, has more than 16 MiB, or is not UTF-8.
pub fn read_text(path: &Path) -> io::Result<String> {
    let not_text = |_| io::Error::new(io::ErrorKind::InvalidData, "it is not UTF-8 text");
    String::from_utf8(read_up_to(path, MAX_TEXT_BYTES)?).map_err(not_text)
}

/// Reads a secret of up to 64 KiB. The path may lead to a pipe, such as a shell's `<(…)`.
///
/// # Errors
/// The file cannot be read, or is not UTF-8.
pub fn read_secret(path: &Path) -> io::Result<String> {
    let mut text = String::new();
    File::open(path)?.take(MAX_SECRET_BYTES).read_to_string(&mut text)?;
    Ok(text)
}

fn read_up_to(path: &Path, most: u64) -> io::Result<Vec<u8>> {
    let too_long = |length: u64| {
        let problem = format!("it has {length} bytes, and {most} are the most that are read");
        Err(io::Error::new(io::ErrorKind::FileTooLarge, problem))
    };
    let length = check_input(path)?;
    if length > most {
        return too_long(length);
    }
    let mut contents = Vec::new();
    File::open(path)?.take(most + 1).read_to_end(&mut contents)?;
    // The size is checked again, because the file may have grown, and files in /proc report a size of 0.
    if contents.len() as u64 > most { too_long(contents.len() as u64) } else { Ok(contents) }
}

/// Checks that `path` leads to a regular file, and returns the file's length in bytes.
/// Must be called before the file is opened, because opening a pipe waits for the pipe's other end.
///
/// # Errors
/// The path leads to nothing, or to something other than a regular file.
pub fn check_input(path: &Path) -> io::Result<u64> {
    let about = path.metadata()?;
    if about.is_file() { Ok(about.len()) } else { Err(not_regular(about.file_type())) }
}

/// Checks that `path` leads to a regular file or to nothing. Meant for outputs that are written piece
/// by piece.
///
/// # Errors
/// The path leads to something else.
pub fn check_output(path: &Path) -> io::Result<()> {
    match check_input(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        checked => checked.map(drop),
    }
}

/// Writes a file, by the rules of this [crate].
///
/// # Errors
/// The file cannot be written, or the path leads to something that must not be replaced.
pub fn write(path: &Path, readers: Readers, contents: impl AsRef<[u8]>) -> io::Result<()> {
    let contents = contents.as_ref();
    let about = match path.metadata() {
        Ok(about) => about,
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            let Ok(target) = fs::read_link(path) else { return replace(path, readers, contents) };
            let target = target.display();
            let problem = format!("it is a symbolic link to {target}, which does not exist: remove the link");
            return Err(io::Error::new(error.kind(), problem));
        }
        Err(error) => return Err(error),
    };
    let kind = about.file_type();
    if kind.is_char_device() || kind.is_fifo() || is_own_output(&about) {
        return write_into(path, contents);
    }
    if !about.is_file() {
        return Err(not_regular(kind));
    }
    // If the path is a link, the file to which the link leads is replaced.
    replace(&path.canonicalize()?, readers, contents)
}

/// Writes a complete file under a temporary name, and then renames it to `path`.
fn replace(path: &Path, readers: Readers, contents: &[u8]) -> io::Result<()> {
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let draft = folder.join(format!(".{name}.{}", std::process::id()));
    let mode = match readers {
        Readers::Owner => 0o600,
        Readers::Everyone => 0o644,
    };
    let written = OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(mode)
        .open(&draft)
        .and_then(|mut file| file.write_all(contents))
        .and_then(|()| fs::rename(&draft, path));
    if written.is_err() {
        let _ = fs::remove_file(&draft);
    }
    written
}

/// Writes to a device, a pipe, or this process's output.
/// A pipe without a reader is refused, because a writer would wait permanently.
fn write_into(path: &Path, contents: &[u8]) -> io::Result<()> {
    let flags = OFlags::NONBLOCK.bits().cast_signed();
    let opened = OpenOptions::new().append(true).custom_flags(flags).open(path);
    let mut file = opened.map_err(|error| match error.raw_os_error() {
        Some(code) if code == rustix::io::Errno::NXIO.raw_os_error() => {
            io::Error::new(error.kind(), "it is a pipe that nothing reads: start its reader first")
        }
        _ => error,
    })?;
    fcntl_setfl(&file, OFlags::APPEND)?;
    file.write_all(contents)
}

/// Returns true if this process's standard output or standard error goes to this file.
fn is_own_output(about: &Metadata) -> bool {
    let identity = |about: &Metadata| (about.dev(), about.ino());
    let own = [1, 2].map(|number| fs::metadata(format!("/proc/self/fd/{number}")));
    own.into_iter().flatten().any(|own| identity(&own) == identity(about))
}

fn not_regular(kind: FileType) -> io::Error {
    let kind = match kind {
        kind if kind.is_dir() => "a folder",
        kind if kind.is_fifo() => "a pipe",
        kind if kind.is_socket() => "a socket",
        kind if kind.is_char_device() || kind.is_block_device() => "a device",
        _ => "something else",
    };
    io::Error::new(io::ErrorKind::InvalidInput, format!("it is {kind}, not a regular file"))
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{PermissionsExt, symlink};
    use std::os::unix::net::UnixListener;
    use std::thread;

    use rustix::fs::{CWD, FileType, Mode, makedev, mknodat};
    use tempfile::{TempDir, tempdir};

    use super::*;

    fn pipe(folder: &TempDir) -> std::path::PathBuf {
        let path = folder.path().join("pipe");
        mknodat(CWD, &path, FileType::Fifo, Mode::RUSR | Mode::WUSR, 0).unwrap();
        path
    }

    #[test]
    fn only_regular_files_of_a_bounded_size_are_read() {
        let folder = tempdir().unwrap();
        let path = folder.path().join("file");
        fs::write(&path, "text").unwrap();
        assert_eq!(read(&path).unwrap(), b"text");
        assert_eq!(read_text(&path).unwrap(), "text");
        fs::write(&path, [0xff]).unwrap();
        assert!(read_text(&path).unwrap_err().to_string().contains("not UTF-8"));
        OpenOptions::new().write(true).open(&path).unwrap().set_len(1 << 40).unwrap();
        assert!(read(&path).unwrap_err().to_string().contains("1099511627776 bytes"));
        for (other, kind) in [(folder.path(), "a folder"), (&pipe(&folder), "a pipe")] {
            let expected = format!("it is {kind}, not a regular file");
            assert_eq!(read(other).unwrap_err().to_string(), expected);
            assert_eq!(read_text(other).unwrap_err().to_string(), expected);
            assert_eq!(check_output(other).unwrap_err().to_string(), expected);
        }
        check_output(&folder.path().join("new")).unwrap();
    }

    #[test]
    fn a_secret_is_readable_for_its_user_alone_and_replaces_an_old_one() {
        let folder = tempdir().unwrap();
        let path = folder.path().join("secret");
        fs::write(&path, "old").unwrap();
        write(&path, Readers::Owner, "new").unwrap();
        assert_eq!(read_secret(&path).unwrap(), "new");
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        assert!(write(&folder.path().join("none/secret"), Readers::Owner, "").is_err());
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
    }

    #[test]
    fn a_link_stays_and_the_file_that_it_leads_to_is_replaced() {
        let folder = tempdir().unwrap();
        let [target, link] = ["target", "link"].map(|name| folder.path().join(name));
        symlink("target", &link).unwrap();
        let error = write(&link, Readers::Owner, "new").unwrap_err();
        assert!(error.to_string().contains("a symbolic link to target, which does not exist"), "{error}");
        fs::write(&target, "old").unwrap();
        write(&link, Readers::Owner, "new").unwrap();
        assert!(link.is_symlink());
        assert_eq!(fs::read_to_string(&target).unwrap(), "new");
    }

    #[test]
    fn a_pipe_is_written_to_if_it_is_read_and_never_replaced() {
        let folder = tempdir().unwrap();
        let pipe = pipe(&folder);
        let error = write(&pipe, Readers::Owner, "secret").unwrap_err();
        assert!(error.to_string().contains("nothing reads"), "{error}");
        // Opening the pipe does not wait for the writer, unlike a shell's `cat`.
        let flags = OFlags::NONBLOCK.bits().cast_signed();
        let mut reader = OpenOptions::new().read(true).custom_flags(flags).open(&pipe).unwrap();
        fcntl_setfl(&reader, OFlags::empty()).unwrap();
        // The data exceeds the capacity of a pipe.
        let long = "secret".repeat(100_000);
        let expected = long.clone();
        let writer = thread::spawn(move || write(&pipe, Readers::Owner, long).map(|()| pipe));
        let mut found = vec![0; expected.len()];
        let mut filled = 0;
        while filled < found.len() {
            // Reads return nothing until the writer has opened the pipe.
            filled += reader.read(&mut found[filled..]).unwrap();
        }
        assert!(found == expected.as_bytes());
        let pipe = writer.join().unwrap().unwrap();
        assert!(pipe.metadata().unwrap().file_type().is_fifo());
    }

    #[test]
    fn a_device_is_written_to_and_never_replaced() {
        let folder = tempdir().unwrap();
        let device = folder.path().join("null");
        // This is the same device as the system's /dev/null, under a name of this test.
        let made = mknodat(CWD, &device, FileType::CharacterDevice, Mode::RUSR | Mode::WUSR, makedev(1, 3));
        if let Err(error) = made {
            println!("skipped: this user cannot make device nodes: {error}");
            return;
        }
        match write(&device, Readers::Owner, "secret") {
            // The file system of temporary files may not support devices.
            Err(error) => assert_eq!(error.kind(), io::ErrorKind::PermissionDenied, "{error}"),
            Ok(()) => assert_eq!(check_input(&device).unwrap_err().kind(), io::ErrorKind::InvalidInput),
        }
        assert!(device.metadata().unwrap().file_type().is_char_device());
    }

    #[test]
    fn sockets_and_folders_are_neither_written_to_nor_replaced() {
        let folder = tempdir().unwrap();
        let socket = folder.path().join("socket");
        let _listener = UnixListener::bind(&socket).unwrap();
        for (path, kind) in [(folder.path(), "a folder"), (&socket, "a socket")] {
            let error = write(path, Readers::Everyone, "text").unwrap_err();
            assert_eq!(error.to_string(), format!("it is {kind}, not a regular file"));
        }
        assert!(socket.metadata().unwrap().file_type().is_socket());
    }
}
