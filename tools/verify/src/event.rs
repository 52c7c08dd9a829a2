//! The events of a schedule.

/// An event: one step of the network or of a part.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Event {
    /// A packet arrives.
    Arrives(u16),
    /// A switch loses its memory.
    Reboots(u8),
    /// The server changes to the next generation.
    ServerChanges,
    /// A worker changes to the next generation.
    WorkerChanges(u8),
}
