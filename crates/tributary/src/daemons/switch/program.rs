//! Loads from files the program with which a switch starts, and its table entries.

use std::path::{Path, PathBuf};

use anyhow::{Result, anyhow};
use tributary_p4runtime::P4Info;
use tributary_p4runtime::runtime_json::RuntimeJson;
use tributary_softswitch::{Loaded, PacketLog};

use crate::daemons::service::WrongUse;
use crate::files;

/// The files that the user has given.
#[derive(Debug, Default, Clone, Copy)]
pub(super) struct Files<'a> {
    pub(super) program: Option<&'a Path>,
    pub(super) p4info: Option<&'a Path>,
    pub(super) entries: Option<&'a Path>,
}

impl Files<'_> {
    /// Loads the program, and writes the entries; also returns the paths of the files that were read. The
    /// program is `None` if no file was given. It logs packets to `log`.
    ///
    /// # Errors
    /// [`WrongUse`] if some files are missing. Otherwise the error names the problem, the file and the
    /// position in it.
    pub(super) fn load(self, log: Option<&PacketLog>) -> Result<(Option<Loaded>, Vec<PathBuf>)> {
        let entries = self.entries.map(Entries::read).transpose()?;
        let named = |name: for<'e> fn(&'e RuntimeJson) -> Option<&'e str>| {
            entries.as_ref().and_then(|entries| Some(entries.beside(name(&entries.file)?)))
        };
        let program = self.program.map(Path::to_owned).or_else(|| named(RuntimeJson::bmv2_json));
        let p4info = self.p4info.map(Path::to_owned).or_else(|| named(RuntimeJson::p4info));
        let (program, p4info) = match (program, p4info) {
            (Some(program), Some(p4info)) => (program, p4info),
            (Some(_), None) => {
                return wrong("--program needs --p4info: `p4c-bm2-ss --p4runtime-files FILE` writes it");
            }
            (None, Some(_)) => return wrong("--p4info needs --program: the JSON that p4c-bm2-ss writes"),
            (None, None) if entries.is_some() => {
                return wrong(
                    "--entries needs a program: give --program and --p4info, or name them in the file",
                );
            }
            (None, None) => return Ok((None, Vec::new())),
        };
        let mut loaded = load(&program, &p4info, log)?;
        if let Some(entries) = entries {
            entries.write(&mut loaded)?;
        }
        let read = [program, p4info].into_iter().chain(self.entries.map(Path::to_owned)).collect();
        Ok((Some(loaded), read))
    }
}

fn wrong<T>(problem: &str) -> Result<T> {
    Err(WrongUse(problem.into()).into())
}

fn load(program: &Path, p4info: &Path, log: Option<&PacketLog>) -> Result<Loaded> {
    let (json, text) = (files::read(program)?, files::read_text(p4info)?);
    let info = P4Info::parse(&text).map_err(|error| anyhow!("{}: {error}", p4info.display()))?;
    let loaded = Loaded::to_log(json, info.message().clone(), log.cloned()).map_err(|refusal| {
        anyhow!("{} cannot be loaded with {}: {refusal}", program.display(), p4info.display())
    })?;
    tracing::info!(program = %program.display(), "program is loaded");
    Ok(loaded)
}

/// A file with table entries.
struct Entries<'a> {
    path: &'a Path,
    file: RuntimeJson,
}

impl<'a> Entries<'a> {
    fn read(path: &'a Path) -> Result<Self> {
        let text = files::read_text(path)?;
        let file = RuntimeJson::parse(&text).map_err(|error| anyhow!("{}: {error}", path.display()))?;
        Ok(Self { path, file })
    }

    /// Returns the path of a file that this file names. A relative path starts at the current folder if the
    /// file exists there, as in the P4 tutorials; otherwise at the folder of this file.
    fn beside(&self, name: &str) -> PathBuf {
        let here = PathBuf::from(name);
        let there = self.path.parent().map(|folder| folder.join(name)).filter(|path| path.exists());
        if here.exists() { here } else { there.unwrap_or(here) }
    }

    fn write(&self, loaded: &mut Loaded) -> Result<()> {
        let failed = |error: &dyn std::fmt::Display| anyhow!("{}: {error}", self.path.display());
        let entries = self.file.updates(loaded.p4info()).map_err(|error| failed(&error))?;
        let count = entries.len();
        for entry in entries {
            let written = loaded.write(entry.update);
            written.map_err(|refusal| failed(&format_args!("{}: {refusal}", entry.place)))?;
        }
        tracing::info!(file = %self.path.display(), entries = count, "entries are written");
        Ok(())
    }
}
