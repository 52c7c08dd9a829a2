//! Action profiles, and the fields over which selectors hash.

use super::calculation;
use super::emitter::Emitter;
use super::fault::unsupported;
use super::layout::Layout;
use crate::error::LoadError;
use crate::json;
use crate::program::{Calculation, ProfileProgram};

/// The hashes that p4c has for selectors.
const HASHES: [&str; 5] = ["identity", "crc16", "crc32", "csum16", "xor16"];

/// Describes a profile, to which no table refers yet.
pub(super) fn profile(
    profile: &json::ActionProfile,
    layout: &Layout,
    out: &mut Emitter,
) -> Result<ProfileProgram, LoadError> {
    let place = format!("action profile {}", profile.name);
    let selector = profile.selector.as_ref();
    let selector = selector.map(|selector| self::selector(selector, layout, &place, out)).transpose()?;
    Ok(ProfileProgram { name: profile.name.clone(), selector, tables: Vec::new() })
}

fn selector(
    selector: &json::Selector,
    layout: &Layout,
    place: &str,
    out: &mut Emitter,
) -> Result<Calculation, LoadError> {
    if !HASHES.contains(&selector.algo.as_str()) {
        return Err(unsupported(place, format!("a selector with the hash '{}'", selector.algo)));
    }
    if let Some(other) = selector.input.iter().find(|input| input.kind != "field") {
        return Err(unsupported(place, format!("a selector over a '{}'", other.kind)));
    }
    calculation::calculation(&selector.algo, &selector.input, layout, place, out)
}
