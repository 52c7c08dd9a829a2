//! The P4 program that every switch runs, with helpers that refer to it by name.

use std::sync::{Arc, LazyLock};

use serde_json::Value;
use tributary_p4runtime::P4Info;
use tributary_p4runtime::p4::config::v1 as message;
use tributary_p4runtime::p4info::MatchField;
use tributary_softswitch::Pipeline;
use tributary_softswitch::control::{ActionCall, EntryKey, FieldMatch, KeyMatch, TableEntry};

use crate::finding::sound;

/// p4c's output.
pub(crate) const JSON: &str = include_str!("../../../p4/build/256/tributary.json");
pub(crate) const P4INFO: &str = include_str!("../../../p4/build/256/tributary.p4info.txtpb");

/// The number of slots of a switch in these tests.
///
/// The real program has 4,096 slots, and allocating 4 MiB for each input would take longer than the check
/// itself.
const SLOTS: i32 = 64;

/// A program that is quick to load.
pub(crate) struct Small {
    pub(crate) json: Value,
    pub(crate) p4info: message::P4Info,
}

impl Small {
    /// Makes the program with fewer slots, and without source locations.
    pub(crate) fn new(json: &str, p4info: &str) -> Self {
        let mut json: Value = sound(serde_json::from_str(json));
        without_source(&mut json);
        for register in json["register_arrays"].as_array_mut().into_iter().flatten() {
            if register["size"].as_i64() > Some(SLOTS.into()) {
                register["size"] = SLOTS.into();
            }
        }
        let mut p4info = sound(P4Info::parse(p4info)).message().clone();
        p4info.registers.iter_mut().for_each(|register| register.size = register.size.min(SLOTS));
        Self { json, p4info }
    }
}

fn without_source(json: &mut Value) {
    match json {
        Value::Array(items) => items.iter_mut().for_each(without_source),
        Value::Object(items) => {
            items.remove("source_info");
            items.values_mut().for_each(without_source);
        }
        _ => {}
    }
}

/// This project's program, loaded once.
pub(crate) static PIPELINE: LazyLock<Arc<Pipeline>> = LazyLock::new(|| {
    let Small { json, p4info } = Small::new(JSON, P4INFO);
    Arc::new(sound(Pipeline::load(&json.to_string(), p4info)))
});

pub(crate) fn table(name: &str) -> u32 {
    sound(PIPELINE.info().table(name).ok_or("no such table")).name.id
}

/// Makes an action with its arguments.
pub(crate) fn call(action: &str, arguments: &[u64]) -> ActionCall {
    let action = sound(PIPELINE.info().action(action).ok_or("no such action"));
    assert_eq!(action.parameters.len(), arguments.len());
    let ids = action.parameters.iter().map(|parameter| parameter.id);
    let values = arguments.iter().map(|value| value.to_be_bytes().to_vec());
    ActionCall { action_id: action.name.id, params: ids.zip(values).collect() }
}

/// Makes an entry whose fields match exactly.
pub(crate) fn entry(name: &str, key: &[u64], action: ActionCall) -> TableEntry {
    let table = sound(PIPELINE.info().table(name).ok_or("no such table"));
    let field = |(field, value): (&MatchField, &u64)| FieldMatch {
        field_id: field.id,
        key: KeyMatch::Exact(value.to_be_bytes().to_vec()),
    };
    let matches = table.key.iter().zip(key).map(field).collect();
    let key = EntryKey { table_id: table.name.id, matches, priority: 0 };
    TableEntry::new(key, action)
}
