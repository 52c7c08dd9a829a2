//! An ordinary user of this machine.

use std::fs;
use std::os::unix::fs::chown;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use tempfile::TempDir;

use crate::binary::{Program, TRIBUTARY, stderr};
use crate::{labs, root};

/// The id of the user `nobody`, who has no rights on any system.
const NOBODY: u32 = 65534;
/// The topology that is copied to the user's folder.
const TWO_WORKERS: &str = "topologies/two-workers.toml";

/// A user without rights, with a private folder.
#[derive(Debug)]
pub struct User {
    folder: TempDir,
}

impl User {
    /// Makes a user whose folder has these programs, which must include `tributary`.
    ///
    /// Prints a message and returns `None` if this process cannot act as another user, or that user may not
    /// make labs.
    pub fn new(programs: &[Program]) -> Option<Self> {
        if !labs::tools_are_there() {
            return None;
        }
        let user = Self { folder: tempfile::tempdir().unwrap() };
        // The checkout may be in a folder that other users cannot read.
        for program in programs {
            fs::copy(program.path(), user.file(program.name())).unwrap();
        }
        fs::copy(root().join(TWO_WORKERS), user.file("two-workers.toml")).unwrap();
        chown(user.folder.path(), Some(NOBODY), Some(NOBODY)).ok().or_else(|| {
            eprintln!("SKIPPED: an ordinary user's labs: only root can act as another user");
            None
        })?;
        let listed = user.lab(&["list"]);
        if listed.status.success() {
            return Some(user);
        }
        assert!(stderr(&listed).contains("a lab needs root, or a user namespace"), "{}", stderr(&listed));
        eprintln!("SKIPPED: {}", stderr(&listed));
        None
    }

    /// Returns the user's folder.
    pub fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// Returns the path of a file in the user's folder.
    pub fn file(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// Runs `tributary lab`.
    pub fn lab(&self, arguments: &[&str]) -> Output {
        self.run(TRIBUTARY, &[&["lab"], arguments].concat())
    }

    /// Runs one of the user's programs in the user's folder.
    pub fn run(&self, program: Program, arguments: &[&str]) -> Output {
        let mut command = Command::new("setpriv");
        let nobody = NOBODY.to_string();
        command.args(["--reuid", &nobody, "--regid", &nobody, "--clear-groups", "--inh-caps=-all"]);
        command.arg(self.file(program.name())).args(arguments);
        command.current_dir(self.folder.path()).env("XDG_RUNTIME_DIR", self.folder.path());
        command.env_remove("TRIBUTARY_BINARY").output().unwrap()
    }

    /// Runs `tributary lab`, which must succeed, and returns its output.
    pub fn does(&self, arguments: &[&str]) -> String {
        let output = self.lab(arguments);
        assert!(output.status.success(), "{arguments:?}: {}", stderr(&output));
        String::from_utf8(output.stdout).unwrap()
    }

    /// Returns the number of processes that hold this user's namespaces.
    pub fn holders(&self) -> usize {
        let processes = fs::read_dir("/proc").unwrap().map(|entry| entry.unwrap().path());
        let folder = self.file("tributary-lab");
        let lines = processes.map(|process| fs::read(process.join("cmdline")).unwrap_or_default());
        let mut words =
            lines.flat_map(|line| line.split(|byte| *byte == 0).map(<[u8]>::to_vec).collect::<Vec<_>>());
        words.by_ref().filter(|word| word == folder.as_os_str().as_encoded_bytes()).count()
    }
}

impl Drop for User {
    fn drop(&mut self) {
        // Usually no lab is left, so an error is ignored.
        self.lab(&["down", "theirs"]);
    }
}
