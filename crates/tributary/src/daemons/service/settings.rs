//! Settings from options and from a settings file.

use std::env;
use std::fmt;
use std::path::{Path, PathBuf};

use anyhow::{Result, anyhow};
use clap::Args;
use serde::Serialize;
use serde::de::DeserializeOwned;
use toml::Table;

use crate::files;

/// The error of a wrongly used command; its exit status is 2.
#[derive(Debug)]
pub struct WrongUse(pub String);

impl fmt::Display for WrongUse {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for WrongUse {}

/// Options of a daemon that can also come from a settings file.
///
/// A group of options is one struct with serde's derives. A struct that contains several groups splits
/// the file's keys: each group gets its own keys, and the last group gets the rest. Before that,
/// [`SettingsFile::check_keys`] has refused keys that belong to no group.
pub(crate) trait DaemonSettings: Args {
    /// Returns the file's settings, overridden by the given options.
    ///
    /// # Errors
    /// [`WrongUse`]: the file has an unknown key, or a value of the wrong type.
    fn merge(&self, file: SettingsFile) -> Result<Self>;
}

impl<S: Args + Serialize + DeserializeOwned> DaemonSettings for S {
    fn merge(&self, file: SettingsFile) -> Result<Self> {
        let path = file.path.as_deref().unwrap_or(Path::new("")).display().to_string();
        let before = file.table.clone();
        let merged = file.overridden_by(self)?;
        for (key, variable) in
            overridden::<S>(&before, &Table::try_from(&merged)?, |name| env::var(name).ok())
        {
            tracing::warn!(
                "{variable} in the environment overrides {key} in {path}: unset it if this is not intended"
            );
        }
        Ok(merged)
    }
}

/// Returns the keys of a settings file that environment variables have overridden, each with its
/// variable.
fn overridden<A: Args>(
    file: &Table,
    merged: &Table,
    environment: impl Fn(&str) -> Option<String>,
) -> Vec<(String, String)> {
    let options = A::augment_args(clap::Command::new(""));
    let is_overridden = |option: &clap::Arg| {
        let (key, variable) = (option.get_long()?.to_owned(), option.get_env()?.to_str()?.to_owned());
        let (given, used) = (file.get(&key)?, merged.get(&key)?);
        // A value on the command line overrides both. The user expects that, so it is not reported.
        (given != used && used.as_str() == environment(&variable).as_deref()).then_some((key, variable))
    };
    options.get_arguments().filter_map(is_overridden).collect()
}

/// The content of a settings file; empty if the daemon was started without a file.
#[derive(Debug, Default)]
pub(crate) struct SettingsFile {
    path: Option<PathBuf>,
    table: Table,
}

impl SettingsFile {
    /// Reads a settings file.
    ///
    /// # Errors
    /// The file cannot be read, or is not TOML; the error names the line.
    pub(crate) fn load(path: &Path) -> Result<Self> {
        let text = files::read_text(path)?;
        let table = text.parse().map_err(|error| anyhow!("{}: {error}", path.display()))?;
        Ok(Self { path: Some(path.into()), table })
    }

    /// Checks that each key is one of `keys`, which are the keys of all groups of options. A single group
    /// knows only its own keys.
    ///
    /// # Errors
    /// [`WrongUse`] names the unknown key, and the known keys.
    pub(crate) fn check_keys(&self, keys: &[String]) -> Result<()> {
        match self.table.keys().find(|key| !keys.contains(key)) {
            None => Ok(()),
            Some(unknown) => {
                Err(self.wrong(&format!("unknown key `{unknown}`: the keys are {}", keys.join(", "))))
            }
        }
    }

    /// Splits the keys of `A` from the other keys. Each option is a key with the same name.
    pub(crate) fn split<A: Args>(self) -> (Self, Self) {
        let options = A::augment_args(clap::Command::new(""));
        let is_of_a = |key: &str| options.get_arguments().any(|option| option.get_long() == Some(key));
        let (part, rest) = self.table.into_iter().partition(|(key, _)| is_of_a(key));
        (Self { path: self.path.clone(), table: part }, Self { path: self.path, table: rest })
    }

    /// Returns the file's settings, overridden by the given options.
    ///
    /// # Errors
    /// [`WrongUse`]: the file has a key that `S` does not have, or a value of the wrong type.
    fn overridden_by<S: Serialize + DeserializeOwned>(self, options: &S) -> Result<S> {
        // The file is first converted without the options, so that an error is found even if an option
        // overrides the value.
        let _: S = self.table.clone().try_into().map_err(|error| self.wrong(&in_words(&error)))?;
        let mut table = self.table.clone();
        table.extend(Table::try_from(options)?);
        table.try_into().map_err(|error| self.wrong(&in_words(&error)))
    }

    fn wrong(&self, problem: &str) -> anyhow::Error {
        match &self.path {
            Some(path) => WrongUse(format!("{}: {problem}", path.display())).into(),
            None => WrongUse(problem.to_owned()).into(),
        }
    }
}

/// Describes an error in a file.
///
/// The message gives a number's range instead of its type, which serde names as in "expected u16".
pub(crate) fn in_words(error: &toml::de::Error) -> String {
    let types = [
        ("u16", format!(" to {}", u16::MAX)),
        ("u32", format!(" to {}", u32::MAX)),
        ("u64", " on".to_owned()),
        ("usize", " on".to_owned()),
    ];
    let mut words = error.to_string().trim().to_owned();
    for (name, most) in types {
        words = words
            .replace(&format!("expected a nonzero {name}"), &format!("expected a whole number from 1{most}"))
            .replace(&format!("expected {name}"), &format!("expected a whole number from 0{most}"));
    }
    words
}

#[cfg(test)]
mod tests {
    use std::fs;

    use serde::Deserialize;

    use super::*;

    #[derive(Debug, Default, PartialEq, Serialize, Deserialize)]
    #[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
    struct ExampleSettings {
        device_id: Option<u64>,
        name: Option<String>,
        #[serde(skip_serializing_if = "Vec::is_empty")]
        port: Vec<String>,
    }

    fn file(text: &str) -> SettingsFile {
        SettingsFile { path: Some("switch.toml".into()), table: text.parse().unwrap() }
    }

    #[test]
    fn options_win_over_the_file_and_the_file_over_nothing() {
        let text = "device-id = 7\nname = \"root\"\nport = [\"1=a\", \"2=b\"]";
        let none = ExampleSettings::default();
        let from_file = file(text).overridden_by(&none).unwrap();
        let ports = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>();
        let expected =
            ExampleSettings { device_id: Some(7), name: Some("root".into()), port: ports(&["1=a", "2=b"]) };
        assert_eq!(from_file, expected);
        let options = ExampleSettings { device_id: Some(8), name: None, port: ports(&["3=c"]) };
        let merged = file(text).overridden_by(&options).unwrap();
        assert_eq!(merged, ExampleSettings { name: Some("root".into()), ..options });
        assert_eq!(SettingsFile::default().overridden_by(&expected).unwrap(), expected);
    }

    #[test]
    fn unknown_keys_and_wrong_kinds_are_refused_with_the_file() {
        let wrong = |text: &str| {
            let error = file(text)
                .overridden_by(&ExampleSettings { device_id: Some(1), ..ExampleSettings::default() });
            let error = error.unwrap_err();
            assert!(error.is::<WrongUse>());
            error.to_string()
        };
        let unknown = wrong("devise-id = 7");
        assert!(unknown.contains("switch.toml") && unknown.contains("devise-id"), "{unknown}");
        let kind = wrong("device-id = \"seven\"");
        assert!(kind.contains("device-id"), "an option hides what is wrong in the file: {kind}");
        let range = wrong("device-id = -1");
        assert!(range.contains("expected a whole number from 0 on") && !range.contains("u64"), "{range}");
    }

    #[test]
    fn what_is_not_toml_is_refused_with_its_line() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("bad.toml");
        fs::write(&path, "name = \"a\"\nport = [").unwrap();
        let error = SettingsFile::load(&path).unwrap_err().to_string();
        assert!(error.contains("bad.toml") && error.contains("line 2"), "{error}");
        assert!(SettingsFile::load(&folder.path().join("none.toml")).is_err());
    }

    #[test]
    fn keys_that_all_daemons_have_are_taken_out() {
        #[derive(Args)]
        struct SharedArgs {
            #[arg(long)]
            log_format: Option<String>,
        }
        let (shared, own) = file("log-format = \"json\"\nname = \"root\"").split::<SharedArgs>();
        assert_eq!(shared.table.len(), 1);
        assert_eq!(own.overridden_by(&ExampleSettings::default()).unwrap().name.as_deref(), Some("root"));
    }
}
