//! Tests that all P4 programs have the same interface, so that the controller needs no code for single
//! targets.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

use tributary_p4runtime::P4Info;
use tributary_p4runtime::p4info::{Field, MatchType, Scope, Table, Unit};

/// The program with which the others are compared: v1model's, for the slice width of Tofino.
const REFERENCE: &str = "32";
/// The only parameter whose width may differ. It has one bit for each child that a slot distinguishes.
const CHILDREN: &str = "children";

fn p4info(folder: &str) -> P4Info {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../p4/build").join(folder);
    P4Info::parse(&fs::read_to_string(file.join("tributary.p4info.txtpb")).unwrap()).unwrap()
}

/// The parts of a program that the controller uses, without the ids, which the controller looks up by
/// name.
#[derive(Debug, PartialEq)]
struct Surface {
    tables: BTreeMap<String, TableSurface>,
    counters: BTreeMap<String, (u64, Unit)>,
    headers: BTreeMap<String, Vec<(String, u32)>>,
    slots: u64,
    bits_of_values: u64,
}

#[derive(Debug, PartialEq)]
struct TableSurface {
    key: Vec<(String, u32, MatchType)>,
    actions: BTreeMap<String, (Scope, Vec<(String, u32)>)>,
    size: Option<u64>,
    const_default: bool,
}

fn fields(fields: &[Field]) -> Vec<(String, u32)> {
    let width = |field: &Field| if field.name == CHILDREN { 0 } else { field.width };
    fields.iter().map(|field| (field.name.clone(), width(field))).collect()
}

fn table(info: &P4Info, table: &Table) -> TableSurface {
    let action = |id| info.action_by_id(id).unwrap();
    TableSurface {
        key: table.key.iter().map(|field| (field.name.clone(), field.width, field.kind)).collect(),
        actions: table
            .actions
            .iter()
            .map(|used| (used.scope, action(used.id)))
            .map(|(scope, action)| (action.name.alias.clone(), (scope, fields(&action.parameters))))
            .collect(),
        size: table.size,
        const_default: table.const_default,
    }
}

fn surface(info: &P4Info) -> Surface {
    let values = || info.registers().filter(|register| register.name.alias.starts_with("slot_values_"));
    let sizes: BTreeSet<u64> = values().map(|register| register.size).collect();
    assert_eq!(sizes.len(), 1, "all values of a slot have their places: {sizes:?}");
    let headers = [("packet_in", info.packet_in()), ("packet_out", info.packet_out())];
    Surface {
        tables: info.tables().map(|each| (each.name.alias.clone(), table(info, each))).collect(),
        counters: info
            .counters()
            .map(|counter| (counter.name.alias.clone(), (counter.size, counter.unit)))
            .collect(),
        headers: headers
            .map(|(name, header)| (name.to_owned(), fields(&header.unwrap().fields)))
            .into_iter()
            .collect(),
        slots: sizes.into_iter().sum(),
        bits_of_values: values().map(|register| u64::from(register.bits)).sum(),
    }
}

#[test]
fn the_program_for_tofino_has_the_tables_actions_and_counters_of_v1model() {
    let reference = surface(&p4info(REFERENCE));
    assert!(reference.tables.len() >= 6 && reference.counters.len() >= 14, "{reference:#?}");
    let tofino = surface(&p4info("tna-32"));
    assert_eq!(reference.tables, tofino.tables);
    assert_eq!(reference.counters, tofino.counters);
    assert_eq!(reference.headers, tofino.headers);
    assert_eq!(reference.slots, tofino.slots);
    assert_eq!(reference.bits_of_values, tofino.bits_of_values);
}

#[test]
fn the_widths_of_v1model_differ_in_nothing_else() {
    let reference = surface(&p4info(REFERENCE));
    for (folder, values) in [("256", 256), ("2048", 2048)] {
        let mut wider = surface(&p4info(folder));
        assert_eq!(wider.bits_of_values, values * 32, "{folder}");
        wider.bits_of_values = reference.bits_of_values;
        assert_eq!(reference, wider, "{folder}");
    }
}

#[test]
fn a_program_says_how_many_children_it_tells_apart() {
    let children = |folder| {
        let info = p4info(folder);
        let admit = info.action("admit").unwrap();
        admit.parameters.iter().find(|parameter| parameter.name == CHILDREN).unwrap().width
    };
    assert_eq!([REFERENCE, "256", "2048", "tna-32"].map(children), [64, 64, 64, 32]);
}
