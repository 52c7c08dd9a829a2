//! The path of the program `tributary`, which runs a lab's daemons and helper processes.

use std::env;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};

use anyhow::{Context, Result, anyhow, bail};

/// The variable from which other programs read the path of `tributary`.
const VARIABLE: &str = "TRIBUTARY_BINARY";
const NAME: &str = "tributary";

/// True if this process runs `tributary`.
static IS_TRIBUTARY: AtomicBool = AtomicBool::new(false);

/// Records that this process runs `tributary`.
pub(crate) fn this_is_tributary() {
    IS_TRIBUTARY.store(true, Ordering::Relaxed);
}

/// Returns the path of the program `tributary`.
///
/// In `tributary` itself, this is the current executable. Other programs read the variable
/// `TRIBUTARY_BINARY`, or else search in their own folder.
///
/// # Errors
/// Another program does not find `tributary`.
pub fn tributary_program() -> Result<PathBuf> {
    let this = env::current_exe().context("cannot find this program")?;
    if IS_TRIBUTARY.load(Ordering::Relaxed) {
        return Ok(this);
    }
    find(env::var_os(VARIABLE).map(PathBuf::from), &this)
}

/// Returns the named program if there is a name, otherwise the one in the folder of the program `this`.
fn find(named: Option<PathBuf>, this: &Path) -> Result<PathBuf> {
    let named = named.filter(|path| !path.as_os_str().is_empty());
    if let Some(named) = named {
        // The path is absolute, because processes in a lab may run in other folders.
        return which::which(&named).map_err(|_| {
            anyhow!(
                "{VARIABLE} names {}, which is not a program: set it to the path of `{NAME}`",
                named.display()
            )
        });
    }
    let beside = this.with_file_name(NAME);
    if !beside.is_file() {
        bail!(
            "labs need the program `{NAME}`, but {} is not a program: install it there, or set {VARIABLE} to its path",
            beside.display()
        );
    }
    Ok(beside)
}

#[cfg(test)]
mod tests {
    use std::fs::{self, Permissions};
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn another_program_finds_it_by_the_variable_or_beside_itself() {
        let folder = tempfile::tempdir().unwrap();
        let (this, beside) = (folder.path().join("tributary-bench"), folder.path().join("tributary"));
        let missing = find(None, &this).unwrap_err().to_string();
        assert!(missing.contains(beside.to_str().unwrap()) && missing.contains(VARIABLE), "{missing}");
        fs::write(&beside, "").unwrap();
        assert_eq!(find(None, &this).unwrap(), beside);
        assert_eq!(find(Some(PathBuf::new()), &this).unwrap(), beside, "an empty variable is unset");
        let named = folder.path().join("tributary-0.2");
        let missing = find(Some(named.clone()), &this).unwrap_err().to_string();
        assert!(missing.contains("TRIBUTARY_BINARY names") && missing.contains("tributary-0.2"), "{missing}");
        fs::write(&named, "").unwrap();
        fs::set_permissions(&named, Permissions::from_mode(0o755)).unwrap();
        assert_eq!(find(Some(named.clone()), &this).unwrap(), named);
    }
}
