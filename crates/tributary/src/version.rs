//! `tributary --version`: the version of the source, and the compiled P4 programs that the binary
//! contains.

use std::sync::LazyLock;

use clap::Parser;
use clap::error::ErrorKind;
use git_version::git_version;
use tributary_cli::output;
use tributary_controller::{BuiltInPipeline, built_in_pipelines};

use crate::command_line;

/// The version, and the commit from which the program was compiled.
pub static VERSION: LazyLock<String> = LazyLock::new(|| {
    let commit = git_version!(args = ["--always", "--dirty=+changes", "--abbrev=12"], fallback = "no commit");
    format!("{} ({commit})", env!("CARGO_PKG_VERSION"))
});

/// Parses the command line; if the user requests the version, prints the version and exits.
pub(crate) fn parse_or_tell_version<T: Parser>() -> T {
    command_line::parse(std::env::args_os()).unwrap_or_else(|answer| {
        if answer.kind() == ErrorKind::DisplayVersion {
            let told = output::print(format_args!("{answer}{}", pipelines().trim_end()));
            std::process::exit(told.is_err().into());
        }
        answer.exit()
    })
}

fn pipelines() -> String {
    let line = |BuiltInPipeline { width, slots, cookie }: &BuiltInPipeline| {
        format!("P4 program {cookie:016x}: slices of {} values, {slots} slots\n", width.values())
    };
    match built_in_pipelines() {
        Ok(pipelines) => pipelines.iter().map(line).collect(),
        Err(error) => format!("{error}\n"),
    }
}
