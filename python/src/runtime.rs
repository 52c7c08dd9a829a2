//! The threads in which the client works, and how a Python thread waits for them.

use std::sync::OnceLock;
use std::time::Duration;

use pyo3::exceptions::PyRuntimeError;
use pyo3::prelude::*;
use tokio::runtime::{Builder, Runtime};
use tokio::time::timeout;

/// Between two looks at whether somebody has pressed Ctrl-C.
const SIGNALS: Duration = Duration::from_millis(100);

/// The process's own, started by its first use.
///
/// # Errors
/// No thread can be started.
pub(crate) fn runtime() -> PyResult<&'static Runtime> {
    static RUNTIME: OnceLock<Runtime> = OnceLock::new();
    if let Some(runtime) = RUNTIME.get() {
        return Ok(runtime);
    }
    // All that is done there is talking to the agent.
    let started = Builder::new_multi_thread().worker_threads(1).thread_name("tributary").enable_all().build();
    let started =
        started.map_err(|error| PyRuntimeError::new_err(format!("cannot start a thread: {error}")))?;
    Ok(RUNTIME.get_or_init(|| started))
}

/// Waits for something without the interpreter's lock, until it is there or a signal's handler raises.
///
/// # Errors
/// What the handler raises, such as `KeyboardInterrupt`: the work is dropped then.
pub(crate) fn wait<T: Send>(py: Python<'_>, work: impl Future<Output = T> + Send) -> PyResult<T> {
    let runtime = runtime()?;
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
