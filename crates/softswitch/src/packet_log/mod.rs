//! The packet log: the events of each packet in the switch, by the names of the P4 source.
//!
//! A program that is [loaded to be logged](crate::Pipeline::load_to_log) has instructions that log
//! its steps. All other programs run as if the log did not exist. A [`Journal`] collects the events
//! of one packet and compares its fields from step to step; an [`Outlet`](outlet) writes the log
//! without ever making a packet wait.

mod event;
mod journal;
mod lookup;
mod outlet;
mod state_events;
mod text;
mod value;

use std::io::Write;
use std::sync::Arc;

pub(crate) use event::{Cause, Event};
pub(crate) use journal::Journal;

use event::PassEvents;
use outlet::Outlet;

/// Format of the packet log.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LogForm {
    /// Text for people: a few lines for each packet.
    Text,
    /// JSON for programs: one line with one object for each packet.
    Json,
}

/// A log of packets. It is cheap to clone, and all clones write to the same output.
///
/// A separate thread writes the log, so that a slow reader does not delay packets. If 4 MiB of text
/// wait to be written, further packets are left out, and the log records their number.
#[derive(Debug, Clone)]
pub struct PacketLog {
    form: LogForm,
    outlet: Arc<Outlet>,
}

impl PacketLog {
    /// Creates a log that is written to `to`.
    /// When the last clone is dropped, the waiting text is [flushed](PacketLog::flush).
    ///
    /// # Errors
    /// The operating system could not create the thread.
    pub fn new(form: LogForm, to: impl Write + Send + 'static) -> std::io::Result<Self> {
        let lost: fn(u64) -> String = match form {
            LogForm::Text => |lost| {
                format!(
                    "{lost} packets are not logged here: what reads this log is slower than they come\n\n"
                )
            },
            LogForm::Json => |lost| format!("{{\"lost\":{lost}}}\n"),
        };
        Ok(Self { form, outlet: Arc::new(Outlet::start(to, lost)?) })
    }

    /// Waits until all text is written.
    /// Returns `false` if the reader of the output has read nothing for a second before that. Other
    /// writes to this output would then block, too.
    pub fn flush(&self) -> bool {
        self.outlet.flush()
    }

    fn log(&self, pass: &PassEvents) {
        let text = match self.form {
            LogForm::Text => pass.to_string(),
            // The serialisation cannot fail, because the events are plain data.
            LogForm::Json => serde_json::to_string(pass).unwrap_or_default() + "\n",
        };
        self.outlet.write(&text);
    }
}
