//! Writes text on a separate thread, so that a slow reader does not block the threads that log.

use std::fmt;
use std::io::{self, Write};
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use parking_lot::{Condvar, Mutex, MutexGuard};

/// The most text that waits to be written.
const ROOM: usize = 4 << 20;
/// Bytes of it that are written at once.
const PIECE: usize = 64 << 10;
/// Time for which the end waits until something more is written.
const PATIENCE: Duration = Duration::from_secs(1);

/// The end that text goes in at.
pub(super) struct Outlet {
    shared: Arc<Shared>,
    /// Formats the note that replaces the given number of dropped texts.
    lost: fn(u64) -> String,
}

#[derive(Default)]
struct Shared {
    waiting: Mutex<Waiting>,
    changed: Condvar,
}

#[derive(Default)]
struct Waiting {
    text: String,
    /// Number of texts that did not fit since then.
    lost: u64,
    /// The writer has all text, and still writes.
    writing: bool,
    /// Number of pieces that were written.
    written: u64,
    /// There will be no more text.
    ending: bool,
    /// Nothing can be written any more.
    broken: bool,
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, Waiting> {
        self.waiting.lock()
    }
}

impl fmt::Debug for Outlet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Outlet").finish_non_exhaustive()
    }
}

impl Outlet {
    /// Starts the thread. `lost` formats the note that replaces the given number of dropped texts.
    pub(super) fn start(to: impl Write + Send + 'static, lost: fn(u64) -> String) -> io::Result<Self> {
        let shared = Arc::new(Shared::default());
        let writer = shared.clone();
        thread::Builder::new().name("packet log".to_owned()).spawn(move || write(&writer, to))?;
        Ok(Self { shared, lost })
    }

    /// Queues text for the thread, or drops the text if the queue is full.
    pub(super) fn write(&self, text: &str) {
        let mut waiting = self.shared.lock();
        if waiting.broken {
            return;
        }
        if waiting.text.len() + text.len() > ROOM {
            waiting.lost += 1;
            return;
        }
        self.tell_lost(&mut waiting);
        waiting.text.push_str(text);
        self.shared.changed.notify_all();
    }

    fn tell_lost(&self, waiting: &mut Waiting) {
        if waiting.lost > 0 {
            let lost = std::mem::take(&mut waiting.lost);
            waiting.text.push_str(&(self.lost)(lost));
        }
    }

    /// Waits while the thread makes progress until all text is written.
    /// Returns true if all text is written, or if writing has failed and the text can never be written.
    pub(super) fn flush(&self) -> bool {
        let mut waiting = self.shared.lock();
        self.tell_lost(&mut waiting);
        self.shared.changed.notify_all();
        let unwritten =
            |waiting: &mut Waiting| !waiting.broken && (waiting.writing || !waiting.text.is_empty());
        while unwritten(&mut waiting) {
            let before = waiting.written;
            let no_more = |waiting: &mut Waiting| unwritten(waiting) && waiting.written == before;
            // The reader has stopped draining the output.
            if self.shared.changed.wait_while_for(&mut waiting, no_more, PATIENCE).timed_out() {
                return false;
            }
        }
        true
    }
}

impl Drop for Outlet {
    fn drop(&mut self) {
        self.flush();
        self.shared.lock().ending = true;
        self.shared.changed.notify_all();
    }
}

/// The body of the thread.
fn write(shared: &Shared, mut to: impl Write) {
    let mut text = String::new();
    loop {
        let idle = |waiting: &mut Waiting| waiting.text.is_empty() && !waiting.ending;
        let mut waiting = shared.lock();
        shared.changed.wait_while(&mut waiting, idle);
        if waiting.text.is_empty() {
            return;
        }
        // Two strings take turns, so that their memory is kept.
        std::mem::swap(&mut text, &mut waiting.text);
        waiting.writing = true;
        drop(waiting);
        let written = text.as_bytes().chunks(PIECE).try_for_each(|piece| {
            to.write_all(piece)?;
            shared.lock().written += 1;
            shared.changed.notify_all();
            Ok(())
        });
        let written = written.and_then(|()| to.flush());
        text.clear();
        let mut waiting = shared.lock();
        waiting.writing = false;
        waiting.broken = written.is_err();
        shared.changed.notify_all();
        if let Err(error) = written {
            tracing::warn!(%error, "packets are no longer logged: what read the log is gone");
            return;
        }
    }
}
