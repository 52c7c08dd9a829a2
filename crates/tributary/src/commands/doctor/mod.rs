//! `tributary doctor`: finds problems in a running deployment, and gives instructions to fix them.

mod checks;
mod finding;
mod findings_metric;
mod look;
mod report;
mod snapshot;
mod watch;

use std::process::ExitCode;

use anyhow::Result;
use tokio::runtime;
use tributary_cli::output;

pub(crate) use look::DoctorArgs;
use look::look;

/// The exit status if there are findings.
const FINDINGS: u8 = 1;
/// The exit status if the controller does not answer.
const CANNOT_ASK: u8 = 2;

/// Checks the deployment and reports the findings. The exit status shows if there are any.
pub(crate) fn run(args: &DoctorArgs) -> ExitCode {
    look_and_tell(args).unwrap_or_else(|error| {
        output::complain(format_args!("error: {error:#}"));
        ExitCode::from(CANNOT_ASK)
    })
}

fn look_and_tell(args: &DoctorArgs) -> Result<ExitCode> {
    let remote = args.controller.remote()?;
    let runtime = runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        if args.watch {
            watch::watch(args, &remote).await?;
            return Ok(ExitCode::SUCCESS);
        }
        let findings = look(args, &remote).await?;
        report::print(&findings, args.json)?;
        Ok(if findings.is_empty() { ExitCode::SUCCESS } else { ExitCode::from(FINDINGS) })
    })
}
