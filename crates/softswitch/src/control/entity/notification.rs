//! Digests and idle timeouts: the notifications that the switch sends to its controller.

use std::time::Duration;

use super::TableEntry;

/// Configuration of a digest by the controller.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct DigestConfig {
    /// The maximum time for which a message waits for others; zero sends each message at once.
    pub max_timeout: Duration,
    /// The maximum number of messages in a list; 0 leaves the number to the switch.
    pub max_list_size: usize,
    /// Time during which the switch does not repeat a message, unless the controller acknowledges
    /// it.
    pub ack_timeout: Duration,
}

/// Messages of a digest that the switch sends together.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DigestList {
    /// The id with which the controller acknowledges the list.
    pub list_id: u64,
    /// For each message, the canonical values of its fields.
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
    /// Entries that no packet has hit during their timeouts.
    Idle(Vec<TableEntry>),
}
