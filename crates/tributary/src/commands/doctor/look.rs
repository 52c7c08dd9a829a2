//! One check of a deployment, and its options.

use std::net::SocketAddr;
use std::time::Duration;

use anyhow::Result;
use clap::Args;
use tributary_transport::Remote;

use super::checks::{self, Limits};
use super::finding::Finding;
use super::snapshot::Snapshot;
use crate::options::remote::ControllerArgs;

/// Checks a running deployment, and reports problems with instructions
///
/// Exit status: 0 without problems, 1 if something is wrong, 2 if the controller does not answer.
#[derive(Debug, Args)]
pub(crate) struct DoctorArgs {
    #[command(flatten)]
    pub(super) controller: ControllerArgs,

    /// Repeat the checks until interrupted, and report new and resolved findings
    #[arg(long)]
    pub(super) watch: bool,

    /// Seconds between two checks with --watch
    #[arg(long, value_name = "SECONDS", default_value_t = 2, value_parser = clap::value_parser!(u64).range(1..))]
    pub(super) interval: u64,

    /// Address at which Prometheus reads the findings, under /metrics, with --watch [default: none]
    #[arg(long, value_name = "ADDR:PORT", requires = "watch")]
    pub(super) metrics: Option<SocketAddr>,

    /// Time for which a job may wait for members or results before the doctor reports it
    #[arg(long, value_name = "SECONDS", default_value_t = 30)]
    patience: u64,

    /// Time before its expiry at which a certificate should be renewed
    #[arg(long, value_name = "DAYS", default_value_t = 14)]
    expiry: u32,

    /// Print JSON objects, one a line, instead of tables
    #[arg(long)]
    pub(super) json: bool,
}

impl DoctorArgs {
    fn limits(&self) -> Limits {
        Limits {
            patience: Duration::from_secs(self.patience),
            expiry: Duration::from_secs(24 * 3600 * u64::from(self.expiry)),
        }
    }
}

/// Takes a snapshot, and returns the findings of all checks.
pub(super) async fn look(args: &DoctorArgs, remote: &Remote) -> Result<Vec<Finding>> {
    Ok(checks::all(&Snapshot::take(remote).await?, &args.limits()))
}
