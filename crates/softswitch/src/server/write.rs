//! Updates of a Write, from messages to operations of the switch.

use std::collections::BTreeSet;

use tributary_p4runtime::P4Info;
use tributary_p4runtime::entry;
use tributary_p4runtime::google::rpc::Code;
use tributary_p4runtime::p4::v1::entity::Entity as Kind;
use tributary_p4runtime::p4::v1::{self as message, update, write_request::Atomicity};
use tributary_p4runtime::p4info::Scope;

use super::convert;
use super::entities::{digests, meters, profiles, registers, replication, value_sets};
use super::operation::{Operation, Resources};
use super::status::Refusal;
use crate::control::{CounterValue, EntryAction, Part, TableEntry};
use crate::switch::Switch;

impl Operation {
    /// Plans an update, as far as that is possible without the switch's state.
    pub(super) fn plan(update: message::Update, p4info: &P4Info) -> Result<Self, Refusal> {
        let kind = match update.r#type() {
            update::Type::Unspecified => return Err(Refusal::invalid("the update's type is not set")),
            kind => kind,
        };
        match update.entity.and_then(|entity| entity.entity) {
            Some(Kind::TableEntry(entry)) => table(kind, entry, p4info),
            Some(Kind::CounterEntry(entry)) => counter(kind, &entry),
            Some(Kind::DirectCounterEntry(entry)) => direct_counter(kind, entry),
            Some(Kind::MeterEntry(entry)) => meters::plan(kind, &entry),
            Some(Kind::DirectMeterEntry(entry)) => meters::plan_direct(kind, entry),
            Some(Kind::RegisterEntry(entry)) => registers::plan(kind, entry, p4info),
            Some(Kind::ValueSetEntry(entry)) => value_sets::plan(kind, entry),
            Some(Kind::DigestEntry(entry)) => digests::plan(kind, &entry),
            Some(Kind::ActionProfileMember(entry)) => profiles::plan_member(kind, entry),
            Some(Kind::ActionProfileGroup(entry)) => profiles::plan_group(kind, &entry),
            Some(Kind::PacketReplicationEngineEntry(entry)) => replication::plan(kind, &entry),
            None => {
                Err(Refusal::invalid("the update has no entity, or one of a kind that is not known here"))
            }
            Some(other) => Err(Refusal::unimplemented(entry::kind(Some(&other)))),
        }
    }
}

/// Carries out the operations in order. Packets see all of them happen at once, whatever the atomicity.
pub(super) fn carry_out_batch(
    planned: Vec<Result<Operation, Refusal>>,
    atomicity: Atomicity,
    switch: &mut Switch,
) -> Vec<Result<(), Refusal>> {
    let carry_out = |operation: Result<Operation, Refusal>, switch: &mut Switch| {
        operation?.carry_out(switch).map_err(Refusal::from)
    };
    if atomicity == Atomicity::ContinueOnError {
        return planned.into_iter().map(|operation| carry_out(operation, switch)).collect();
    }
    let parts: BTreeSet<Part> = planned.iter().flatten().filter_map(Operation::part).collect();
    let before = switch.checkpoint(parts);
    let count = planned.len();
    for (at, operation) in planned.into_iter().enumerate() {
        if let Err(refusal) = carry_out(operation, switch) {
            switch.restore(before);
            let reason = format!("nothing of the batch is carried out, since update {at} failed");
            let mut results = vec![Err(Refusal::new(Code::Aborted, reason)); count];
            results[at] = Err(refusal);
            return results;
        }
    }
    vec![Ok(()); count]
}

fn table(kind: update::Type, entry: message::TableEntry, p4info: &P4Info) -> Result<Operation, Refusal> {
    if entry.is_const {
        return Err(Refusal::invalid("is_const is for reads only: the program alone makes entries constant"));
    }
    // Of a DELETE nothing but the key counts.
    if kind == update::Type::Delete && !entry.is_default_action {
        return Ok(Operation::Delete(convert::key(entry.table_id, entry.r#match, entry.priority)?));
    }
    check_extras(&entry, p4info)?;
    check_scope(&entry, p4info)?;
    let resources = resources(&entry, p4info)?;
    if entry.is_default_action {
        return default_action(kind, entry, resources);
    }
    let metadata = convert::note(&entry);
    let key = convert::key(entry.table_id, entry.r#match, entry.priority)?;
    let constant = p4info.table_by_id(key.table_id).is_some_and(|table| table.const_entries);
    let idle_timeout = convert::timeout(entry.idle_timeout_ns)?;
    match (convert::action(entry.action)?, kind) {
        (Some(action), update::Type::Insert) => {
            Ok(Operation::Insert(TableEntry { key, action, metadata, idle_timeout }, resources))
        }
        (Some(action), _) => {
            Ok(Operation::Modify(TableEntry { key, action, metadata, idle_timeout }, resources))
        }
        (None, update::Type::Insert) => {
            Err(Refusal::invalid("an entry needs an action, and this one has none"))
        }
        (None, _) if constant => Ok(Operation::ModifyResources(key, resources)),
        // The action stays.
        (None, _) => Ok(Operation::ModifyRest { key, metadata, idle_timeout, resources }),
    }
}

fn resources(entry: &message::TableEntry, p4info: &P4Info) -> Result<Resources, Refusal> {
    Ok(Resources {
        counter: entry.counter_data.as_ref().map(convert::counter_value),
        meter: entry.meter_config.as_ref().map(meters::config).transpose()?,
        metered: p4info.table_by_id(entry.table_id).is_some_and(convert::has_direct_meter),
        clear: meters::clears(entry.meter_counter_data.as_ref())?,
    })
}

/// Checks the parts of an entry besides key and action.
fn check_extras(entry: &message::TableEntry, p4info: &P4Info) -> Result<(), Refusal> {
    let table = p4info.table_by_id(entry.table_id);
    let name = || table.map_or_else(|| format!("{:#010x}", entry.table_id), |table| table.name.alias.clone());
    if entry.time_since_last_hit.is_some() {
        return Err(Refusal::invalid("time_since_last_hit is for reads only"));
    }
    if entry.idle_timeout_ns != 0 && entry.is_default_action {
        return Err(Refusal::invalid("a default action has no idle timeout"));
    }
    let metered = table.is_some_and(convert::has_direct_meter);
    if (entry.meter_config.is_some() || entry.meter_counter_data.is_some()) && !metered {
        return Err(Refusal::invalid(format!("the table {} has no direct meter", name())));
    }
    let counts = table.is_some_and(|table| convert::direct_counter(table).is_some());
    if entry.counter_data.is_some() && !counts {
        return Err(Refusal::invalid(format!("the table {} has no direct counter", name())));
    }
    Ok(())
}

/// Refuses an action in the wrong place with PERMISSION_DENIED, as simple_switch_grpc does.
fn check_scope(entry: &message::TableEntry, p4info: &P4Info) -> Result<(), Refusal> {
    let call = match entry.action.as_ref().and_then(|action| action.r#type.as_ref()) {
        Some(message::table_action::Type::Action(call)) => call,
        _ => return Ok(()),
    };
    let Some(table) = p4info.table_by_id(entry.table_id) else { return Ok(()) };
    let reference = table.actions.iter().find(|one| one.id == call.action_id);
    let place = match (reference.map(|one| one.scope), entry.is_default_action) {
        (Some(Scope::TableOnly), true) => "as its default action",
        (Some(Scope::DefaultOnly), false) => "in its entries",
        _ => return Ok(()),
    };
    let action = p4info.action_by_id(call.action_id).map_or("this", |action| &action.name.alias);
    let reason = format!("the table {} does not allow the action {action} {place}", table.name.alias);
    Err(Refusal::new(Code::PermissionDenied, reason))
}

fn default_action(
    kind: update::Type,
    entry: message::TableEntry,
    resources: Resources,
) -> Result<Operation, Refusal> {
    if kind != update::Type::Modify {
        return Err(Refusal::invalid("a default action is neither inserted nor deleted: modify it"));
    }
    convert::check_default_key(&entry)?;
    let metadata = convert::note(&entry);
    let action = match convert::action(entry.action)? {
        None => None,
        Some(EntryAction::Call(call)) => Some(call),
        Some(_) => return Err(Refusal::invalid("a default action is an action, not a member or group")),
    };
    Ok(Operation::SetDefault { table_id: entry.table_id, action, metadata, resources })
}

fn counter(kind: update::Type, entry: &message::CounterEntry) -> Result<Operation, Refusal> {
    let value = counted(kind, entry.data.as_ref())?;
    let index = convert::index(entry.index.as_ref())?;
    Ok(Operation::SetCounter { counter_id: entry.counter_id, index, value })
}

fn direct_counter(kind: update::Type, entry: message::DirectCounterEntry) -> Result<Operation, Refusal> {
    let value = counted(kind, entry.data.as_ref())?;
    let table =
        entry.table_entry.ok_or_else(|| Refusal::invalid("the direct counter names no table entry"))?;
    Ok(Operation::SetDirectCounter(convert::entry_ref(table)?, value))
}

/// The value that an update gives a counter, if it does. As with simple_switch_grpc, MODIFY sets it, DELETE clears it,
/// and INSERT is an error.
fn counted(kind: update::Type, data: Option<&message::CounterData>) -> Result<Option<CounterValue>, Refusal> {
    match kind {
        update::Type::Insert => Err(Refusal::invalid("a counter can't be inserted: modify it")),
        update::Type::Delete => Ok(Some(CounterValue::default())),
        _ => Ok(data.map(convert::counter_value)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Our program restricts no action to entries or defaults; this one does.
    const INFO: &str = r#"
        tables {
          preamble { id: 0x02000001 name: "t" alias: "t" }
          match_fields { id: 1 name: "k" bitwidth: 8 match_type: EXACT }
          action_refs { id: 0x01000001 scope: TABLE_ONLY }
          action_refs { id: 0x01000002 scope: DEFAULT_ONLY }
        }
        actions { preamble { id: 0x01000001 name: "only_entries" alias: "only_entries" } }
        actions { preamble { id: 0x01000002 name: "only_default" alias: "only_default" } }"#;

    fn planned(action_id: u32, is_default_action: bool) -> Result<Operation, Refusal> {
        let action = message::Action { action_id, params: Vec::new() };
        let entry = message::TableEntry {
            table_id: 0x0200_0001,
            action: Some(message::TableAction { r#type: Some(message::table_action::Type::Action(action)) }),
            is_default_action,
            ..Default::default()
        };
        let entity = message::Entity { entity: Some(Kind::TableEntry(entry)) };
        let update = message::Update { r#type: update::Type::Modify.into(), entity: Some(entity) };
        Operation::plan(update, &P4Info::parse(INFO).unwrap())
    }

    #[test]
    fn an_action_in_the_wrong_place_is_denied_by_name() {
        let in_entry = planned(0x0100_0002, false).unwrap_err();
        assert_eq!(in_entry.code, Code::PermissionDenied);
        assert_eq!(in_entry.reason, "the table t does not allow the action only_default in its entries");
        let as_default = planned(0x0100_0001, true).unwrap_err();
        assert_eq!(as_default.code, Code::PermissionDenied);
        assert!(as_default.reason.ends_with("only_entries as its default action"), "{}", as_default.reason);
        assert!(planned(0x0100_0001, false).is_ok() && planned(0x0100_0002, true).is_ok());
    }
}
