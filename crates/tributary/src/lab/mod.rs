//! A complete fabric on this machine, with each node in a separate network namespace. Used by
//! `tributary lab` and by measurements.

mod background;
mod bring_up;
pub(crate) mod executable;
pub mod job;
mod launch;
pub mod operations;
pub(crate) mod page;
mod program;
mod record;
mod rights;
pub(crate) mod workers;

use anyhow::anyhow;

pub use background::log_file;
pub use bring_up::{FabricArgs, up as up_fabric, up_with_page};
pub use executable::tributary_program;
pub use job::{explain, restart as restart_job, schedule as job_schedule, switches};
pub use operations::slow as slow_station;
pub use page::PagePlace;
pub(crate) use program::NoProgram;
pub(crate) use record::DaemonState;
pub use record::{Record, Worker};
pub(crate) use rights::hold_namespaces;
pub use rights::rights;
pub use workers::{threads_of_a_rank, worker_command};

/// The default name of a lab.
pub(crate) const DEFAULT_NAME: &str = "lab";

/// Returns the error of a command that a signal has stopped.
pub fn interrupted() -> anyhow::Error {
    anyhow!("stopped by a signal")
}

/// Returns a message about a lab in which a daemon has ended, with instructions.
pub(crate) fn broken(name: &str, ended: &[String]) -> String {
    format!(
        "broken: the daemon of {} has ended, see its log; start it again with `tributary lab start{} {}`, or remove \
         the lab with `tributary lab down {name}`, and make it again",
        ended.join(", "),
        name_option(name),
        ended.first().map_or("NODE", String::as_str),
    )
}

/// Returns the `--name` option that selects this lab in a command; empty for the default name.
pub(crate) fn name_option(name: &str) -> String {
    if name == DEFAULT_NAME { String::new() } else { format!(" --name {name}") }
}
