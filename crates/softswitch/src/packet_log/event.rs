//! Events of a packet on its path through the switch.

use serde::Serialize;

use super::value::Value;
use crate::control::Replica;
use crate::program::Source;

/// The events of one pass of a packet, which lasts until the packet ends or waits.
#[derive(Debug, Serialize)]
pub(super) struct PassEvents {
    /// The number of the received packet. Its clones and its further passes have the same number.
    pub(super) packet: u64,
    /// Seconds since 1970, in UTC.
    pub(super) time: f64,
    /// The reason for this pass.
    pub(super) cause: Cause,
    /// The port that received the packet, or the packet from which it was copied.
    pub(super) port: u16,
    /// The packet's length in bytes.
    pub(super) length: usize,
    pub(super) events: Vec<Event>,
}

/// The reason for a packet's pass through the switch.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Cause {
    /// A port has received the packet.
    Received,
    Resubmitted,
    Recirculated,
    /// A clone that ingress requested.
    IngressClone,
    /// A clone that egress requested.
    EgressClone,
    /// The packet continues after ingress, because its clones were processed first.
    AfterClones,
}

/// The destination of a copy.
#[derive(Debug, Clone, Copy, Serialize)]
pub(crate) struct To {
    port: u32,
    instance: u32,
}

impl From<Replica> for To {
    fn from(replica: Replica) -> Self {
        Self { port: replica.port.into(), instance: replica.instance.into() }
    }
}

impl To {
    pub(super) fn port(self) -> u32 {
        self.port
    }

    pub(super) fn instance(self) -> u32 {
        self.instance
    }
}

/// The name and the value of a field or parameter.
#[derive(Debug, Serialize)]
pub(crate) struct NamedValue {
    pub(super) name: String,
    pub(super) value: Value,
}

/// A field of a table's key.
#[derive(Debug, Serialize)]
pub(crate) struct LoggedKeyField {
    pub(super) field: String,
    pub(super) value: Value,
}

/// An action that a table runs.
#[derive(Debug, Serialize)]
pub(crate) struct LoggedAction {
    pub(super) action: String,
    pub(super) arguments: Vec<NamedValue>,
}

/// The entry that a packet hits.
#[derive(Debug, Serialize)]
pub(crate) struct Hit {
    /// The match of each field of the key, in P4's notation.
    pub(super) matches: Vec<String>,
    /// The entry's priority; 0 if the table has no priorities.
    pub(super) priority: i32,
    /// The member, or the group, of the action profile to which the entry refers.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) member: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) group: Option<u32>,
}

/// One step of a packet's processing.
#[derive(Debug, Serialize)]
#[serde(tag = "event", rename_all = "snake_case")]
pub(crate) enum Event {
    /// A state of the parser.
    State { name: String },
    /// The parser accepts the packet.
    Accept,
    /// The parser ends with an error; ingress still begins.
    ParserError { error: String },
    /// A checksum is verified.
    Checksum { field: String, right: bool, value: Value, computed: Value },
    /// A control begins: ingress, egress or the deparser.
    Control { name: &'static str },
    /// A condition is evaluated.
    Condition {
        condition: String,
        holds: bool,
        #[serde(flatten)]
        source: At,
    },
    /// A table is looked up.
    Table {
        name: String,
        key: Vec<LoggedKeyField>,
        /// The entry that matched; `None` for a miss.
        hit: Option<Hit>,
        /// The action that the table runs; `None` if it runs none.
        run: Option<LoggedAction>,
        #[serde(flatten)]
        source: At,
    },
    /// Statements outside of tables' actions run.
    Statements {
        statements: String,
        #[serde(flatten)]
        source: At,
    },
    /// A field has changed.
    Set { field: String, from: Value, to: Value },
    /// A header has become valid: it was extracted, or the program has added it.
    Valid { header: String, fields: Vec<NamedValue> },
    /// A header is no longer valid.
    Invalid { header: String },
    /// A counter counts.
    Count { counter: String, index: u64 },
    /// A register is read; `None` if the cell does not exist.
    Read { register: String, index: u64, value: Option<Value> },
    /// A register is written.
    Write { register: String, index: u64, value: Value },
    /// The program logs something.
    Message { text: String },
    /// Clones are made; `None` if the session does not exist.
    Clone { session: u16, to: Option<Vec<To>> },
    /// The packet begins ingress again, with the frame as received.
    Resubmit,
    /// The packet begins ingress again, with the frame as it would leave.
    Recirculate,
    /// The switch sends a digest to the controller.
    Digest { name: String },
    /// Copies go to all members of a group; none if the group does not exist.
    Multicast { group: u64, to: Vec<To> },
    /// The packet enters egress.
    Egress { port: u64, instance: u16 },
    /// The switch drops the packet.
    Drop { reason: &'static str },
    /// The packet leaves.
    Send {
        port: u64,
        length: usize,
        /// True if the port exists and works; `None` if the switch does not know its ports.
        #[serde(skip_serializing_if = "Option::is_none")]
        up: Option<bool>,
    },
    /// The packet has more events than the log records.
    More,
}

/// A position in the P4 source.
#[derive(Debug, Serialize)]
pub(crate) struct At {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) source: Option<Source>,
}
