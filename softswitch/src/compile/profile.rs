//! Action profiles, and the fields over which selectors hash.

use serde_json::Value;

use super::fault::{malformed, unsupported};
use super::layout::{Layout, Storage};
use crate::error::LoadError;
use crate::json;
use crate::profiles::{Algorithm, Input, ProfileProgram, SelectorProgram};
use crate::program::KeySource;

/// Describes a profile, to which no table refers yet.
pub(super) fn profile(profile: &json::ActionProfile, layout: &Layout) -> Result<ProfileProgram, LoadError> {
    let place = format!("action profile {}", profile.name);
    let selector = profile.selector.as_ref();
    let selector = selector.map(|selector| self::selector(selector, layout, &place)).transpose()?;
    Ok(ProfileProgram { name: profile.name.clone(), selector, tables: Vec::new() })
}

fn selector(selector: &json::Selector, layout: &Layout, place: &str) -> Result<SelectorProgram, LoadError> {
    let algorithm = Algorithm::named(&selector.algo);
    let algorithm = algorithm
        .ok_or_else(|| unsupported(place, format!("a selector with the hash '{}'", selector.algo)))?;
    let mut input = Vec::new();
    for element in &selector.input {
        if element.kind != "field" {
            return Err(unsupported(place, format!("a selector over a '{}'", element.kind)));
        }
        let name = |at: usize| element.value.get(at).and_then(Value::as_str);
        let (header, field) = name(0)
            .zip(name(1))
            .ok_or_else(|| malformed(place, format!("{} is not a field", element.value)))?;
        let slot = layout.field(header, field, place)?;
        let source = match slot.place {
            Storage::Word(word) => KeySource::Word(word),
            Storage::Lines(line) => KeySource::Lines(line, slot.bits.div_ceil(64) as usize),
        };
        let valid = if layout.header(header, place)?.metadata {
            None
        } else {
            match layout.field(header, "$valid$", place)?.place {
                Storage::Word(word) => Some(word),
                Storage::Lines(_) => None,
            }
        };
        input.push(Input { source, bits: slot.bits, valid });
    }
    Ok(SelectorProgram { algorithm, input })
}
