//! `tributary lab exec`: runs a command at one node of a lab.

use std::ffi::OsString;
use std::os::unix::process::CommandExt;

use anyhow::{Context, Error, Result};
use clap::Args;

use crate::lab::operations::{StationArgs, station};
use crate::lab::{Record, workers};

#[derive(Debug, Args)]
pub(super) struct ExecArgs {
    #[command(flatten)]
    station: StationArgs,

    /// Command to run at the node
    #[arg(last = true, required = true, value_name = "COMMAND")]
    command: Vec<OsString>,
}

/// Replaces this process by the command. The command uses this process's standard streams, receives its
/// signals, and determines its exit status.
///
/// # Errors
/// The lab, the node or the program ([`NoProgram`](crate::lab::NoProgram)) does not exist, or `ip` is
/// not installed.
pub(super) fn run(args: &ExecArgs) -> Result<()> {
    let lab = args.station.lab.open()?;
    let record = Record::load(&lab)?;
    let node = station(&lab, &args.station.node);
    let (program, arguments) = args.command.split_first().context("no command")?;
    let mut command = workers::command_at(&lab, &record, node, program)?;
    let error = command.args(arguments).exec();
    Err(Error::new(error).context(format!("cannot enter {node} by `ip netns exec`")))
}
