//! The client's threads, and functions that let a Python thread wait for them.

use std::mem::ManuallyDrop;
use std::ops::Deref;
use std::process;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use pyo3::prelude::*;
use tokio::runtime::{Builder, Runtime};
use tokio::time::timeout;

use crate::error::{forked_error, thread_error};

/// The interval between two checks for Ctrl-C.
const SIGNALS: Duration = Duration::from_millis(100);

/// The id of the process that owns the threads.
static OWNER: OnceLock<u32> = OnceLock::new();

/// Returns true if this process was forked from the owner of the threads.
/// A forked process has none of the threads.
fn is_forked() -> bool {
    OWNER.get().is_some_and(|owner| *owner != process::id())
}

/// Checks that this process was not forked.
///
/// # Errors
/// This process was forked, so that its results would never arrive.
pub(crate) fn check_not_forked(py: Python<'_>) -> PyResult<()> {
    if is_forked() { Err(forked_error(py)) } else { Ok(()) }
}

/// A value that is dropped with its last reference, except in a forked process.
///
/// In a forked process, the value belongs to the parent. Dropping it would wait for threads and locks that do
/// not exist in the child.
#[derive(Debug)]
pub(crate) struct Owned<T>(Arc<T>);

impl<T> Owned<T> {
    pub(crate) fn new(value: T) -> Self {
        Self(Arc::new(value))
    }
}

impl<T> Deref for Owned<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.0
    }
}

impl<T> Drop for Owned<T> {
    fn drop(&mut self) {
        if is_forked() {
            // Keep an extra reference permanently, so that the value is never dropped.
            let _ = ManuallyDrop::new(Arc::clone(&self.0));
        }
    }
}

/// Returns the process's runtime, which the first call starts.
///
/// # Errors
/// A thread cannot be started, or this process was forked from a process that has started the runtime.
pub(crate) fn runtime(py: Python<'_>) -> PyResult<&'static Runtime> {
    static RUNTIME: OnceLock<Runtime> = OnceLock::new();
    check_not_forked(py)?;
    if let Some(runtime) = RUNTIME.get() {
        return Ok(runtime);
    }
    // One thread is enough, because it only communicates with the agent.
    let started = Builder::new_multi_thread().worker_threads(1).thread_name("tributary").enable_all().build();
    let started = started.map_err(|error| thread_error(&error))?;
    OWNER.get_or_init(process::id);
    Ok(RUNTIME.get_or_init(|| started))
}

/// Waits for `work` without the interpreter's lock, until it is done or a signal handler raises.
///
/// # Errors
/// The handler's exception, such as `KeyboardInterrupt`. `work` is dropped in this case.
pub(crate) fn wait<T: Send>(py: Python<'_>, work: impl Future<Output = T> + Send) -> PyResult<T> {
    let runtime = runtime(py)?;
    let mut work = std::pin::pin!(work);
    loop {
        let mut next = work.as_mut();
        let done = py.detach(|| runtime.block_on(async { timeout(SIGNALS, &mut next).await }));
        match done {
            Ok(done) => return Ok(done),
            Err(_) => py.check_signals()?,
        }
    }
}
