//! Commands that have moved to the program `tributary-bench`.

use std::ffi::OsString;

use anyhow::Result;
use clap::Args;

use crate::daemons::service::WrongUse;

/// The arguments of a command that has moved, for the error that repeats them.
#[derive(Debug, Args)]
pub(crate) struct MovedArgs {
    #[arg(value_name = "ARGUMENT", trailing_var_arg = true, allow_hyphen_values = true)]
    arguments: Vec<OsString>,
}

impl MovedArgs {
    /// Refuses `tributary OLD …`, which is now `tributary-bench NEW …`.
    ///
    /// # Errors
    /// Always [`WrongUse`], with the new command line.
    pub(crate) fn refuse(&self, old: &str, new: &[&str]) -> Result<()> {
        let mut command = "tributary-bench".to_owned();
        let given = self.arguments.iter().map(|argument| argument.to_string_lossy());
        for word in new.iter().map(|word| (*word).into()).chain(given) {
            command.push(' ');
            command.push_str(&word);
        }
        Err(WrongUse(format!("`tributary {old}` is now a program of its own: run `{command}`")).into())
    }
}
