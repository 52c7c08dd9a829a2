//! The steps that a program reports to the packet log.

use super::emitter::Emitter;
use super::layout::Layout;
use super::objects::Objects;
use crate::json::{Conditional, Document, SourceInfo, Table};
use crate::program::{HeaderNames, Note, Notes, Op, Source};

impl Objects<'_> {
    /// Emits a step, if the program is compiled for the packet log.
    pub(super) fn note(&self, note: impl FnOnce() -> Note, out: &mut Emitter) {
        let Some(notes) = &self.notes else { return };
        let mut notes = notes.borrow_mut();
        // The log leaves out steps whose index does not fit into 16 bits.
        if let Ok(index) = u16::try_from(notes.len()) {
            notes.push(note());
            out.push(Op::Note { note: index });
        }
    }
}

/// Returns the names and steps of a program that the packet log needs.
pub(super) fn notes(notes: Vec<Note>, layout: &Layout, document: &Document) -> Notes {
    let mut headers = layout.names();
    for header in &mut headers {
        let HeaderNames { name, fields, .. } = header;
        fields.retain(|field| !is_noise(name, &field.name));
    }
    Notes { notes, headers, errors: document.errors.clone() }
}

/// Returns true if the log omits changes of a field.
///
/// These are p4c's own variables, and fields whose changes are reported by other events.
fn is_noise(header: &str, field: &str) -> bool {
    let numbered = |prefix: &str| {
        let number = field.strip_prefix(prefix)?.strip_prefix('_')?;
        Some(number.bytes().all(|byte| byte.is_ascii_digit()))
    };
    match header {
        "scalars" => field == "tmp" || numbered("tmp") == Some(true) || numbered("key") == Some(true),
        "standard_metadata" => ["parser_error", "checksum_error", "_padding"].contains(&field),
        _ => false,
    }
}

/// Returns the step of a condition with the result `holds`.
pub(super) fn condition(node: &Conditional, holds: bool) -> Note {
    let condition = node.source_info.text().unwrap_or(&node.name).to_owned();
    Note::Condition { condition, holds, source: source(&node.source_info) }
}

/// Returns the step of a table lookup.
pub(super) fn table(index: u16, table: &Table, document: &Document) -> Note {
    let parameters = |id: &u64| {
        let action = document.actions.iter().find(|action| action.id == *id);
        let parameters = action.into_iter().flat_map(|action| &action.runtime_data);
        parameters.map(|parameter| parameter.name.clone()).collect()
    };
    let parameters = table.action_ids.iter().map(parameters).collect();
    Note::Table { table: index, parameters, source: source(&table.source_info) }
}

/// Returns the step of statements that p4c has turned into a table or a call with a generated name.
pub(super) fn statements(info: &SourceInfo, name: &str) -> Note {
    Note::Statements { statements: info.text().unwrap_or(name).to_owned(), source: source(info) }
}

fn source(info: &SourceInfo) -> Option<Source> {
    let (file, line) = info.position()?;
    Some(Source { file: file.to_owned(), line })
}
