//! Calculations: hashes and checksums of fields, headers and payloads.

use super::emitter::Emitter;
use super::fault::{malformed, unsupported};
use super::layout::{Layout, Slot, Storage};
use crate::error::LoadError;
use crate::json::number::Number;
use crate::json::{self, Document};
use crate::program::{Algorithm, Calculation, CalculationInput, LIMBS, MAX_BITS, Place, lines_for};

/// Compiles all calculations of a program, in the order of the JSON.
pub(super) fn compile(
    document: &Document,
    layout: &Layout,
    out: &mut Emitter,
) -> Result<Vec<Calculation>, LoadError> {
    let one = |one: &json::Calculation| {
        calculation(&one.algo, &one.input, layout, &format!("calculation {}", one.name), out)
    };
    document.calculations.iter().map(one).collect()
}

/// Compiles one calculation.
pub(super) fn calculation(
    algorithm: &str,
    inputs: &[json::CalculationInput],
    layout: &Layout,
    place: &str,
    out: &mut Emitter,
) -> Result<Calculation, LoadError> {
    let algorithm = match algorithm {
        "csum16" | "cksum16" => Algorithm::Internet,
        "crc32" | "crc32_custom" => Algorithm::Crc32,
        "crc16" | "crc16_custom" => Algorithm::Crc16,
        "crcCCITT" => Algorithm::CrcCcitt,
        "xor16" => Algorithm::Xor16,
        "identity" => Algorithm::Identity,
        "random" => Algorithm::Random,
        other => return Err(unsupported(place, format!("the algorithm '{other}'"))),
    };
    let mut compiled = Calculation { algorithm, inputs: Vec::new(), payload: false };
    for input in inputs {
        match input.kind.as_str() {
            "payload" => compiled.payload = true,
            _ => compiled.inputs.push(self::input(input, layout, place, out)?),
        }
    }
    Ok(compiled)
}

fn input(
    input: &json::CalculationInput,
    layout: &Layout,
    place: &str,
    out: &mut Emitter,
) -> Result<CalculationInput, LoadError> {
    match input.kind.as_str() {
        "field" => {
            let name = |i: usize| input.value.get(i).and_then(serde_json::Value::as_str);
            let (header, field) =
                name(0).zip(name(1)).ok_or_else(|| malformed(place, "an input is not a field"))?;
            let slot = layout.field(header, field, place)?;
            let valid = layout.header(header, place)?.validity();
            Ok(CalculationInput::Field { place: place_of(slot), bits: slot.bits, length: slot.length, valid })
        }
        "hexstr" => {
            let number = input.value.as_str().and_then(Number::parse);
            let number = number.ok_or_else(|| malformed(place, "an input is not a number"))?;
            let bits = input.bitwidth.unwrap_or_else(|| number.bits());
            if bits == 0 || bits > MAX_BITS || number.is_negative() || number.bits() > bits {
                return Err(malformed(place, format!("an input of {bits} bits")));
            }
            let place = if bits <= 64 {
                Place::Word(out.word_constant(number.limb(0)))
            } else {
                let limbs = usize::from(lines_for(bits)) * LIMBS;
                Place::Lines(out.line_constant((0..limbs).map(|limb| number.limb(limb)).collect()))
            };
            Ok(CalculationInput::Field { place, bits, length: None, valid: None })
        }
        "header" => {
            let name = input.value.as_str();
            let name = name.ok_or_else(|| malformed(place, "an input is not a header"))?;
            layout.wire_header(name, place).map(CalculationInput::Header)
        }
        other => Err(unsupported(place, format!("a calculation over something of type '{other}'"))),
    }
}

fn place_of(slot: Slot) -> Place {
    match slot.place {
        Storage::Word(word) => Place::Word(word),
        Storage::Lines(line) => Place::Lines(line),
    }
}
