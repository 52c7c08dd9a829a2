//! Records of labs on disk. Any process can use them to open and remove labs.

use std::fs::{self, DirBuilder, File};
use std::io;
use std::os::unix::fs::DirBuilderExt;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use crate::error::LabError;
use crate::links::Link;
use crate::station::{CONTROLLER, Station};

/// The folder that labs share with the daemons of this machine, whose sockets ordinary users must
/// reach.
const SHARED_FOLDER: &str = "/run/tributary";
/// The folder for labs only. It disappears at a reboot, like the namespaces.
const FOLDER: &str = "/run/tributary/lab";

/// A lab's record. It is written before any part of the lab is created.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Record {
    pub(crate) name: String,
    /// True if the lab is complete.
    pub(crate) complete: bool,
    pub(crate) stations: Vec<Station>,
    pub(crate) links: Vec<Link>,
    /// The value of [`LabOptions::offloads`](crate::LabOptions::offloads).
    pub(crate) offloads: bool,
}

impl Record {
    /// Returns the station with this name.
    pub(crate) fn station(&self, name: &str) -> Result<&Station, LabError> {
        self.stations.iter().find(|station| station.name == name).ok_or_else(|| {
            let nodes: Vec<_> = self
                .stations
                .iter()
                .map(|station| station.name.as_str())
                .filter(|name| *name != CONTROLLER)
                .collect();
            LabError::NoStation {
                lab: self.name.clone(),
                station: name.into(),
                known: format!("{}, and {CONTROLLER}", nodes.join(", ")),
            }
        })
    }
}

/// The records of this machine, locked by one process at a time. Labs are created and removed one after
/// the other, so that no lab is removed while it is being created. The lock is released if its process
/// dies.
#[derive(Debug)]
pub(crate) struct Records {
    _lock: File,
}

impl Records {
    /// Waits for the lock. Only root can lock the records, so that other users cannot block root.
    pub(crate) fn lock() -> Result<Self, LabError> {
        let failed = |step| {
            move |reason: io::Error| match reason.kind() {
                io::ErrorKind::PermissionDenied => LabError::NotPermitted,
                _ => LabError::Record { path: FOLDER.into(), step, reason },
            }
        };
        let mut folder = DirBuilder::new();
        folder.recursive(true);
        folder.create(SHARED_FOLDER).map_err(failed("make the folder"))?;
        folder.mode(0o700).create(FOLDER).map_err(failed("make the folder"))?;
        let folder = File::open(FOLDER).map_err(failed("open the folder"))?;
        folder.lock().map_err(failed("lock the folder"))?;
        Ok(Self { _lock: folder })
    }

    pub(crate) fn contains(&self, lab: &str) -> bool {
        path(lab).exists()
    }

    /// Writes a record atomically: a crash leaves the old record or the new one.
    pub(crate) fn save(&self, record: &Record) -> Result<(), LabError> {
        let (path, draft) = (path(&record.name), path(&record.name).with_extension("tmp"));
        let text = serde_json::to_string_pretty(record)
            .map_err(|reason| LabError::BadRecord { path: path.clone(), reason })?;
        let failed = |step, path: &PathBuf| {
            let path = path.clone();
            move |reason| LabError::Record { path, step, reason }
        };
        fs::write(&draft, text).map_err(failed("write", &draft))?;
        fs::rename(&draft, &path).map_err(failed("put in place", &path))
    }

    /// Reads a record; `None` if the lab does not exist.
    pub(crate) fn load(&self, lab: &str) -> Result<Option<Record>, LabError> {
        let path = path(lab);
        let text = match fs::read_to_string(&path) {
            Ok(text) => text,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(reason) => return Err(LabError::Record { path, step: "read", reason }),
        };
        serde_json::from_str(&text).map(Some).map_err(|reason| LabError::BadRecord { path, reason })
    }

    /// Creates the folder for files of the lab's programs.
    pub(crate) fn make_folder(&self, lab: &str) -> Result<(), LabError> {
        let path = folder(lab);
        let made = DirBuilder::new().mode(0o700).create(&path);
        made.map_err(|reason| LabError::Record { path, step: "make the folder", reason })
    }

    /// Removes the lab's folder, then its record.
    pub(crate) fn delete(&self, lab: &str) -> Result<(), LabError> {
        let folder = folder(lab);
        match fs::remove_dir_all(&folder) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            result => result.map_err(|reason| LabError::Record { path: folder, step: "remove", reason })?,
        }
        for path in [path(lab).with_extension("tmp"), path(lab)] {
            match fs::remove_file(&path) {
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                result => result.map_err(|reason| LabError::Record { path, step: "remove", reason })?,
            }
        }
        Ok(())
    }

    /// Returns the names of all labs that have a record.
    pub(crate) fn names(&self) -> Result<Vec<String>, LabError> {
        let failed = |reason| LabError::Record { path: FOLDER.into(), step: "list the folder", reason };
        let mut names = Vec::new();
        for entry in fs::read_dir(FOLDER).map_err(failed)? {
            let name = entry.map_err(failed)?.file_name();
            names.extend(name.to_str().and_then(|name| name.strip_suffix(".json")).map(str::to_owned));
        }
        Ok(names)
    }
}

/// Returns the folder for files of a lab's programs. Its name has no dot, so it differs from the name
/// of every record.
pub(crate) fn folder(lab: &str) -> PathBuf {
    PathBuf::from(FOLDER).join(lab)
}

fn path(lab: &str) -> PathBuf {
    PathBuf::from(FOLDER).join(format!("{lab}.json"))
}
