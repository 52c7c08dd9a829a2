//! Converts entries of tables between P4Runtime's messages and the switch's own types.

use std::sync::Arc;

use tributary_p4runtime::P4Info;
use tributary_p4runtime::google::rpc::Code;
use tributary_p4runtime::p4::config::v1::p4_ids::Prefix;
use tributary_p4runtime::p4::config::v1::table::IdleTimeoutBehavior;
use tributary_p4runtime::p4::v1::{self as message, Entity, entity::Entity as Kind, update};
use tributary_p4runtime::p4info::{Scope, Table};

use crate::control::{
    CounterValue, DefaultEntry, DirectResources, EntryAction, EntryRef, MeterConfig, Part, TableEntry,
};
use crate::error::ControlError;
use crate::server::convert;
use crate::server::operation::Operation;
use crate::server::query::{Filter, Query, Show};
use crate::server::status::Refusal;
use crate::switch::Switch;

/// The parts of an update of an entry besides its action.
#[derive(Clone, Copy)]
struct ResourceUpdate {
    counter: Option<CounterValue>,
    meter: Option<MeterConfig>,
    /// True if the table has meters. An update without rates then removes the rates.
    metered: bool,
    /// True if the meter's counts of marked packets are set to zero.
    clear: bool,
}

impl ResourceUpdate {
    /// Checks the resources before anything is changed.
    fn check(self, switch: &Switch, table_id: u32) -> Result<(), ControlError> {
        if self.metered { switch.check_direct_meter(table_id, self.meter) } else { Ok(()) }
    }

    fn put(self, switch: &mut Switch, entry: &EntryRef) -> Result<(), ControlError> {
        if self.counter.is_some() {
            switch.set_direct_counter(entry, self.counter)?;
        }
        if self.clear {
            switch.clear_direct_colours(entry)?;
        }
        if self.metered { switch.set_direct_meter(entry, self.meter) } else { Ok(()) }
    }
}

/// Plans an update of an entry, or of a default entry.
pub(in crate::server) fn plan(
    kind: update::Type,
    entry: message::TableEntry,
    p4info: &P4Info,
) -> Result<Operation, Refusal> {
    if entry.is_const {
        return Err(Refusal::invalid("is_const is for reads only: the program alone makes entries constant"));
    }
    // A DELETE needs only the key.
    if kind == update::Type::Delete && !entry.is_default_action {
        let key = convert::key(entry.table_id, entry.r#match, entry.priority)?;
        return Ok(Operation::new(Part::Table(key.table_id), move |switch| switch.delete(&key)));
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
    let action = convert::action(entry.action)?;
    let inserts = kind == update::Type::Insert;
    if inserts && action.is_none() {
        return Err(Refusal::invalid("an entry needs an action, and this one has none"));
    }
    Ok(Operation::new(Part::Table(key.table_id), move |switch| {
        resources.check(switch, key.table_id)?;
        let key = match action {
            Some(action) => {
                let entry = TableEntry { key, action, metadata, idle_timeout };
                if inserts { switch.insert(&entry) } else { switch.modify(&entry) }?;
                entry.key
            }
            // An update without an action keeps the entry's action.
            None if constant => switch.entry(&key).map(|_| key)?,
            None => switch.modify_note(&key, &metadata, idle_timeout).map(|()| key)?,
        };
        resources.put(switch, &EntryRef::Entry(key))
    }))
}

fn resources(entry: &message::TableEntry, p4info: &P4Info) -> Result<ResourceUpdate, Refusal> {
    Ok(ResourceUpdate {
        counter: entry.counter_data.as_ref().map(convert::counter_value),
        meter: entry.meter_config.as_ref().map(convert::meter_config).transpose()?,
        metered: p4info.table_by_id(entry.table_id).is_some_and(convert::has_direct_meter),
        clear: convert::clears_colours(entry.meter_counter_data.as_ref())?,
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
    resources: ResourceUpdate,
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
    let table_id = entry.table_id;
    Ok(Operation::new(Part::Table(table_id), move |switch| {
        resources.check(switch, table_id)?;
        switch.set_default(table_id, action.as_ref())?;
        if action.is_none() {
            // The program's own default entry has neither controller data nor rates.
            return Ok(());
        }
        switch.set_default_note(table_id, &metadata)?;
        resources.put(switch, &EntryRef::Default(table_id))
    }))
}

/// Plans a read of a table's entries.
pub(in crate::server) fn query_entries(
    entry: message::TableEntry,
    p4info: &P4Info,
) -> Result<Vec<Query>, Refusal> {
    let show = Show::Entry {
        counter: entry.counter_data.is_some(),
        meter: entry.meter_config.is_some(),
        colours: entry.meter_counter_data.is_some(),
        last_hit: entry.time_since_last_hit.is_some(),
    };
    query(entry, show, p4info)
}

/// Plans a read of a table's entries, or of their counters or meters.
pub(in crate::server) fn query(
    entry: message::TableEntry,
    show: Show,
    p4info: &P4Info,
) -> Result<Vec<Query>, Refusal> {
    let timed = |table: &&Table| has_timeouts(table, p4info);
    if entry.time_since_last_hit.is_some() {
        let table = p4info.table_by_id(entry.table_id);
        if entry.is_default_action || table.is_some_and(|table| !timed(&table)) {
            return Err(Refusal::invalid("there is no idle timeout: leave time_since_last_hit out"));
        }
    }
    let (counted, resource) = match show {
        Show::Entry { .. } => (None, ""),
        Show::DirectCounter => (Some(Prefix::DirectCounter), "counter"),
        Show::DirectMeter { .. } => (Some(Prefix::DirectMeter), "meter"),
    };
    let counted = |table: &&Table| {
        counted.is_none_or(|kind| table.direct_resources.iter().any(|id| id >> 24 == kind as u32))
    };
    let tables: Vec<u32> = match entry.table_id {
        0 => p4info.tables().filter(counted).map(|table| table.name.id).collect(),
        id => match p4info.table_by_id(id) {
            Some(table) if !counted(&table) => {
                return Err(Refusal::invalid(format!(
                    "the table {} has no direct {resource}",
                    table.name.alias
                )));
            }
            _ => vec![id],
        },
    };
    if entry.is_default_action {
        convert::check_default_key(&entry)?;
        return Ok(tables.into_iter().map(|table| Query::Default { table, show }).collect());
    }
    if entry.r#match.is_empty() {
        let filter = Arc::new(Filter {
            priority: entry.priority,
            controller_metadata: entry.controller_metadata,
            metadata: entry.metadata,
            action: convert::action(entry.action)?,
        });
        let of_table = |table| Query::Entries { table, filter: Arc::clone(&filter), show };
        return Ok(tables.into_iter().map(of_table).collect());
    }
    if entry.table_id == 0 {
        return Err(Refusal::invalid(
            "match fields say nothing without a table: give a table id, or no fields",
        ));
    }
    Ok(vec![Query::Entry { key: convert::key(entry.table_id, entry.r#match, entry.priority)?, show }])
}

/// Returns true if a table's entries can time out.
fn has_timeouts(table: &Table, p4info: &P4Info) -> bool {
    p4info.message().tables.iter().any(|message| {
        message.preamble.as_ref().is_some_and(|preamble| preamble.id == table.name.id)
            && message.idle_timeout_behavior() == IdleTimeoutBehavior::NotifyControl
    })
}

/// Returns an entry as an entity.
pub(in crate::server) fn entity(entry: TableEntry, resources: DirectResources, show: Show) -> Entity {
    shown(convert::entry_message(entry), resources, show)
}

/// Returns a table's default entry as an entity.
pub(in crate::server) fn default_entity(table_id: u32, default: DefaultEntry, show: Show) -> Entity {
    let (controller_metadata, metadata) = convert::read_note(&default.metadata);
    let entry = message::TableEntry {
        table_id,
        is_default_action: true,
        action: default.action.map(|call| convert::action_message(call.into())),
        controller_metadata,
        metadata: metadata.to_vec(),
        ..Default::default()
    };
    shown(entry, default.resources, show)
}

fn shown(mut entry: message::TableEntry, resources: DirectResources, show: Show) -> Entity {
    entry.is_const |= resources.constant;
    let data = resources.counter.map(convert::counter_data);
    let config = resources.meter.map(convert::meter_config_message);
    let marked = resources.colours.map(convert::colours_message);
    let entity = match show {
        Show::Entry { counter, meter, colours, last_hit } => {
            entry.counter_data = data.filter(|_| counter);
            entry.meter_config = config.filter(|_| meter);
            entry.meter_counter_data = marked.filter(|_| colours);
            let elapsed =
                |elapsed| message::table_entry::IdleTimeout { elapsed_ns: convert::nanoseconds(elapsed) };
            entry.time_since_last_hit = resources.since_last_hit.filter(|_| last_hit).map(elapsed);
            Kind::TableEntry(entry)
        }
        // Counters and meters only refer to the entry, so they do not show its action.
        Show::DirectCounter => {
            (entry.action, entry.idle_timeout_ns) = (None, 0);
            Kind::DirectCounterEntry(message::DirectCounterEntry { table_entry: Some(entry), data })
        }
        Show::DirectMeter { colours } => {
            (entry.action, entry.idle_timeout_ns) = (None, 0);
            let (table_entry, counter_data) = (Some(entry), marked.filter(|_| colours));
            Kind::DirectMeterEntry(message::DirectMeterEntry { table_entry, config, counter_data })
        }
    };
    Entity { entity: Some(entity) }
}
