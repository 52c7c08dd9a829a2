//! Converts counters between P4Runtime's messages and the switch's own types.

use tributary_p4runtime::P4Info;
use tributary_p4runtime::p4::v1::{self as message, Entity, entity::Entity as Kind, update};

use super::tables;
use crate::control::{CounterValue, Part};
use crate::server::convert;
use crate::server::operation::Operation;
use crate::server::query::{Query, Show};
use crate::server::status::Refusal;

/// Plans an update of a counter array.
pub(in crate::server) fn plan(
    kind: update::Type,
    entry: &message::CounterEntry,
) -> Result<Operation, Refusal> {
    let value = counted(kind, entry.data.as_ref())?;
    let (id, index) = (entry.counter_id, convert::index(entry.index.as_ref())?);
    Ok(Operation::new(Part::Counter(id), move |switch| switch.set_counter(id, index, value)))
}

/// Plans an update of an entry's counter.
pub(in crate::server) fn plan_direct(
    kind: update::Type,
    entry: message::DirectCounterEntry,
) -> Result<Operation, Refusal> {
    let value = counted(kind, entry.data.as_ref())?;
    let table =
        entry.table_entry.ok_or_else(|| Refusal::invalid("the direct counter names no table entry"))?;
    let entry = convert::entry_ref(table)?;
    Ok(Operation::new(Part::Table(entry.table_id()), move |switch| switch.set_direct_counter(&entry, value)))
}

/// Returns the value that an update gives a counter; `None` if it leaves the counter unchanged.
/// As with simple_switch_grpc, MODIFY sets it, DELETE clears it, and INSERT is an error.
fn counted(kind: update::Type, data: Option<&message::CounterData>) -> Result<Option<CounterValue>, Refusal> {
    match kind {
        update::Type::Insert => Err(Refusal::invalid("a counter can't be inserted: modify it")),
        update::Type::Delete => Ok(Some(CounterValue::default())),
        _ => Ok(data.map(convert::counter_value)),
    }
}

/// Plans a read of a counter array, or of all arrays.
pub(in crate::server) fn query(
    entry: &message::CounterEntry,
    p4info: &P4Info,
) -> Result<Vec<Query>, Refusal> {
    let all = || p4info.counters().map(|counter| counter.name.id).collect();
    let counters: Vec<u32> = if entry.counter_id == 0 { all() } else { vec![entry.counter_id] };
    let index = convert::index(entry.index.as_ref())?;
    Ok(counters.into_iter().map(|counter| Query::Counter { counter, index }).collect())
}

/// Plans a read of entries' counters.
pub(in crate::server) fn query_direct(
    entry: message::DirectCounterEntry,
    p4info: &P4Info,
) -> Result<Vec<Query>, Refusal> {
    let missing = || Refusal::invalid("the direct counter names no table entry");
    tables::query(entry.table_entry.ok_or_else(missing)?, Show::DirectCounter, p4info)
}

/// Returns one cell as an entity.
pub(in crate::server) fn entity(counter_id: u32, index: i64, value: CounterValue) -> Entity {
    let (index, data) = (Some(message::Index { index }), Some(convert::counter_data(value)));
    Entity { entity: Some(Kind::CounterEntry(message::CounterEntry { counter_id, index, data })) }
}
