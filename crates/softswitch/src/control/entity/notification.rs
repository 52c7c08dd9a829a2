//! Digests and idle timeouts: the notifications that the switch sends to its controller.

use std::time::Duration;

use super::TableEntry;

/// Configuration of a digest by the controller.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct DigestConfig {
    /// Time for which a message may wait for others; zero: not at all.
    pub max_timeout: Duration,
    /// The most messages of a list; 0: as many as the switch likes.
    pub max_list_size: usize,
    /// The time in which the same message is not sent again, unless the controller acknowledges it.
    pub ack_timeout: Duration,
}

/// Messages of a digest that the switch sends together.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DigestList {
    /// The id that the controller acknowledges.
    pub list_id: u64,
    /// The values of each message's fields, canonical.
    pub messages: Vec<Vec<Vec<u8>>>,
}

/// Notification from the switch to its controller.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Notification {
    /// Messages of a digest.
    Digests {
        /// Id of the digest.
        digest_id: u32,
        /// The messages.
        list: DigestList,
    },
    /// Entries that no packet has hit for as long as their timeouts.
    Idle(Vec<TableEntry>),
}
