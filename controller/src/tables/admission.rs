//! `admission`: what may come in for a job through a port, and which slots it reaches.

use tributary_p4runtime::entry::{ActionCall, Match, TableEntry};
use tributary_wire::JobId;
use tributary_wire::constants::{KIND_GRADIENT, KIND_RESULT};

use super::{ActionSchema, TableSchema};

const ADMIT: &str = "admit";

pub(crate) const SCHEMA: TableSchema = TableSchema {
    name: "admission",
    key: &["job", "ingress_port"],
    actions: &[ActionSchema {
        name: ADMIT,
        parameters: &["job_index", "slot_base", "slot_mask", "children", "kinds", "aggregate", "fan_in"],
    }],
};

/// Whose packets, from where.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Key {
    pub(crate) job: JobId,
    pub(crate) ingress_port: u16,
}

/// What they may be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Admit {
    /// Where the job's counters are.
    pub(crate) job_index: u16,
    /// The job's slots; `None` where it has none.
    pub(crate) slots: Option<SlotBlock>,
    /// Which children of this switch send through this port, one bit each.
    pub(crate) children: u64,
    /// Which kinds come in here.
    pub(crate) kinds: Kinds,
    /// What `aggregate` has to be in their hop entry for this switch.
    pub(crate) aggregate: bool,
    /// What `fan_in` has to be there.
    pub(crate) fan_in: u8,
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
    /// A bit for each kind, in the place of the kind's own value.
    fn bits(self) -> u8 {
        let bit = |set, kind| if set { kind } else { 0 };
        bit(self.gradients, KIND_GRADIENT) | bit(self.results, KIND_RESULT)
    }
}

/// `key` is admitted as `admit` says.
pub(crate) fn entry(key: Key, admit: &Admit) -> TableEntry {
    let slots = admit.slots.unwrap_or(SlotBlock { base: 0, size: 1 });
    let action = ActionCall::new(ADMIT)
        .with("job_index", admit.job_index)
        .with("slot_base", slots.base)
        .with("slot_mask", slots.size - 1)
        .with("children", admit.children)
        .with("kinds", admit.kinds.bits())
        .with("aggregate", u8::from(admit.aggregate))
        .with("fan_in", admit.fan_in);
    TableEntry::new(SCHEMA.name)
        .exact("job", key.job.get())
        .exact("ingress_port", key.ingress_port)
        .action(action)
}

/// Whose packets an entry of this table lets in; of another table it is nobody's.
pub(crate) fn job(entry: &TableEntry) -> Option<JobId> {
    match entry.key.get("job") {
        Some(Match::Exact(job)) if entry.table == SCHEMA.name => JobId::new(u16::try_from(*job).ok()?),
        _ => None,
    }
}
