//! The packet log: the events of each packet in the switch, by the names of the P4 source.
//!
//! A program that is [loaded to be logged](crate::Pipeline::load_to_log) has instructions that log its steps; all
//! others run as if the log did not exist. A [`Journal`] collects the events of one packet and compares its fields from
//! step to step; an [`Outlet`](outlet) writes the log without ever making a packet wait.

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

use event::Block;
use outlet::Outlet;

/// Format of the packet log.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LogForm {
    /// For people: a few lines a packet.
    Text,
    /// For programs: one JSON object a line, of one packet.
    Json,
}

/// Where packets are logged. Cheap to clone; packets of all clones go to the same place.
///
/// A thread of its own writes. What reads slower than packets come makes none of them wait: once 4 MiB of text wait to be
/// written, further packets are left out, and the log records their number.
#[derive(Debug, Clone)]
pub struct PacketLog {
    form: LogForm,
    outlet: Arc<Outlet>,
}

impl PacketLog {
    /// A log that is written to `to`.
    /// When the last clone is dropped, what waits is [flushed](PacketLog::flush).
    ///
    /// # Errors
    /// The operating system has no thread left.
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

    /// Waits until all is written.
    /// Returns `false` if its reader has read nothing for a second before that: whatever else is written there would
    /// wait for that reader, too.
    pub fn flush(&self) -> bool {
        self.outlet.flush()
    }

    fn log(&self, block: &Block) {
        let text = match self.form {
            LogForm::Text => block.to_string(),
            // A block is plain data, which can always be written.
            LogForm::Json => serde_json::to_string(block).unwrap_or_default() + "\n",
        };
        self.outlet.write(&text);
    }
}
