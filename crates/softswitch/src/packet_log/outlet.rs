//! Writes text on a separate thread, so that a slow reader does not block the threads that log.

use std::fmt;
use std::io::{self, Write};
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use parking_lot::{Condvar, Mutex, MutexGuard};

/// The maximum number of bytes that wait to be written.
const ROOM: usize = 4 << 20;
/// The number of bytes that are written at once.
const PIECE: usize = 64 << 10;
/// Time for which a flush waits for progress of the writer.
const PATIENCE: Duration = Duration::from_secs(1);

/// The sending end of the queue, to which other threads add text.
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
    /// Number of texts that were dropped since the text in `text` was added, because the queue was
    /// full.
    lost: u64,
    /// True while the thread writes text that it has taken out of the queue.
    writing: bool,
    /// Number of pieces that were written.
    written: u64,
    /// True if no more text will be added.
    ending: bool,
    /// True if writing has failed, so that nothing more can be written.
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

/// Runs the thread until the queue ends.
fn write(shared: &Shared, mut to: impl Write) {
    let mut text = String::new();
    loop {
        let idle = |waiting: &mut Waiting| waiting.text.is_empty() && !waiting.ending;
        let mut waiting = shared.lock();
        shared.changed.wait_while(&mut waiting, idle);
        if waiting.text.is_empty() {
            return;
        }
        // The two strings are swapped, so that their memory is reused.
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
