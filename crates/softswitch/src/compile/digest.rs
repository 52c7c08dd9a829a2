//! Digests: the fields whose values the switch sends to the controller.

use super::fault::malformed;
use super::field_list;
use super::layout::{Layout, Slot, Storage};
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
        let slots = field_list::slots(list, layout, &place)?;
        let widths: Vec<u32> = slots.iter().map(|slot| slot.bits).collect();
        let source = |slot: &Slot| match slot.place {
            Storage::Word(word) => KeySource::Word(word),
            Storage::Lines(line) => KeySource::Lines(line, slot.bits.div_ceil(64) as usize),
        };
        let sources = slots.iter().map(source).collect();
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
