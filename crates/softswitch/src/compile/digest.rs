//! Digests: the fields whose values the switch sends to the controller.

use serde_json::Value;

use super::fault::{malformed, unsupported};
use super::layout::{Layout, Storage};
use crate::error::LoadError;
use crate::json::Document;
use crate::program::{DigestFields, DigestProgram, KeySource};

/// Compiles all field lists, in the order of the JSON, and the digests to which they belong.
///
/// Lists with the same name belong to the same digest.
pub(super) fn compile(
    document: &Document,
    layout: &Layout,
) -> Result<(Vec<DigestProgram>, Vec<DigestFields>), LoadError> {
    let mut digests: Vec<DigestProgram> = Vec::new();
    let mut lists = Vec::new();
    for list in &document.learn_lists {
        let place = format!("digest {}", list.name);
        let (mut widths, mut sources) = (Vec::new(), Vec::new());
        for element in &list.elements {
            if element.kind != "field" {
                return Err(unsupported(&place, format!("an element of type '{}'", element.kind)));
            }
            let name = |at: usize| element.value.get(at).and_then(Value::as_str);
            let (header, field) = name(0)
                .zip(name(1))
                .ok_or_else(|| malformed(&place, format!("{} is not a field", element.value)))?;
            let slot = layout.field(header, field, &place)?;
            widths.push(slot.bits);
            sources.push(match slot.place {
                Storage::Word(word) => KeySource::Word(word),
                Storage::Lines(line) => KeySource::Lines(line, slot.bits.div_ceil(64) as usize),
            });
        }
        let known = digests.iter().position(|digest| digest.name == list.name);
        let digest = known.unwrap_or_else(|| {
            digests.push(DigestProgram { name: list.name.clone(), widths: widths.clone() });
            digests.len() - 1
        });
        if digests[digest].widths != widths {
            return Err(malformed(&place, "it is told with fields of different widths"));
        }
        lists.push(DigestFields { digest, sources });
    }
    Ok((digests, lists))
}

/// Returns the index of a list that a primitive names by its id.
pub(super) fn index(id: u64, document: &Document, place: &str) -> Result<u16, LoadError> {
    let at = document.learn_lists.iter().position(|list| list.id == id);
    // The index fits, because the number of lists was checked.
    at.map(|at| at as u16).ok_or_else(|| malformed(place, format!("there is no digest with id {id}")))
}
