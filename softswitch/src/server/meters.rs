//! Meters: between P4Runtime's messages and the switch's own types.

use tributary_p4runtime::P4Info;
use tributary_p4runtime::p4::v1::{self as message, Entity, entity::Entity as Kind, update};

use super::convert;
use super::read::{Query, Show, tables};
use super::status::Refusal;
use super::write::Operation;
use crate::control::MeterConfig;

/// Plans an update of a meter array. As the specification says, only MODIFY is there.
pub(super) fn plan(kind: update::Type, entry: &message::MeterEntry) -> Result<Operation, Refusal> {
    check(kind, entry.counter_data.as_ref())?;
    let index = convert::index(entry.index.as_ref())?;
    let config = entry.config.as_ref().map(config).transpose()?;
    Ok(Operation::SetMeter { meter_id: entry.meter_id, index, config })
}

/// Plans an update of an entry's meter.
pub(super) fn plan_direct(
    kind: update::Type,
    entry: message::DirectMeterEntry,
) -> Result<Operation, Refusal> {
    check(kind, entry.counter_data.as_ref())?;
    let table = entry.table_entry.ok_or_else(|| Refusal::invalid("the direct meter names no table entry"))?;
    if table.is_default_action {
        return Err(Refusal::unimplemented("a meter of a default action"));
    }
    let config = entry.config.as_ref().map(config).transpose()?;
    let key = convert::key(table.table_id, table.r#match, table.priority)?;
    Ok(Operation::SetDirectMeter(key, config))
}

/// Plans a read of a meter array, or of all.
pub(super) fn query(entry: &message::MeterEntry, p4info: &P4Info) -> Result<Vec<Query>, Refusal> {
    no_colours(entry.counter_data.as_ref())?;
    let all = || {
        let known = p4info.message().meters.iter().filter_map(|meter| meter.preamble.as_ref());
        known.map(|preamble| preamble.id).collect()
    };
    let meters: Vec<u32> = if entry.meter_id == 0 { all() } else { vec![entry.meter_id] };
    let index = convert::index(entry.index.as_ref())?;
    Ok(meters.into_iter().map(|meter| Query::Meter { meter, index }).collect())
}

/// Plans a read of entries' meters.
pub(super) fn query_direct(entry: message::DirectMeterEntry, p4info: &P4Info) -> Result<Vec<Query>, Refusal> {
    no_colours(entry.counter_data.as_ref())?;
    let missing = || Refusal::invalid("the direct meter names no table entry");
    tables(entry.table_entry.ok_or_else(missing)?, Show::DirectMeter, p4info)
}

fn check(kind: update::Type, colours: Option<&message::MeterCounterData>) -> Result<(), Refusal> {
    no_colours(colours)?;
    if kind != update::Type::Modify {
        return Err(Refusal::invalid("a meter is neither inserted nor deleted: modify it"));
    }
    Ok(())
}

/// Counters by colour are optional, and BMv2 has none either.
pub(super) fn no_colours(colours: Option<&message::MeterCounterData>) -> Result<(), Refusal> {
    match colours {
        Some(_) => Err(Refusal::unimplemented("a meter's counters by colour")),
        None => Ok(()),
    }
}

/// The rates in a message.
pub(super) fn config(message: &message::MeterConfig) -> Result<MeterConfig, Refusal> {
    if message.eburst != 0 {
        return Err(Refusal::invalid("a meter with two rates has no excess burst: leave eburst out"));
    }
    let rate = |name: &str, value: i64| {
        u64::try_from(value).map_err(|_| Refusal::invalid(format!("a meter's {name} can't be negative")))
    };
    Ok(MeterConfig {
        committed_rate: rate("cir", message.cir)?,
        committed_burst: rate("cburst", message.cburst)?,
        peak_rate: rate("pir", message.pir)?,
        peak_burst: rate("pburst", message.pburst)?,
    })
}

/// Rates as a message.
pub(super) fn config_message(config: MeterConfig) -> message::MeterConfig {
    message::MeterConfig {
        cir: config.committed_rate.cast_signed(),
        cburst: config.committed_burst.cast_signed(),
        pir: config.peak_rate.cast_signed(),
        pburst: config.peak_burst.cast_signed(),
        eburst: 0,
    }
}

/// One cell as an entity.
pub(super) fn entity(meter_id: u32, index: i64, config: Option<MeterConfig>) -> Entity {
    let index = Some(message::Index { index });
    let config = config.map(config_message);
    let entry = message::MeterEntry { meter_id, index, config, counter_data: None };
    Entity { entity: Some(Kind::MeterEntry(entry)) }
}
