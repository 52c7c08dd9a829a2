//! Checks that the BMv2 JSON and the P4Info belong to the same program, and ties the P4Info's ids to the JSON's
//! objects.

mod externs;

use std::collections::BTreeMap;

use tributary_p4runtime::P4Info;
use tributary_p4runtime::p4info::{self, MatchType, Scope};

use crate::error::LoadError;
use crate::json::{self, Document};
use crate::program::{MatchKind, Program, TableProgram};

/// The ids by which the P4Info names the objects of a program.
#[derive(Debug, Default)]
pub(crate) struct Directory {
    /// By id.
    pub(crate) tables: BTreeMap<u32, TableIds>,
    /// Index by id.
    pub(crate) counters: BTreeMap<u32, usize>,
    /// Index by id.
    pub(crate) meters: BTreeMap<u32, usize>,
    /// Index by id.
    pub(crate) registers: BTreeMap<u32, usize>,
    /// By id.
    pub(crate) value_sets: BTreeMap<u32, ValueSetIds>,
    /// Index by id.
    pub(crate) digests: BTreeMap<u32, usize>,
    /// By id.
    pub(crate) profiles: BTreeMap<u32, ProfileIds>,
}

/// A value set's ids.
#[derive(Debug)]
pub(crate) struct ValueSetIds {
    /// Index in the program.
    pub(crate) index: usize,
    /// Ids of its fields, in order.
    pub(crate) fields: Vec<u32>,
}

/// An action profile's ids and bounds.
#[derive(Debug)]
pub(crate) struct ProfileIds {
    /// Its name, for messages.
    pub(crate) name: String,
    /// Index in the program.
    pub(crate) index: usize,
    /// The most members, or the most that the weights of a selector's groups may add up to; 0: no bound.
    pub(crate) size: u64,
    /// The most that the weights of one group may add up to; 0: no bound.
    pub(crate) max_group_size: u64,
    pub(crate) with_selector: bool,
    /// Ids of its tables, in the order of the program.
    pub(crate) tables: Vec<u32>,
}

/// A table's ids.
#[derive(Debug)]
pub(crate) struct TableIds {
    /// Index in the program.
    pub(crate) index: usize,
    /// Ids of the key's fields, in the order of the program.
    pub(crate) fields: Vec<u32>,
    /// Ids of its actions, in the order of the program.
    pub(crate) actions: Vec<ActionIds>,
    /// Whether entries cannot be added or changed.
    pub(crate) constant_entries: bool,
}

/// An action's ids.
#[derive(Debug)]
pub(crate) struct ActionIds {
    pub(crate) id: u32,
    /// Ids of its parameters, in the order of the program.
    pub(crate) parameters: Vec<u32>,
    /// Where the table may run it.
    pub(crate) scope: Scope,
}

/// Compares a program with its P4Info, and finds the fields that are `optional`: the JSON calls them ternary.
pub(crate) fn check(
    document: &Document,
    program: &mut Program,
    info: &P4Info,
) -> Result<Directory, LoadError> {
    let mut directory = Directory::default();
    for table in info.tables() {
        let index = program.tables.iter().position(|known| known.name == table.name.full);
        let index = index.ok_or_else(|| only_in("P4Info", "table", &table.name.full))?;
        let ids = check_table(index, &mut program.tables[index], table, document, info)?;
        directory.tables.insert(table.name.id, ids);
    }
    for table in &program.tables {
        // Tables that the compiler made, or that are hidden on purpose, have nothing that could be written.
        let hidden = table.key.is_empty() || !table.fixed.is_empty();
        if !hidden && info.table(&table.name).is_none() {
            return Err(only_in("JSON", "table", &table.name));
        }
    }
    externs::check(document, program, info, &mut directory)?;
    for header in [info.packet_in(), info.packet_out()].into_iter().flatten() {
        check_controller_header(document, header)?;
    }
    Ok(directory)
}

fn only_in(file: &str, kind: &str, name: &str) -> LoadError {
    LoadError::Differs(format!("{kind} {name} is only in the {file}"))
}

/// Returns an error unless both files say the same.
fn same<T: PartialEq + std::fmt::Display + ?Sized>(what: &str, json: &T, info: &T) -> Result<(), LoadError> {
    if json == info {
        return Ok(());
    }
    Err(LoadError::Differs(format!("{what} is {json} in the JSON and {info} in the P4Info")))
}

fn check_table(
    index: usize,
    program: &mut TableProgram,
    table: &p4info::Table,
    document: &Document,
    info: &P4Info,
) -> Result<TableIds, LoadError> {
    let place = format!("table {}", table.name.full);
    same(&format!("the number of {place}'s key fields"), &program.key.len(), &table.key.len())?;
    for (field, known) in program.key.iter_mut().zip(&table.key) {
        let what = format!("{place}, key field {}", known.name);
        same(&format!("the name of {what}"), field.name.as_str(), known.name.as_str())?;
        same(&format!("the width of {what}"), &field.bits, &known.width)?;
        if known.kind == MatchType::Optional && field.kind == MatchKind::Ternary {
            field.kind = MatchKind::Optional;
        }
        same(&format!("the kind of {what}"), &format!("{:?}", field.kind), &format!("{:?}", known.kind))?;
    }
    // A table with fixed entries has room for just those by p4c's JSON. Where others can be added, the P4Info's is meant.
    if let (Some(size), false) = (table.size, program.fixed.is_empty()) {
        program.size = program.size.max(usize::try_from(size).unwrap_or(usize::MAX));
    }
    let constant = |constant| if constant { "constant" } else { "not constant" };
    if program.profile.is_none() {
        same(
            &format!("the default action of {place}"),
            constant(program.default_is_constant && program.default.is_some()),
            constant(table.const_default),
        )?;
    }
    let direct = &info.message().direct_counters;
    let counts = direct.iter().any(|counter| counter.direct_table_id == table.name.id);
    same(&format!("whether {place} has a direct counter"), &program.counts, &counts)?;
    let direct = &info.message().direct_meters;
    let metered = direct.iter().any(|meter| meter.direct_table_id == table.name.id);
    same(&format!("whether {place} has a direct meter"), &program.meter.is_some(), &metered)?;
    let profiled = table.implementation.is_some();
    same(&format!("whether {place} has an action profile"), &program.profile.is_some(), &profiled)?;
    let initial = info.message().tables.iter().any(|message| {
        let id = message.preamble.as_ref().map(|preamble| preamble.id);
        id == Some(table.name.id) && message.has_initial_entries
    });
    Ok(TableIds {
        index,
        fields: table.key.iter().map(|field| field.id).collect(),
        actions: check_actions(&place, program, table, document, info)?,
        // P4Infos of older compilers don't know of initial entries that can be changed.
        constant_entries: table.const_entries || (!program.fixed.is_empty() && !initial),
    })
}

/// Checks a table's actions and finds their ids.
fn check_actions(
    place: &str,
    program: &TableProgram,
    table: &p4info::Table,
    document: &Document,
    info: &P4Info,
) -> Result<Vec<ActionIds>, LoadError> {
    same(&format!("the number of {place}'s actions"), &program.actions.len(), &table.actions.len())?;
    let mut actions = Vec::new();
    for action in &program.actions {
        let reference = table.actions.iter().find_map(|reference| {
            let known = info.action_by_id(reference.id)?;
            (known.name.full == action.name).then_some((reference, known))
        });
        let what = format!("action {} of {place}", action.name);
        let (reference, known) =
            reference.ok_or_else(|| LoadError::Differs(format!("{what} is only in the JSON")))?;
        same(
            &format!("the number of parameters of {what}"),
            &action.parameters.len(),
            &known.parameters.len(),
        )?;
        let json = document.actions.iter().find(|json| json.name == action.name);
        let names = json.map(|json| json.runtime_data.as_slice()).unwrap_or_default();
        for ((bits, parameter), json) in action.parameters.iter().zip(&known.parameters).zip(names) {
            let what = format!("{what}, parameter {}", parameter.name);
            same(&format!("the name of {what}"), json.name.as_str(), parameter.name.as_str())?;
            same(&format!("the width of {what}"), bits, &parameter.width)?;
        }
        actions.push(ActionIds {
            id: reference.id,
            parameters: known.parameters.iter().map(|parameter| parameter.id).collect(),
            scope: reference.scope,
        });
    }
    Ok(actions)
}

/// The JSON does not say which headers are the controller's, but one of them must match this description.
fn check_controller_header(document: &Document, header: &p4info::ControllerHeader) -> Result<(), LoadError> {
    let alike = |known: &json::HeaderType| {
        // p4c flattens the names of fields of structs in the JSON only, so widths have to do.
        let widths = known.fields.iter().map(|field| field.1.as_u64());
        widths.eq(header.fields.iter().map(|field| Some(field.width.into())))
    };
    if document.header_types.iter().any(alike) {
        return Ok(());
    }
    Err(only_in("P4Info", "controller header", &header.name.full))
}
