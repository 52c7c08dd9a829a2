//! The library's thread, which communicates with the agent.

use std::process;
use std::sync::OnceLock;

use tokio::runtime::{Builder, Runtime};

use crate::error::{Error, Kind};

static RUNTIME: OnceLock<Runtime> = OnceLock::new();
/// The process that has started the thread.
static OWNER: OnceLock<u32> = OnceLock::new();

/// Returns the process's runtime, which the first call starts.
///
/// # Errors
/// A thread cannot be started, or this process was forked from a process that has started the runtime.
pub(crate) fn runtime() -> Result<&'static Runtime, Error> {
    check_not_forked()?;
    if let Some(runtime) = RUNTIME.get() {
        return Ok(runtime);
    }
    let started = Builder::new_multi_thread().worker_threads(1).thread_name("tributary").enable_all().build();
    let started =
        started.map_err(|error| Error::new(Kind::Other, format!("cannot start a thread: {error}")))?;
    OWNER.get_or_init(process::id);
    Ok(RUNTIME.get_or_init(|| started))
}

/// Checks that this process was not forked, because threads do not survive a fork.
///
/// # Errors
/// This process was forked from a process that has started the runtime.
pub(crate) fn check_not_forked() -> Result<(), Error> {
    match OWNER.get() {
        Some(owner) if *owner != process::id() => Err(Error::new(
            Kind::Other,
            "this process was forked from one that takes part in a job, and cannot use its job, because threads do not \
             survive a fork: let the parent reduce, or join the job after the fork",
        )),
        _ => Ok(()),
    }
}
