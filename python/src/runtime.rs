//! The client's threads, and functions that let a Python thread wait for them.

use std::mem::ManuallyDrop;
use std::ops::Deref;
use std::process;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};
use std::thread::{self, ThreadId};
use std::time::Duration;

use pyo3::prelude::*;
use tokio::runtime::{Builder, Runtime};
use tokio::time::timeout;

use crate::error::{forked_error, thread_error};

/// The interval between two checks for Ctrl-C.
pub(crate) const SIGNALS: Duration = Duration::from_millis(100);

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

    /// Returns a reference for a thread, which a forked process does not have.
    pub(crate) fn share(&self) -> Arc<T> {
        Arc::clone(&self.0)
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

/// The thread that ends the interpreter, once it has begun to do so.
static ENDING: OnceLock<ThreadId> = OnceLock::new();
/// True once the interpreter has begun to end.
static HAS_ENDED: AtomicBool = AtomicBool::new(false);
/// The number of threads that have waited and request the interpreter's lock.
static RETURNING: AtomicUsize = AtomicUsize::new(0);

/// Notes that this thread ends the interpreter.
///
/// Returns a function that returns true while other threads may still request the interpreter's lock after a wait.
pub(crate) fn end_of_interpreter() -> impl Fn() -> bool {
    ENDING.get_or_init(|| thread::current().id());
    HAS_ENDED.store(true, Ordering::SeqCst);
    || RETURNING.load(Ordering::SeqCst) > 0
}

/// Returns true if the interpreter has begun to end.
pub(crate) fn has_ended() -> bool {
    HAS_ENDED.load(Ordering::SeqCst)
}

/// Waits without the interpreter's lock.
///
/// If the interpreter has begun to end in another thread, this never returns: an ending interpreter ends each thread
/// that requests its lock, and in Rust code this ends the process (SIGABRT).
pub(crate) fn detached<T: Send>(py: Python<'_>, wait: impl FnOnce() -> T + Send) -> T {
    let waited = py.detach(|| {
        let waited = wait();
        RETURNING.fetch_add(1, Ordering::SeqCst);
        if has_ended() && ENDING.get() != Some(&thread::current().id()) {
            RETURNING.fetch_sub(1, Ordering::SeqCst);
            loop {
                thread::park();
            }
        }
        waited
    });
    RETURNING.fetch_sub(1, Ordering::SeqCst);
    waited
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
        let done = detached(py, || runtime.block_on(async { timeout(SIGNALS, &mut next).await }));
        match done {
            Ok(done) => return Ok(done),
            Err(_) => py.check_signals()?,
        }
    }
}
