//! Meter arrays, and the direct meters of table entries.

use super::fault::{malformed, too_many, unsupported};
use super::layout::{Layout, Storage};
use crate::error::LoadError;
use crate::json::{self, Document};
use crate::program::{DirectMeter, MeterKind, MeterProgram, MeterUnit};

/// The maximum number of meters in all arrays of a program together.
const MAX_METERS: u64 = 1 << 22;

/// Returns the meter arrays that actions name, in the order of the JSON.
pub(super) fn arrays(document: &Document) -> Result<Vec<MeterProgram>, LoadError> {
    let mut all = 0_u64;
    let mut meters = Vec::new();
    for meter in indirect(document) {
        all = all.saturating_add(meter.size);
        if all > MAX_METERS {
            return Err(too_many(&format!("meter {}", meter.name), "meters"));
        }
        let kind = MeterKind::default();
        meters.push(MeterProgram { size: meter.size as usize, unit: unit(meter)?, kind });
    }
    Ok(meters)
}

/// Returns the index of an array that an action names.
pub(super) fn index(name: &str, document: &Document, place: &str) -> Result<u16, LoadError> {
    let index = indirect(document).position(|meter| meter.name == name);
    index.map(|index| index as u16).ok_or_else(|| malformed(place, format!("there is no meter array {name}")))
}

/// Returns the direct meter that a table names.
pub(super) fn direct(
    name: &str,
    document: &Document,
    layout: &Layout,
    place: &str,
) -> Result<DirectMeter, LoadError> {
    let meter = document.meter_arrays.iter().find(|meter| meter.is_direct && meter.name == name);
    let meter = meter.ok_or_else(|| malformed(place, format!("there is no direct meter {name}")))?;
    let (header, field) = meter
        .result_target
        .as_ref()
        .ok_or_else(|| malformed(place, format!("the meter {name} has no field for its result")))?;
    match layout.field(header, field, place)? {
        slot if slot.bits < 2 => Err(unsupported(place, format!("the result of meter {name} in one bit"))),
        slot => match slot.place {
            Storage::Word(target) => {
                Ok(DirectMeter { unit: unit(meter)?, kind: MeterKind::default(), target })
            }
            Storage::Lines(_) => {
                Err(unsupported(place, format!("the result of meter {name} in {} bits", slot.bits)))
            }
        },
    }
}

fn indirect(document: &Document) -> impl Iterator<Item = &json::MeterArray> {
    document.meter_arrays.iter().filter(|meter| !meter.is_direct)
}

fn unit(meter: &json::MeterArray) -> Result<MeterUnit, LoadError> {
    let place = format!("meter {}", meter.name);
    if meter.rate_count != 2 {
        return Err(unsupported(&place, format!("a meter with {} rates", meter.rate_count)));
    }
    match meter.kind.as_str() {
        "packets" => Ok(MeterUnit::Packets),
        "bytes" => Ok(MeterUnit::Bytes),
        other => Err(malformed(&place, format!("a meter counts packets or bytes, not '{other}'"))),
    }
}
