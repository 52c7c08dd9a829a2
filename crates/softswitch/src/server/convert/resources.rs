//! Converts counters and meters.

use tributary_p4runtime::p4::v1 as message;

use crate::control::{CounterValue, MeterColours, MeterConfig};
use crate::server::status::Refusal;

/// Converts the value of a counter.
pub(in crate::server) fn counter_value(data: &message::CounterData) -> CounterValue {
    CounterValue { packets: data.packet_count.cast_unsigned(), bytes: data.byte_count.cast_unsigned() }
}

/// Converts the value of a counter to a message.
pub(in crate::server) fn counter_data(value: CounterValue) -> message::CounterData {
    message::CounterData { byte_count: value.bytes.cast_signed(), packet_count: value.packets.cast_signed() }
}

/// Returns true if an update clears a meter's counts of marked packets.
///
/// An update cannot set them to other values.
pub(in crate::server) fn clears_colours(
    colours: Option<&message::MeterCounterData>,
) -> Result<bool, Refusal> {
    let Some(message::MeterCounterData { green, yellow, red }) = colours else { return Ok(false) };
    let counts = [green, yellow, red].into_iter().flatten();
    if counts.clone().any(|count| count.packet_count != 0 || count.byte_count != 0) {
        return Err(Refusal::invalid("a meter's counters by colour can be set to 0 only"));
    }
    Ok(true)
}

/// Converts the packets and bytes that a meter has marked to a message.
pub(in crate::server) fn colours_message(colours: MeterColours) -> message::MeterCounterData {
    let [green, yellow, red] =
        [colours.green, colours.yellow, colours.red].map(|count| Some(counter_data(count)));
    message::MeterCounterData { green, yellow, red }
}

/// Converts the rates in a message.
pub(in crate::server) fn meter_config(message: &message::MeterConfig) -> Result<MeterConfig, Refusal> {
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

/// Converts rates to a message.
pub(in crate::server) fn meter_config_message(config: MeterConfig) -> message::MeterConfig {
    message::MeterConfig {
        cir: config.committed_rate.cast_signed(),
        cburst: config.committed_burst.cast_signed(),
        pir: config.peak_rate.cast_signed(),
        pburst: config.peak_burst.cast_signed(),
        eburst: config.excess_burst.cast_signed(),
    }
}
