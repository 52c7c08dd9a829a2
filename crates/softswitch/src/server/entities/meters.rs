//! Converts meters between P4Runtime's messages and the switch's own types.

use tributary_p4runtime::P4Info;
use tributary_p4runtime::p4::v1::{self as message, Entity, entity::Entity as Kind, update};

use super::tables;
use crate::control::{MeterColours, MeterConfig, Part};
use crate::server::convert;
use crate::server::operation::Operation;
use crate::server::query::{Query, Show};
use crate::server::status::Refusal;

/// Plans an update of a meter array. As in the specification, only MODIFY is valid.
pub(in crate::server) fn plan(kind: update::Type, entry: &message::MeterEntry) -> Result<Operation, Refusal> {
    check(kind)?;
    let (id, index) = (entry.meter_id, convert::index(entry.index.as_ref())?);
    let config = entry.config.as_ref().map(convert::meter_config).transpose()?;
    let clear = convert::clears_colours(entry.counter_data.as_ref())?;
    Ok(Operation::new(Part::Meter(id), move |switch| {
        switch.set_meter(id, index, config)?;
        if clear { switch.clear_meter_colours(id, index) } else { Ok(()) }
    }))
}

/// Plans an update of an entry's meter.
pub(in crate::server) fn plan_direct(
    kind: update::Type,
    entry: message::DirectMeterEntry,
) -> Result<Operation, Refusal> {
    check(kind)?;
    let table = entry.table_entry.ok_or_else(|| Refusal::invalid("the direct meter names no table entry"))?;
    let config = entry.config.as_ref().map(convert::meter_config).transpose()?;
    let clear = convert::clears_colours(entry.counter_data.as_ref())?;
    let entry = convert::entry_ref(table)?;
    Ok(Operation::new(Part::Table(entry.table_id()), move |switch| {
        switch.set_direct_meter(&entry, config)?;
        if clear { switch.clear_direct_colours(&entry) } else { Ok(()) }
    }))
}

/// Plans a read of a meter array, or of all arrays.
pub(in crate::server) fn query(entry: &message::MeterEntry, p4info: &P4Info) -> Result<Vec<Query>, Refusal> {
    let all = || {
        let known = p4info.message().meters.iter().filter_map(|meter| meter.preamble.as_ref());
        known.map(|preamble| preamble.id).collect()
    };
    let meters: Vec<u32> = if entry.meter_id == 0 { all() } else { vec![entry.meter_id] };
    let index = convert::index(entry.index.as_ref())?;
    let colours = entry.counter_data.is_some();
    Ok(meters.into_iter().map(|meter| Query::Meter { meter, index, colours }).collect())
}

/// Plans a read of entries' meters.
pub(in crate::server) fn query_direct(
    entry: message::DirectMeterEntry,
    p4info: &P4Info,
) -> Result<Vec<Query>, Refusal> {
    let missing = || Refusal::invalid("the direct meter names no table entry");
    let show = Show::DirectMeter { colours: entry.counter_data.is_some() };
    tables::query(entry.table_entry.ok_or_else(missing)?, show, p4info)
}

fn check(kind: update::Type) -> Result<(), Refusal> {
    if kind != update::Type::Modify {
        return Err(Refusal::invalid("a meter is neither inserted nor deleted: modify it"));
    }
    Ok(())
}

/// Returns one cell as an entity.
pub(in crate::server) fn entity(
    meter_id: u32,
    index: i64,
    config: Option<MeterConfig>,
    colours: Option<MeterColours>,
) -> Entity {
    let index = Some(message::Index { index });
    let (config, counter_data) =
        (config.map(convert::meter_config_message), colours.map(convert::colours_message));
    let entry = message::MeterEntry { meter_id, index, config, counter_data };
    Entity { entity: Some(Kind::MeterEntry(entry)) }
}
