//! Meters: between P4Runtime's messages and the switch's own types.

use tributary_p4runtime::P4Info;
use tributary_p4runtime::p4::v1::{self as message, Entity, entity::Entity as Kind, update};

use crate::control::{MeterColours, MeterConfig};
use crate::server::convert;
use crate::server::operation::Operation;
use crate::server::query::{Query, Show};
use crate::server::read::tables;
use crate::server::status::Refusal;

/// Plans an update of a meter array. As in the specification, only MODIFY is valid.
pub(in crate::server) fn plan(kind: update::Type, entry: &message::MeterEntry) -> Result<Operation, Refusal> {
    check(kind)?;
    let index = convert::index(entry.index.as_ref())?;
    let config = entry.config.as_ref().map(config).transpose()?;
    let clear = clears(entry.counter_data.as_ref())?;
    Ok(Operation::SetMeter { meter_id: entry.meter_id, index, config, clear })
}

/// Plans an update of an entry's meter.
pub(in crate::server) fn plan_direct(
    kind: update::Type,
    entry: message::DirectMeterEntry,
) -> Result<Operation, Refusal> {
    check(kind)?;
    let table = entry.table_entry.ok_or_else(|| Refusal::invalid("the direct meter names no table entry"))?;
    let config = entry.config.as_ref().map(config).transpose()?;
    let clear = clears(entry.counter_data.as_ref())?;
    Ok(Operation::SetDirectMeter { entry: convert::entry_ref(table)?, config, clear })
}

/// Plans a read of a meter array, or of all.
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
    tables(entry.table_entry.ok_or_else(missing)?, show, p4info)
}

fn check(kind: update::Type) -> Result<(), Refusal> {
    if kind != update::Type::Modify {
        return Err(Refusal::invalid("a meter is neither inserted nor deleted: modify it"));
    }
    Ok(())
}

/// Whether an update sets a meter's counters by colour to zero. It can give them no other value.
pub(in crate::server) fn clears(colours: Option<&message::MeterCounterData>) -> Result<bool, Refusal> {
    let Some(message::MeterCounterData { green, yellow, red }) = colours else { return Ok(false) };
    let counts = [green, yellow, red].into_iter().flatten();
    if counts.clone().any(|count| count.packet_count != 0 || count.byte_count != 0) {
        return Err(Refusal::invalid("a meter's counters by colour can be set to 0 only"));
    }
    Ok(true)
}

/// What a meter has marked, as a message.
pub(in crate::server) fn colours_message(colours: MeterColours) -> message::MeterCounterData {
    let [green, yellow, red] =
        [colours.green, colours.yellow, colours.red].map(|count| Some(convert::counter_data(count)));
    message::MeterCounterData { green, yellow, red }
}

/// The rates in a message.
pub(in crate::server) fn config(message: &message::MeterConfig) -> Result<MeterConfig, Refusal> {
    let rate = |name: &str, value: i64| {
        u64::try_from(value).map_err(|_| Refusal::invalid(format!("a meter's {name} can't be negative")))
    };
    Ok(MeterConfig {
        committed_rate: rate("cir", message.cir)?,
        committed_burst: rate("cburst", message.cburst)?,
        peak_rate: rate("pir", message.pir)?,
        peak_burst: rate("pburst", message.pburst)?,
        excess_burst: rate("eburst", message.eburst)?,
    })
}

/// Rates as a message.
pub(in crate::server) fn config_message(config: MeterConfig) -> message::MeterConfig {
    message::MeterConfig {
        cir: config.committed_rate.cast_signed(),
        cburst: config.committed_burst.cast_signed(),
        pir: config.peak_rate.cast_signed(),
        pburst: config.peak_burst.cast_signed(),
        eburst: config.excess_burst.cast_signed(),
    }
}

/// One cell as an entity.
pub(in crate::server) fn entity(
    meter_id: u32,
    index: i64,
    config: Option<MeterConfig>,
    colours: Option<MeterColours>,
) -> Entity {
    let index = Some(message::Index { index });
    let (config, counter_data) = (config.map(config_message), colours.map(colours_message));
    let entry = message::MeterEntry { meter_id, index, config, counter_data };
    Entity { entity: Some(Kind::MeterEntry(entry)) }
}
