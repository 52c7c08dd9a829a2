//! Table `admission`: decides which packets of a job a switch admits at a port, and which slots they
//! reach.
//! If several hosts share the port, an entry refers packets to the table `sender_admission`.

use tributary_p4runtime::entry::{ActionCall, Match, TableEntry};
use tributary_wire::JobId;
use tributary_wire::constants::{KIND_GRADIENT, KIND_RESULT, RANK_ALL};

use super::schema::{ActionSchema, TableSchema};

const ADMIT: &str = "admit";
const ADMIT_BY_SENDER: &str = "admit_by_sender";

/// The action that admits a packet, with the names of its parameters.
pub(super) const ADMIT_SCHEMA: ActionSchema = ActionSchema {
    name: ADMIT,
    parameters: &["job_index", "slot_base", "slot_mask", "children", "kinds", "aggregate", "fan_in", "rank"],
};

pub(crate) const SCHEMA: TableSchema = TableSchema {
    name: "admission",
    key: &["job", "ingress_port"],
    actions: &[ADMIT_SCHEMA, ActionSchema { name: ADMIT_BY_SENDER, parameters: &[] }],
};

/// The key of an entry: a job and an ingress port.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Key {
    pub(crate) job: JobId,
    pub(crate) ingress_port: u16,
}

impl Key {
    /// Returns an entry of `table` with this key, without an action. The caller may add further key fields.
    pub(super) fn of(self, table: &str) -> TableEntry {
        TableEntry::new(table).exact("job", self.job.get()).exact("ingress_port", self.ingress_port)
    }
}

/// The conditions under which a packet is admitted, and the job's resources on the switch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Admit {
    /// The index of the job's counters.
    pub(crate) job_index: u16,
    /// The job's slots on the switch; `None` if it has none.
    pub(crate) slots: Option<SlotBlock>,
    /// A bit mask of the switch's children that send through this port.
    pub(crate) children: u64,
    /// The kinds of packets that the switch admits at this port.
    pub(crate) kinds: Kinds,
    /// The `aggregate` flag that the packets' hop for this switch must have.
    pub(crate) aggregate: bool,
    /// The fan-in that the packets' hop for this switch must have.
    pub(crate) fan_in: u8,
    /// The rank that gradients must have; `None` if several workers send gradients through this port.
    pub(crate) rank: Option<u16>,
}

/// An aligned block of slots. Its size is a power of two.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct SlotBlock {
    pub(crate) base: u32,
    pub(crate) size: u32,
}

/// A set of kinds of packets.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Kinds {
    pub(crate) gradients: bool,
    pub(crate) results: bool,
}

impl Kinds {
    /// Returns the set as a bit mask. The value of each kind is its bit.
    fn bits(self) -> u8 {
        let bit = |set, kind| if set { kind } else { 0 };
        bit(self.gradients, KIND_GRADIENT) | bit(self.results, KIND_RESULT)
    }
}

impl Admit {
    /// Returns the action that admits packets under these conditions.
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

/// Returns an entry that refers packets of `key` to the table `sender_admission`.
pub(crate) fn by_sender(key: Key) -> TableEntry {
    key.of(SCHEMA.name).action(ActionCall::new(ADMIT_BY_SENDER))
}

/// Returns the job whose packets an entry admits; `None` for entries of other tables.
pub(crate) fn job(entry: &TableEntry) -> Option<JobId> {
    match entry.key.get("job") {
        Some(Match::Exact(job)) if entry.table == SCHEMA.name => JobId::new(u16::try_from(*job).ok()?),
        _ => None,
    }
}
