//! `tributary doctor`: says what is wrong in a running deployment, and what to do about it.

mod checks;
mod finding;
mod findings_metric;
mod report;
mod snapshot;
mod watch;

use std::net::SocketAddr;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::Result;
use clap::Args;
use tokio::runtime;
use tributary_transport::Remote;

use crate::options::remote::ControllerArgs;
use checks::Limits;
use snapshot::Snapshot;

/// Exit status: something is wrong.
const FINDINGS: u8 = 1;
/// Exit status: the controller cannot be asked.
const CANNOT_ASK: u8 = 2;

/// Looks at a running deployment, and says what is wrong and what to do
///
/// Exit status: 0 where nothing is wrong, 1 where something is, 2 where the controller cannot be asked.
#[derive(Debug, Args)]
pub(crate) struct DoctorArgs {
    #[command(flatten)]
    controller: ControllerArgs,

    /// Keep looking until interrupted, and report what is new and what is mended
    #[arg(long)]
    watch: bool,

    /// Seconds between two looks with --watch
    #[arg(long, value_name = "SECONDS", default_value_t = 2, value_parser = clap::value_parser!(u64).range(1..))]
    interval: u64,

    /// Address that Prometheus finds the findings at, under /metrics, with --watch [default: none]
    #[arg(long, value_name = "ADDR:PORT", requires = "watch")]
    metrics: Option<SocketAddr>,

    /// How long a job may wait, for members or for results, before that is wrong
    #[arg(long, value_name = "SECONDS", default_value_t = 30)]
    patience: u64,

    /// How long before it expires a certificate should be renewed
    #[arg(long, value_name = "DAYS", default_value_t = 14)]
    expiry: u32,

    /// Print JSON objects, one a line, instead of tables
    #[arg(long)]
    json: bool,
}

impl DoctorArgs {
    fn limits(&self) -> Limits {
        Limits {
            patience: Duration::from_secs(self.patience),
            expiry: Duration::from_secs(24 * 3600 * u64::from(self.expiry)),
        }
    }
}

/// Looks and reports; the exit status says whether anything is wrong.
pub(crate) fn run(args: &DoctorArgs) -> ExitCode {
    look_and_tell(args).unwrap_or_else(|error| {
        eprintln!("error: {error:#}");
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

/// One look at everything.
async fn look(args: &DoctorArgs, remote: &Remote) -> Result<Vec<finding::Finding>> {
    Ok(checks::all(&Snapshot::take(remote).await?, &args.limits()))
}
