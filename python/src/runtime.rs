//! The threads in which the client works, and how a Python thread waits for them.

use std::mem::ManuallyDrop;
use std::ops::Deref;
use std::process;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use pyo3::exceptions::PyRuntimeError;
use pyo3::prelude::*;
use tokio::runtime::{Builder, Runtime};
use tokio::time::timeout;

use crate::error::forked_error;

/// Between two looks at whether somebody has pressed Ctrl-C.
const SIGNALS: Duration = Duration::from_millis(100);

/// The process whose threads these are.
static OWNER: OnceLock<u32> = OnceLock::new();

/// Whether this process was forked from the one whose threads these are: it has none of them.
fn is_forked() -> bool {
    OWNER.get().is_some_and(|owner| *owner != process::id())
}

/// # Errors
/// This process was forked, and whatever it asked for would never come.
pub(crate) fn check_not_forked(py: Python<'_>) -> PyResult<()> {
    if is_forked() { Err(forked_error(py)) } else { Ok(()) }
}

/// What ends with its last reference, but not in a process that was forked: it is the parent's, and its end would wait for
/// threads and locks that are not there.
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
            // A reference that never goes.
            let _ = ManuallyDrop::new(Arc::clone(&self.0));
        }
    }
}

/// The process's own, started by its first use.
///
/// # Errors
/// No thread can be started, or this process was forked from one that has started them.
pub(crate) fn runtime(py: Python<'_>) -> PyResult<&'static Runtime> {
    static RUNTIME: OnceLock<Runtime> = OnceLock::new();
    check_not_forked(py)?;
    if let Some(runtime) = RUNTIME.get() {
        return Ok(runtime);
    }
    // All that is done there is talking to the agent.
    let started = Builder::new_multi_thread().worker_threads(1).thread_name("tributary").enable_all().build();
    let started =
        started.map_err(|error| PyRuntimeError::new_err(format!("cannot start a thread: {error}")))?;
    OWNER.get_or_init(process::id);
    Ok(RUNTIME.get_or_init(|| started))
}

/// Waits for something without the interpreter's lock, until it is there or a signal's handler raises.
///
/// # Errors
/// What the handler raises, such as `KeyboardInterrupt`: the work is dropped then.
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
