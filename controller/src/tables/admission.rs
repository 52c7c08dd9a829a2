//! `admission`: which packets of a job are admitted through a port, and which slots they reach.
//! Where several hosts share the port, it passes packets on to `sender_admission`.

use tributary_p4runtime::entry::{ActionCall, Match, TableEntry};
use tributary_wire::JobId;
use tributary_wire::constants::{KIND_GRADIENT, KIND_RESULT, RANK_ALL};

use super::schema::{ActionSchema, TableSchema};

const ADMIT: &str = "admit";
const ADMIT_BY_SENDER: &str = "admit_by_sender";

/// The action that admits packets.
pub(super) const ADMIT_SCHEMA: ActionSchema = ActionSchema {
    name: ADMIT,
    parameters: &["job_index", "slot_base", "slot_mask", "children", "kinds", "aggregate", "fan_in", "rank"],
};

pub(crate) const SCHEMA: TableSchema = TableSchema {
    name: "admission",
    key: &["job", "ingress_port"],
    actions: &[ADMIT_SCHEMA, ActionSchema { name: ADMIT_BY_SENDER, parameters: &[] }],
};

/// The job and the ingress port of the packets.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Key {
    pub(crate) job: JobId,
    pub(crate) ingress_port: u16,
}

impl Key {
    /// The key of an entry of `table`, which may add more fields.
    pub(super) fn of(self, table: &str) -> TableEntry {
        TableEntry::new(table).exact("job", self.job.get()).exact("ingress_port", self.ingress_port)
    }
}

/// The properties that a packet must have to be admitted, and the job's resources on the switch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Admit {
    /// The index of the job's counters.
    pub(crate) job_index: u16,
    /// The job's slots; `None` where it has none.
    pub(crate) slots: Option<SlotBlock>,
    /// The children of this switch that send through this port, one bit each.
    pub(crate) children: u64,
    /// The kinds of packets that are admitted here.
    pub(crate) kinds: Kinds,
    /// The `aggregate` that their hop entry for this switch must have.
    pub(crate) aggregate: bool,
    /// The `fan_in` that it must have.
    pub(crate) fan_in: u8,
    /// The rank that gradients must have; `None`: several workers send them.
    pub(crate) rank: Option<u16>,
}

/// An aligned block of slots whose size is a power of two.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct SlotBlock {
    pub(crate) base: u32,
    pub(crate) size: u32,
}

/// Kinds of packets.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Kinds {
    pub(crate) gradients: bool,
    pub(crate) results: bool,
}

impl Kinds {
    /// One bit for each kind, at the position given by the kind's own value.
    fn bits(self) -> u8 {
        let bit = |set, kind| if set { kind } else { 0 };
        bit(self.gradients, KIND_GRADIENT) | bit(self.results, KIND_RESULT)
    }
}

impl Admit {
    /// The action that admits just this.
    pub(super) fn call(&self) -> ActionCall {
        let slots = self.slots.unwrap_or(SlotBlock { base: 0, size: 1 });
        ActionCall::new(ADMIT)
            .with("job_index", self.job_index)
            .with("slot_base", slots.base)
            .with("slot_mask", slots.size - 1)
            .with("children", self.children)
            .with("kinds", self.kinds.bits())
            .with("aggregate", u8::from(self.aggregate))
            .with("fan_in", self.fan_in)
            .with("rank", self.rank.unwrap_or(RANK_ALL))
    }
}

/// Returns an entry that admits packets of `key` under the conditions of `admit`, from any sender.
pub(crate) fn entry(key: Key, admit: &Admit) -> TableEntry {
    key.of(SCHEMA.name).action(admit.call())
}

/// Leaves the packets of `key` to the entries of `sender_admission`.
pub(crate) fn by_sender(key: Key) -> TableEntry {
    key.of(SCHEMA.name).action(ActionCall::new(ADMIT_BY_SENDER))
}

/// The job whose packets an entry admits; `None` for entries of other tables.
pub(crate) fn job(entry: &TableEntry) -> Option<JobId> {
    match entry.key.get("job") {
        Some(Match::Exact(job)) if entry.table == SCHEMA.name => JobId::new(u16::try_from(*job).ok()?),
        _ => None,
    }
}
