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
            command.push_str(&quoted(&word));
        }
        Err(WrongUse(format!("`tributary {old}` is now a program of its own: run `{command}`")).into())
    }
}

/// The word as a shell reads it.
fn quoted(word: &str) -> String {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_./:=,@%+".contains(&byte);
    match !word.is_empty() && word.bytes().all(is_plain) {
        true => word.to_owned(),
        false => format!("'{}'", word.replace('\'', r"'\''")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_new_command_line_can_be_given_to_a_shell() {
        let arguments = ["my file.toml", "--name", "a$b;rm", "it's", "", "50mbit"].map(Into::into).to_vec();
        let refused = MovedArgs { arguments }.refuse("lab chaos", &["chaos"]).unwrap_err().to_string();
        let command = r"`tributary-bench chaos 'my file.toml' --name 'a$b;rm' 'it'\''s' '' 50mbit`";
        assert!(refused.ends_with(command), "{refused}");
    }
}
