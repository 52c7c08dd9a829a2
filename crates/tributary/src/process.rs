//! The start and the end of this project's programs.

use std::process::ExitCode;

use anyhow::{Error, Result};
use clap::Parser;
use tributary_cli::output;

use crate::daemons::service::WrongUse;
use crate::lab::NoProgram;
use crate::{allocator, version};

/// The exit status for wrong use, as in clap. The status 1 means that the command failed.
const WRONG_USE: u8 = 2;

/// Starts a program: sets up its memory allocator and parses its command line.
///
/// The process ends here if the user requests help or the version, or uses the program wrongly.
pub fn start<C: Parser>() -> C {
    allocator::give_large_pieces_back();
    version::parse_or_tell_version()
}

/// Prints a program's error, if any, and returns the exit status.
pub fn end(done: Result<()>) -> ExitCode {
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            output::complain(format_args!("error: {error:#}"));
            exit_code(&error)
        }
    }
}

fn exit_code(error: &Error) -> ExitCode {
    match error.downcast_ref::<NoProgram>() {
        Some(no_program) => ExitCode::from(no_program.status()),
        None if error.is::<WrongUse>() => ExitCode::from(WRONG_USE),
        None => ExitCode::FAILURE,
    }
}
