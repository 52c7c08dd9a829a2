//! Checksums: what they cover, and when they are verified or updated.

use super::emitter::Emitter;
use super::expression::Expressions;
use super::fault::{malformed, unsupported};
use super::layout::{Layout, Storage};
use super::term::{Scope, Term};
use crate::error::LoadError;
use crate::json::expression::Expr;
use crate::json::{self, Document};
use crate::program::{self, ChecksumPart, Op, lines_for};

/// Compiles the checksums that are to be verified (or updated), and adds them to `checksums`.
pub(super) fn compile(
    document: &Document,
    verify: bool,
    layout: &Layout,
    checksums: &mut Vec<program::Checksum>,
    out: &mut Emitter,
) -> Result<(), LoadError> {
    for checksum in &document.checksums {
        if verify && !checksum.verify || !verify && !checksum.update {
            continue;
        }
        let place = format!("checksum {}", checksum.name);
        let calculation = document.calculations.iter().find(|known| known.name == checksum.calculation);
        let calculation = calculation
            .ok_or_else(|| malformed(&place, format!("there is no calculation {}", checksum.calculation)))?;
        let target = layout.field(&checksum.target.0, &checksum.target.1, &place)?;
        let Storage::Word(target) = target.place else {
            return Err(malformed(&place, "its field is too wide"));
        };
        let index = checksums.len() as u16;
        checksums.push(program::Checksum { target, parts: parts(calculation, layout, out)? });
        let skip = out.label();
        if let Some(condition) = checksum.if_cond.as_ref().filter(|condition| !condition.is_null()) {
            let scope = Scope { layout, locals: &[], place: &place, in_parser: false };
            let condition = Term::resolve(&Expr::read(condition, &place)?, &scope)?;
            Expressions::new(out, &place).branch(&condition, false, skip)?;
        }
        out.push(match verify {
            true => Op::VerifyChecksum { checksum: index },
            false => Op::UpdateChecksum { checksum: index },
        });
        out.bind(skip);
    }
    Ok(())
}

/// The inputs, each with the shift that aligns it to the end of a 16-bit word.
fn parts(
    calculation: &json::Calculation,
    layout: &Layout,
    out: &mut Emitter,
) -> Result<Vec<ChecksumPart>, LoadError> {
    let place = format!("calculation {}", calculation.name);
    if calculation.algo != "csum16" {
        return Err(unsupported(&place, format!("the algorithm '{}'", calculation.algo)));
    }
    let mut parts = Vec::new();
    let mut end = 0_u32;
    for input in &calculation.input {
        if input.kind != "field" && input.kind != "hexstr" {
            return Err(unsupported(&place, format!("a checksum over something of type '{}'", input.kind)));
        }
        let json = serde_json::json!({ "type": input.kind, "value": input.value });
        let scope = Scope { layout, locals: &[], place: &place, in_parser: false };
        let term = Term::resolve(&Expr::read(&json, &place)?, &scope)?;
        let bits = input.bitwidth.unwrap_or(term.bound.bits);
        if bits == 0 || bits > program::MAX_BITS || term.bound.signed || term.bound.bits > bits {
            return Err(malformed(&place, format!("an input of {bits} bits")));
        }
        end = end.checked_add(bits).ok_or_else(|| malformed(&place, "it is too long"))?;
        let shift = ((16 - end % 16) % 16) as u8;
        let mut inputs = Expressions::new(out, &place);
        parts.push(if bits <= 64 {
            ChecksumPart::Word(inputs.word(&term, bits)?, shift)
        } else {
            ChecksumPart::Lines(inputs.whole_lines(&term, bits)?, lines_for(bits) as u8, shift)
        });
    }
    Ok(parts)
}
