//! Checksums: the fields that they cover, and the conditions under which they are verified or
//! updated.

use super::emitter::Emitter;
use super::expression::Expressions;
use super::fault::malformed;
use super::layout::{Slot, Storage};
use super::objects::Objects;
use super::resolve::Scope;
use super::term::Term;
use crate::error::LoadError;
use crate::json::expression::Expr;
use crate::program::{
    self, Algorithm, Calculation, CalculationInput, ChecksumPart, Note, Op, Place, lines_for,
};

/// Compiles the checksums that the switch verifies (or updates), and adds them to `checksums`.
pub(super) fn compile(
    objects: &Objects<'_>,
    verify: bool,
    calculations: &[Calculation],
    checksums: &mut Vec<program::Checksum>,
    out: &mut Emitter,
) -> Result<(), LoadError> {
    let Objects { document, layout, .. } = *objects;
    for checksum in &document.checksums {
        if verify && !checksum.verify || !verify && !checksum.update {
            continue;
        }
        let place = format!("checksum {}", checksum.name);
        let calculation = document.calculations.iter().position(|known| known.name == checksum.calculation);
        let calculation = calculation
            .ok_or_else(|| malformed(&place, format!("there is no calculation {}", checksum.calculation)))?;
        let target = layout.field(&checksum.target.0, &checksum.target.1, &place)?;
        let Slot { place: Storage::Word(target), bits, .. } = target else {
            return Err(malformed(&place, "its field is too wide"));
        };
        let index = checksums.len() as u16;
        checksums.push(program::Checksum {
            target,
            mask: u64::MAX >> (64 - bits),
            calculation: calculation as u16,
            sum: calculations.get(calculation).and_then(sum),
        });
        let skip = out.label();
        if let Some(condition) = checksum.if_cond.as_ref().filter(|condition| !condition.is_null()) {
            let scope = Scope { layout, locals: &[], place: &place, in_parser: false };
            let condition = Term::resolve(&Expr::read(condition, &place)?, &scope)?;
            Expressions::new(out, &place).branch(&condition, false, skip)?;
        }
        if verify {
            let (header, field) = &checksum.target;
            let field = format!("{header}.{field}");
            objects.note(|| Note::Verify { checksum: index, field, field_bits: bits }, out);
        }
        out.push(match verify {
            true => Op::VerifyChecksum { checksum: index },
            false => Op::UpdateChecksum { checksum: index },
        });
        out.bind(skip);
    }
    Ok(())
}

/// Returns the form of an Internet checksum as a sum of fields, or `None` for other checksums.
/// Each field has the shift that aligns it to the end of a 16-bit word.
fn sum(calculation: &Calculation) -> Option<program::FieldSum> {
    if calculation.algorithm != Algorithm::Internet || calculation.payload {
        return None;
    }
    let (mut parts, mut headers) = (Vec::new(), Vec::new());
    let mut end = 0_u32;
    for input in &calculation.inputs {
        let CalculationInput::Field { place, bits, length: None, valid } = *input else { return None };
        headers.extend(valid.filter(|word| !headers.contains(word)));
        end = end.checked_add(bits)?;
        let shift = ((16 - end % 16) % 16) as u8;
        parts.push(match place {
            Place::Word(word) => ChecksumPart::Word(word, shift),
            Place::Lines(line) => ChecksumPart::Lines(line, lines_for(bits) as u8, shift),
        });
    }
    Some(program::FieldSum { parts, headers })
}
