//! Checks that the BMv2 JSON and the P4Info belong to the same program, and maps the P4Info's ids
//! to the JSON's objects.

mod externs;
mod translations;

use std::collections::{BTreeMap, BTreeSet};

use tributary_p4runtime::P4Info;
use tributary_p4runtime::p4info::{self, MatchType, Scope};

use crate::error::LoadError;
use crate::json::{self, Document};
use crate::program::{MAX_BITS, MatchKind, Program, TableProgram};
use crate::translation::Translation;

/// The ids by which the P4Info names the objects of a program.
#[derive(Debug, Default)]
pub(crate) struct Directory {
    /// Ids of each table, by the table's P4Info id.
    pub(crate) tables: BTreeMap<u32, TableIds>,
    /// Ids of tables that the compiler left out, because no packet can reach them.
    pub(crate) absent_tables: BTreeSet<u32>,
    /// Index of each counter array in the program, by P4Info id.
    pub(crate) counters: BTreeMap<u32, usize>,
    /// Index of each meter array in the program, by P4Info id.
    pub(crate) meters: BTreeMap<u32, usize>,
    /// Index of each register array in the program, by P4Info id.
    pub(crate) registers: BTreeMap<u32, usize>,
    /// Ids of each parser value set, by its P4Info id.
    pub(crate) value_sets: BTreeMap<u32, ValueSetIds>,
    /// Index of each digest in the program, by P4Info id.
    pub(crate) digests: BTreeMap<u32, usize>,
    /// Ids and bounds of each action profile, by its P4Info id.
    pub(crate) profiles: BTreeMap<u32, ProfileIds>,
    /// The header in front of packets to the controller.
    pub(crate) packet_in: Vec<ControllerField>,
    /// The header in front of packets from the controller.
    pub(crate) packet_out: Vec<ControllerField>,
}

/// A field of a header of packets to, or from, the controller.
#[derive(Debug, Clone)]
pub(crate) struct ControllerField {
    pub(crate) id: u32,
    pub(crate) name: String,
    /// The field's width in the packet, in bits.
    pub(crate) bits: u32,
    pub(crate) translation: Translation,
}

/// A value set's ids.
#[derive(Debug)]
pub(crate) struct ValueSetIds {
    /// Index of the value set in the program.
    pub(crate) index: usize,
    /// Ids of the value set's fields, in order.
    pub(crate) fields: Vec<u32>,
}

/// An action profile's ids and bounds.
#[derive(Debug)]
pub(crate) struct ProfileIds {
    /// The action profile's name, for messages.
    pub(crate) name: String,
    /// Index of the action profile in the program.
    pub(crate) index: usize,
    /// The maximum number of members; for a selector, the maximum sum of its groups' sizes. 0 means
    /// no limit.
    pub(crate) size: u64,
    /// The maximum size of one group; 0 means no limit.
    pub(crate) max_group_size: u64,
    /// The unit of the selector's and the groups' sizes.
    pub(crate) counts: SizeSemantics,
    pub(crate) with_selector: bool,
    /// Ids of the tables that use the action profile, in the order of the program.
    pub(crate) tables: Vec<u32>,
}

/// Unit in which the sizes of a selector and of its groups are counted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum SizeSemantics {
    /// The sum of the members' weights.
    Weights,
    /// The number of members. No member may have a weight above `max_weight`; 0 means no limit.
    Members { max_weight: u32 },
}

impl SizeSemantics {
    /// Returns the size of a group whose members have these weights.
    pub(crate) fn sum(self, weights: impl Iterator<Item = u32>) -> u64 {
        match self {
            Self::Weights => weights.map(u64::from).sum(),
            Self::Members { .. } => weights.count() as u64,
        }
    }

    /// Checks the weight of one member. The text describes the fault.
    pub(crate) fn check(self, weight: u32) -> Result<(), String> {
        match self {
            Self::Members { max_weight } if max_weight > 0 && weight > max_weight => {
                Err(format!("a weight of {weight}: {max_weight} is the most"))
            }
            _ => Ok(()),
        }
    }
}

/// A table's ids.
#[derive(Debug)]
pub(crate) struct TableIds {
    /// Index of the table in the program.
    pub(crate) index: usize,
    /// Ids of the key's fields, in the order of the program.
    pub(crate) fields: Vec<u32>,
    /// Ids of its actions, in the order of the program.
    pub(crate) actions: Vec<ActionIds>,
    /// True if entries cannot be added or changed.
    pub(crate) constant_entries: bool,
}

/// An action's ids.
#[derive(Debug)]
pub(crate) struct ActionIds {
    pub(crate) id: u32,
    /// Ids of its parameters, in the order of the program.
    pub(crate) parameters: Vec<u32>,
    /// Representation of each parameter's value for controllers.
    pub(crate) translations: Vec<Translation>,
    /// The places where the table may run the action: in entries, as its default, or both.
    pub(crate) scope: Scope,
}

/// Compares a program with its P4Info.
///
/// It also marks the key fields of kind `optional`, which the JSON calls ternary.
pub(crate) fn check(
    document: &Document,
    program: &mut Program,
    info: &P4Info,
) -> Result<Directory, LoadError> {
    let mut directory = Directory::default();
    let mut absent = None;
    for table in info.tables() {
        let index = program.tables.iter().position(|known| known.name == table.name.full);
        let Some(index) = index else {
            directory.absent_tables.insert(table.name.id);
            absent = absent.or(Some(table));
            continue;
        };
        let ids = check_table(index, &mut program.tables[index], table, document, info)?;
        directory.tables.insert(table.name.id, ids);
    }
    for table in &program.tables {
        // Controllers cannot write tables that the compiler made or that the program hides.
        let hidden = table.key.is_empty() || !table.fixed.is_empty();
        if !hidden && info.table(&table.name).is_none() {
            // If each file has a table that the other file lacks, the files belong to different
            // programs.
            return Err(match absent {
                Some(absent) => only_in("P4Info", "table", &absent.name.full),
                None => only_in("JSON", "table", &table.name),
            });
        }
    }
    externs::check(document, program, info, &mut directory)?;
    let fields = |header| controller_fields(document, header, info);
    directory.packet_in = info.packet_in().map_or(Ok(Vec::new()), fields)?;
    directory.packet_out = info.packet_out().map_or(Ok(Vec::new()), fields)?;
    Ok(directory)
}

fn only_in(file: &str, kind: &str, name: &str) -> LoadError {
    LoadError::Differs(format!("{kind} {name} is only in the {file}"))
}

/// Returns an error unless the JSON and the P4Info have the same value.
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
        field.translation = translations::of_field(info, table.name.id, known.id);
        if known.kind == MatchType::Optional && field.kind == MatchKind::Ternary {
            field.kind = MatchKind::Optional;
        }
        match field.translation {
            Translation::None => same(&format!("the width of {what}"), &field.bits, &known.width)?,
            translation => check_translation(translation, field.bits, Some(field.kind), &what)?,
        }
        same(&format!("the kind of {what}"), &format!("{:?}", field.kind), &format!("{:?}", known.kind))?;
    }
    // In p4c's JSON, the size of a table with fixed entries is the number of these entries. If
    // others can be added, the size in the P4Info applies.
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
    let metered = direct.iter().find(|meter| meter.direct_table_id == table.name.id);
    same(&format!("whether {place} has a direct meter"), &program.meter.is_some(), &metered.is_some())?;
    if let (Some(meter), Some(known)) = (&mut program.meter, metered) {
        meter.kind = externs::meter_kind(known.spec.as_ref());
    }
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
        // P4Infos of older compilers do not mark initial entries that can be changed.
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
            match translations::of_parameter(info, reference.id, parameter.id) {
                Translation::None => same(&format!("the width of {what}"), bits, &parameter.width)?,
                translation => check_translation(translation, *bits, None, &what)?,
            }
        }
        let ids = known.parameters.iter().map(|parameter| parameter.id);
        actions.push(ActionIds {
            id: reference.id,
            translations: ids.clone().map(|id| translations::of_parameter(info, reference.id, id)).collect(),
            parameters: ids.collect(),
            scope: reference.scope,
        });
    }
    Ok(actions)
}

/// Checks that values of `bits` bits can be translated.
fn check_translation(
    translation: Translation,
    bits: u32,
    kind: Option<MatchKind>,
    place: &str,
) -> Result<(), LoadError> {
    let unsupported = |what: &str| LoadError::Unsupported { place: place.to_owned(), what: what.to_owned() };
    match (translation, kind) {
        (Translation::Text, _) if bits > u128::BITS => {
            Err(unsupported("a translated type of more than 128 bits that controllers see as a string"))
        }
        (Translation::Text, Some(MatchKind::Lpm | MatchKind::Ternary | MatchKind::Range)) => {
            Err(unsupported("a match by prefix, mask or range of what controllers see as a string"))
        }
        (Translation::Bits(width), Some(MatchKind::Lpm)) if width != bits => {
            Err(unsupported("a match by prefix of a type whose translation changes its width"))
        }
        _ => Ok(()),
    }
}

/// Returns the fields of a controller header, with their widths in the packet.
///
/// The JSON does not mark the controller headers, so this function searches for a header type with
/// such fields. If there is none, the program does not use the header, and the widths come from the
/// P4Info.
fn controller_fields(
    document: &Document,
    header: &p4info::ControllerHeader,
    info: &P4Info,
) -> Result<Vec<ControllerField>, LoadError> {
    let translation = |field: &p4info::Field| translations::of_metadata(info, header.name.id, field.id);
    let widths = |known: &json::HeaderType| -> Option<Vec<u32>> {
        let own = known.fields.iter().filter(|field| !field.0.starts_with("_padding"));
        let widths = own.map(|field| u32::try_from(field.1.as_u64()?).ok());
        let widths: Vec<u32> = widths.collect::<Option<_>>()?;
        // p4c flattens the names of struct fields only in the JSON, so this compares the widths.
        let mut pairs = widths.iter().zip(&header.fields);
        let alike =
            pairs.all(|(bits, field)| translation(field) != Translation::None || *bits == field.width);
        (widths.len() == header.fields.len() && alike).then_some(widths)
    };
    let named = |known: &&json::HeaderType| {
        known
            .fields
            .iter()
            .map(|field| field.0.as_str())
            .eq(header.fields.iter().map(|field| field.name.as_str()))
    };
    let candidates = || document.header_types.iter().filter(|known| widths(known).is_some());
    let found = candidates().find(named).or_else(|| candidates().next()).and_then(widths);
    if found.is_none() && document.header_types.iter().any(|known| named(&known)) {
        return Err(only_in("P4Info", "controller header", &header.name.full));
    }
    let widths = found.unwrap_or_else(|| header.fields.iter().map(|field| field.width).collect());
    let all = widths.iter().fold(0_u32, |all, bits| all.saturating_add(*bits));
    if all > MAX_BITS {
        let place = format!("controller header {}", header.name.full);
        return Err(LoadError::Unsupported { place, what: format!("a header of {all} bits") });
    }
    header
        .fields
        .iter()
        .zip(widths)
        .map(|(field, bits)| {
            let place = format!("controller header {}, field {}", header.name.full, field.name);
            let translation = translation(field);
            check_translation(translation, bits, None, &place)?;
            if bits == 0 {
                let what = "a string in a header that the program does not have".to_owned();
                return Err(LoadError::Unsupported { place, what });
            }
            Ok(ControllerField { id: field.id, name: field.name.clone(), bits, translation })
        })
        .collect()
}
