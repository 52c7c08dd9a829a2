//! Lists of fields that packets keep when they are cloned, resubmitted or recirculated.

use serde_json::Value;

use super::fault::{malformed, unsupported};
use super::layout::{Layout, Slot, Storage};
use crate::error::LoadError;
use crate::json::{self, Document, ListElement};
use crate::program::{FieldList, lines_for};

/// Compiles all lists, in the order of the JSON, and puts an empty list in front of them.
pub(super) fn compile(document: &Document, layout: &Layout) -> Result<Vec<FieldList>, LoadError> {
    let mut lists = vec![FieldList::default()];
    for list in &document.field_lists {
        lists.push(fields(list, layout)?);
    }
    Ok(lists)
}

/// Returns the index of a list that a primitive names by its id. 0 stands for a list without
/// fields.
pub(super) fn index(id: u64, document: &Document, place: &str) -> Result<u16, LoadError> {
    if id == 0 {
        return Ok(0);
    }
    let at = document.field_lists.iter().position(|list| list.id == id);
    // The index fits, because the number of lists was checked.
    at.map(|at| at as u16 + 1).ok_or_else(|| malformed(place, format!("there is no field list {id}")))
}

fn fields(list: &json::FieldList, layout: &Layout) -> Result<FieldList, LoadError> {
    let mut fields = FieldList::default();
    for slot in slots(list, layout, &format!("field list {}", list.name))? {
        match slot.place {
            Storage::Word(word) => fields.words.push(word),
            Storage::Lines(line) => fields.lines.push((line, lines_for(slot.bits))),
        }
    }
    Ok(fields)
}

/// Returns the slots of a list's fields. `place` names the list in errors.
pub(super) fn slots(list: &json::FieldList, layout: &Layout, place: &str) -> Result<Vec<Slot>, LoadError> {
    let slot = |element: &ListElement| {
        if element.kind != "field" {
            return Err(unsupported(place, format!("an element of type '{}'", element.kind)));
        }
        let name = |at: usize| element.value.get(at).and_then(Value::as_str);
        let (header, field) = name(0)
            .zip(name(1))
            .ok_or_else(|| malformed(place, format!("{} is not a field", element.value)))?;
        layout.field(header, field, place)
    };
    list.elements.iter().map(slot).collect()
}
