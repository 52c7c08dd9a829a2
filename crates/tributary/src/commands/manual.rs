//! `tributary completions` and `tributary man`: completion scripts for shells, and man pages.

use std::fs;
use std::path::PathBuf;

use anyhow::{Context, Result};
use clap::{Args, Command};
use clap_complete::Shell;

/// Prints a shell's completions of this command
///
/// For bash: `tributary completions bash > ~/.local/share/bash-completion/completions/tributary`. For fish:
/// `tributary completions fish > ~/.config/fish/completions/tributary.fish`. For zsh: into a file `_tributary` in a
/// folder of $fpath.
#[derive(Debug, Args)]
pub(crate) struct CompletionsArgs {
    /// The shell
    #[arg(value_enum)]
    shell: Shell,
}

/// Writes a manual page of each command
#[derive(Debug, Args)]
pub(crate) struct ManArgs {
    /// Folder for the pages, tributary.1 and others; it is created if necessary
    #[arg(value_name = "DIR")]
    folder: PathBuf,
}

/// Prints the completions of `command`.
///
/// # Errors
/// Standard output cannot be written to.
pub(crate) fn print_completions(args: &CompletionsArgs, mut command: Command) -> Result<()> {
    let name = command.get_name().to_owned();
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut command, name, &mut script);
    tributary_cli::output::print(String::from_utf8_lossy(&script).trim_end())
}

/// Writes the pages of `command` and of all its subcommands, except hidden ones.
///
/// # Errors
/// A file cannot be written.
pub(crate) fn write_pages(args: &ManArgs, command: Command) -> Result<()> {
    let failed = || format!("cannot write manual pages to {}", args.folder.display());
    fs::create_dir_all(&args.folder).with_context(failed)?;
    clap_mangen::generate_to(command, &args.folder).with_context(failed)
}
