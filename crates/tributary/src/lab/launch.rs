//! A daemon's command, recorded so that the daemon can be started again in the same way.

use std::collections::BTreeMap;
use std::env;
use std::ffi::OsStr;
use std::net::SocketAddrV4;
use std::process::Command;

use anyhow::{Context, Result};
use serde::{Deserialize, Serialize};

/// Prefixes of the variables that a daemon may depend on.
const VARIABLES: [&str; 4] = ["PATH", "LD_", "RUST_", "TRIBUTARY_"];

/// A daemon's command line and environment.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Launch {
    /// The program, which enters the station's namespace, and its arguments.
    command: Vec<String>,
    /// All environment variables on which the daemon may depend.
    environment: BTreeMap<String, String>,
    ready: Ready,
}

/// The sign that shows that a daemon is ready.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Ready {
    /// The daemon sends systemd's notification.
    Notifies,
    /// The daemon accepts connections at this address.
    TakesConnections(SocketAddrV4),
}

impl Launch {
    /// Records `command`, with the environment of this process.
    ///
    /// # Errors
    /// The command or a variable is not UTF-8.
    pub(super) fn of(command: &Command, ready: Ready) -> Result<Self> {
        let text = |part: &OsStr| {
            part.to_str().map(str::to_owned).with_context(|| format!("{} is not UTF-8", part.display()))
        };
        let words = std::iter::once(command.get_program()).chain(command.get_args());
        let own = env::vars_os()
            .filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?)));
        let mut environment: BTreeMap<_, _> = own.filter(|(name, _)| is_relevant(name)).collect();
        for (name, value) in command.get_envs() {
            let name = text(name)?;
            match value {
                Some(value) => environment.insert(name, text(value)?),
                None => environment.remove(&name),
            };
        }
        Ok(Self { command: words.map(text).collect::<Result<_>>()?, environment, ready })
    }

    /// Returns the recorded command. It does not depend on the variables of this process.
    pub(super) fn command(&self) -> Command {
        let (program, arguments) = self
            .command
            .split_first()
            .map_or(("", &[][..]), |(program, arguments)| (program.as_str(), arguments));
        let mut command = Command::new(program);
        command.args(arguments);
        for (name, _) in env::vars_os() {
            if name.to_str().is_some_and(is_relevant) {
                command.env_remove(name);
            }
        }
        command.envs(&self.environment);
        command
    }

    /// Returns the sign that shows that the daemon is ready.
    pub(super) fn ready(&self) -> Ready {
        self.ready
    }
}

fn is_relevant(variable: &str) -> bool {
    VARIABLES.iter().any(|prefix| variable.starts_with(prefix))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_comes_back_as_it_was() {
        let mut command = Command::new("ip");
        command.args(["netns", "exec", "a", "tributary", "switch", "--name", "a b"]);
        command.env("TRIBUTARY_LAB", "lab").env_remove("PATH");
        let launch = Launch::of(&command, Ready::Notifies).unwrap();
        let text = serde_json::to_string(&launch).unwrap();
        let again: Launch = serde_json::from_str(&text).unwrap();
        assert_eq!(again, launch);
        let rebuilt = again.command();
        assert_eq!(rebuilt.get_program(), command.get_program());
        assert!(rebuilt.get_args().eq(command.get_args()));
        let variable = |name: &str| rebuilt.get_envs().find(|(found, _)| *found == name);
        assert_eq!(variable("TRIBUTARY_LAB"), Some((OsStr::new("TRIBUTARY_LAB"), Some(OsStr::new("lab")))));
        assert_eq!(variable("PATH"), Some((OsStr::new("PATH"), None)), "nor this process's");
    }
}
