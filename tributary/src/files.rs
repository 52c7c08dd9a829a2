//! Files that are written as a whole or not at all, and read as a whole or refused.

use std::fs::{self, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use anyhow::{Context, Result, ensure};

/// Who may read a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Readers {
    /// Its owner alone, from the first byte on.
    Owner,
    /// Everyone.
    Everyone,
}

/// The most bytes of a file that is read as a whole. The largest programs are a few megabytes.
const MAX_BYTES: u64 = 256 << 20;
/// The most bytes of a file that people write.
const MAX_TEXT_BYTES: u64 = 16 << 20;
/// The most bytes of a secret.
const MAX_SECRET_BYTES: u64 = 64 << 10;

/// Reads a regular file of a sensible size: a pipe might never end, and neither might a device.
///
/// # Errors
/// Which file, and what is wrong with it.
pub(crate) fn read(path: &Path) -> Result<Vec<u8>> {
    read_up_to(path, MAX_BYTES)
}

/// Reads a regular file that people write, such as settings.
///
/// # Errors
/// Which file, and what is wrong with it.
pub(crate) fn read_text(path: &Path) -> Result<String> {
    String::from_utf8(read_up_to(path, MAX_TEXT_BYTES)?)
        .with_context(|| format!("cannot read {}: it is no UTF-8 text", path.display()))
}

/// Reads a secret, which may come through a pipe.
///
/// # Errors
/// Which file, and what is wrong with it.
pub(crate) fn read_secret(path: &Path) -> Result<String> {
    let mut text = String::new();
    let read = fs::File::open(path).and_then(|file| file.take(MAX_SECRET_BYTES).read_to_string(&mut text));
    read.with_context(|| format!("cannot read {}", path.display()))?;
    Ok(text)
}

fn read_up_to(path: &Path, most: u64) -> Result<Vec<u8>> {
    let length = check_is_regular(path)?;
    ensure!(
        length <= most,
        "cannot read {}: it has {length} bytes, and {most} are the most that are read",
        path.display()
    );
    fs::read(path).with_context(|| format!("cannot read {}", path.display()))
}

/// Checks that a file is a regular one, and returns its length in bytes.
///
/// # Errors
/// Which file, and that it is something else, or not there.
pub(crate) fn check_is_regular(path: &Path) -> Result<u64> {
    let about = path.metadata().with_context(|| format!("cannot read {}", path.display()))?;
    ensure!(about.is_file(), "cannot read {}: it is no regular file", path.display());
    Ok(about.len())
}

/// Writes a file, replacing an existing one.
pub(crate) fn write(path: &Path, readers: Readers, contents: &str) -> io::Result<()> {
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
        .and_then(|mut file| file.write_all(contents.as_bytes()))
        .and_then(|()| fs::rename(&draft, path));
    if written.is_err() {
        let _ = fs::remove_file(&draft);
    }
    written
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn only_regular_files_of_a_sensible_size_are_read() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("file");
        fs::write(&path, "text").unwrap();
        assert_eq!(read(&path).unwrap(), b"text");
        OpenOptions::new().write(true).open(&path).unwrap().set_len(1 << 40).unwrap();
        assert!(read(&path).unwrap_err().to_string().contains("1099511627776 bytes"));
        for none in [folder.path(), Path::new("/dev/zero")] {
            assert!(read(none).unwrap_err().to_string().contains("no regular file"));
            assert!(read_text(none).unwrap_err().to_string().contains("no regular file"));
        }
        assert_eq!(read_secret(Path::new("/dev/zero")).unwrap().len(), MAX_SECRET_BYTES as usize);
    }

    #[test]
    fn a_secret_is_readable_for_its_user_alone_and_replaces_an_old_one() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("secret");
        fs::write(&path, "old").unwrap();
        write(&path, Readers::Owner, "new").unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), "new");
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        assert!(write(&folder.path().join("none/secret"), Readers::Owner, "").is_err());
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
    }
}
