//! The BMv2 JSON format, version 2, as p4c-bm2-ss writes it.
//!
//! This module checks only the structure of a file. The compiler resolves names and expressions.
//! Parts that are not needed to run or log a program (enums, annotations) are skipped.
//!
//! A type has the name that the format gives the object. The compiled object has the same name in another module.

pub(crate) mod expression;
pub(crate) mod number;

use serde::Deserialize;
use serde_json::Value;

use crate::error::LoadError;

/// The supported major version of the format.
const VERSION: u32 = 2;

/// The contents of a file.
#[derive(Debug, Deserialize)]
pub(crate) struct Document {
    #[serde(rename = "__meta__")]
    meta: Meta,
    pub(crate) header_types: Vec<HeaderType>,
    pub(crate) headers: Vec<Header>,
    #[serde(default)]
    pub(crate) header_stacks: Vec<HeaderStack>,
    #[serde(default)]
    pub(crate) errors: Vec<(String, u64)>,
    pub(crate) parsers: Vec<Parser>,
    pub(crate) deparsers: Vec<Deparser>,
    #[serde(default)]
    pub(crate) counter_arrays: Vec<CounterArray>,
    #[serde(default)]
    pub(crate) register_arrays: Vec<RegisterArray>,
    #[serde(default)]
    pub(crate) field_lists: Vec<FieldList>,
    #[serde(default)]
    pub(crate) learn_lists: Vec<FieldList>,
    #[serde(default)]
    pub(crate) calculations: Vec<Calculation>,
    #[serde(default)]
    pub(crate) checksums: Vec<Checksum>,
    pub(crate) actions: Vec<Action>,
    pub(crate) pipelines: Vec<ControlFlow>,
    #[serde(default)]
    pub(crate) header_union_types: Vec<HeaderUnionType>,
    #[serde(default)]
    pub(crate) header_unions: Vec<HeaderUnion>,
    #[serde(default)]
    pub(crate) header_union_stacks: Vec<HeaderUnionStack>,
    #[serde(default)]
    pub(crate) parse_vsets: Vec<ValueSet>,
    #[serde(default)]
    pub(crate) meter_arrays: Vec<MeterArray>,
    #[serde(default)]
    extern_instances: Vec<Named>,
}

impl Document {
    /// Reads a file and refuses kinds of object that this switch does not support.
    pub(crate) fn read(text: &str) -> Result<Self, LoadError> {
        let document: Self =
            serde_json::from_str(text).map_err(|error| LoadError::Json(error.to_string()))?;
        let [major, minor] = document.meta.version;
        if major != VERSION {
            return Err(LoadError::Unsupported {
                place: "__meta__".to_owned(),
                what: format!("version {major}.{minor} of the format (needed: {VERSION}.x)"),
            });
        }
        let absent = [("extern instance", &document.extern_instances)];
        for (what, objects) in absent {
            if let Some(object) = objects.first() {
                return Err(LoadError::Unsupported {
                    place: format!("{what} {}", object.name),
                    what: format!("a {what}"),
                });
            }
        }
        Ok(document)
    }
}

#[derive(Debug, Deserialize)]
struct Meta {
    version: [u32; 2],
}

/// An object of an unsupported kind; only its name matters.
#[derive(Debug, Deserialize)]
pub(crate) struct Named {
    pub(crate) name: String,
}

/// A type of header: its fields.
#[derive(Debug, Deserialize)]
pub(crate) struct HeaderType {
    pub(crate) name: String,
    pub(crate) fields: Vec<Field>,
    /// The maximum length in bytes of a header with a field of variable length.
    pub(crate) max_length: Option<u64>,
}

/// A field: its name, its width in bits (`"*"` if it varies), and true if it is signed.
#[derive(Debug, Deserialize)]
pub(crate) struct Field(
    pub(crate) String,
    pub(crate) Value,
    #[serde(default, deserialize_with = "truth")] pub(crate) bool,
);

/// Reads a truth value, or the number that some versions of p4c write instead.
fn truth<'de, D: serde::Deserializer<'de>>(json: D) -> Result<bool, D::Error> {
    let value = Value::deserialize(json)?;
    Ok(value.as_bool().unwrap_or_else(|| value.as_u64().is_some_and(|number| number != 0)))
}

/// A set of values that the control plane gives the parser.
#[derive(Debug, Deserialize)]
pub(crate) struct ValueSet {
    pub(crate) name: String,
    #[serde(default)]
    pub(crate) max_size: u64,
}

/// One header, or one struct of metadata.
#[derive(Debug, Deserialize)]
pub(crate) struct Header {
    pub(crate) name: String,
    pub(crate) id: u64,
    pub(crate) header_type: String,
    pub(crate) metadata: bool,
}

/// Headers of one type, one after the other.
#[derive(Debug, Deserialize)]
pub(crate) struct HeaderStack {
    pub(crate) name: String,
    pub(crate) header_ids: Vec<u64>,
}

/// A type of header union, with the name and the type of each member.
#[derive(Debug, Deserialize)]
pub(crate) struct HeaderUnionType {
    pub(crate) name: String,
    pub(crate) headers: Vec<(String, String)>,
}

/// A header union, of whose headers at most one is valid.
#[derive(Debug, Deserialize)]
pub(crate) struct HeaderUnion {
    pub(crate) name: String,
    pub(crate) id: u64,
    pub(crate) header_ids: Vec<u64>,
}

/// Header unions of one type, one after the other.
#[derive(Debug, Deserialize)]
pub(crate) struct HeaderUnionStack {
    pub(crate) name: String,
    pub(crate) union_type: String,
    pub(crate) header_union_ids: Vec<u64>,
}

/// The parser.
#[derive(Debug, Deserialize)]
pub(crate) struct Parser {
    pub(crate) name: String,
    pub(crate) init_state: Option<String>,
    pub(crate) parse_states: Vec<ParseState>,
}

/// One state of the parser.
#[derive(Debug, Deserialize)]
pub(crate) struct ParseState {
    pub(crate) name: String,
    pub(crate) parser_ops: Vec<Call>,
    pub(crate) transition_key: Vec<Value>,
    pub(crate) transitions: Vec<Transition>,
}

/// A transition to the next state, with its condition.
#[derive(Debug, Deserialize)]
pub(crate) struct Transition {
    /// `hexstr`, `default` or `parse_vset`; old compilers leave it out and write "default" as the value.
    #[serde(rename = "type")]
    pub(crate) kind: Option<String>,
    pub(crate) value: Option<String>,
    pub(crate) mask: Option<String>,
    pub(crate) next_state: Option<String>,
}

/// An operation with its arguments: a primitive of an action, or a statement of a parser state.
#[derive(Debug, Deserialize)]
pub(crate) struct Call {
    pub(crate) op: String,
    pub(crate) parameters: Vec<Value>,
}

/// The headers to write, in order.
#[derive(Debug, Deserialize)]
pub(crate) struct Deparser {
    pub(crate) name: String,
    pub(crate) order: Vec<String>,
    #[serde(default)]
    pub(crate) primitives: Vec<Call>,
}

/// A counter array, or the counters of a table's entries if `is_direct` is true.
#[derive(Debug, Deserialize)]
pub(crate) struct CounterArray {
    pub(crate) name: String,
    pub(crate) is_direct: bool,
    pub(crate) size: Option<u64>,
}

/// A meter array, or the meters of a table's entries if `is_direct` is true.
#[derive(Debug, Deserialize)]
pub(crate) struct MeterArray {
    pub(crate) name: String,
    #[serde(default)]
    pub(crate) is_direct: bool,
    #[serde(default = "two")]
    pub(crate) rate_count: u64,
    /// `packets` or `bytes`.
    #[serde(rename = "type")]
    pub(crate) kind: String,
    #[serde(default)]
    pub(crate) size: u64,
    /// For a direct meter, the field that receives the colour.
    pub(crate) result_target: Option<(String, String)>,
}

fn two() -> u64 {
    2
}

/// A register array.
#[derive(Debug, Deserialize)]
pub(crate) struct RegisterArray {
    pub(crate) name: String,
    pub(crate) size: u64,
    pub(crate) bitwidth: u64,
}

/// A list of fields, which primitives name by its id.
#[derive(Debug, Deserialize)]
pub(crate) struct FieldList {
    pub(crate) name: String,
    pub(crate) id: u64,
    pub(crate) elements: Vec<ListElement>,
}

/// A field of a list.
#[derive(Debug, Deserialize)]
pub(crate) struct ListElement {
    #[serde(rename = "type")]
    pub(crate) kind: String,
    pub(crate) value: Value,
}

/// The inputs of a checksum.
#[derive(Debug, Deserialize)]
pub(crate) struct Calculation {
    pub(crate) name: String,
    pub(crate) algo: String,
    pub(crate) input: Vec<CalculationInput>,
}

/// One input of a checksum.
#[derive(Debug, Deserialize)]
pub(crate) struct CalculationInput {
    #[serde(rename = "type")]
    pub(crate) kind: String,
    pub(crate) value: Value,
    /// Width of a `hexstr` in bits.
    pub(crate) bitwidth: Option<u32>,
}

/// A checksum to verify behind the parser or to update before the deparser.
#[derive(Debug, Deserialize)]
pub(crate) struct Checksum {
    pub(crate) name: String,
    pub(crate) target: (String, String),
    pub(crate) calculation: String,
    #[serde(default = "yes")]
    pub(crate) verify: bool,
    #[serde(default = "yes")]
    pub(crate) update: bool,
    pub(crate) if_cond: Option<Value>,
}

fn yes() -> bool {
    true
}

/// An action.
#[derive(Debug, Deserialize)]
pub(crate) struct Action {
    pub(crate) name: String,
    pub(crate) id: u64,
    pub(crate) runtime_data: Vec<RuntimeData>,
    pub(crate) primitives: Vec<Call>,
}

/// A parameter of an action.
#[derive(Debug, Deserialize)]
pub(crate) struct RuntimeData {
    pub(crate) name: String,
    pub(crate) bitwidth: u32,
}

/// A control flow: ingress or egress.
#[derive(Debug, Deserialize)]
pub(crate) struct ControlFlow {
    pub(crate) name: String,
    pub(crate) init_table: Option<String>,
    pub(crate) tables: Vec<Table>,
    #[serde(default)]
    pub(crate) conditionals: Vec<Conditional>,
    #[serde(default)]
    pub(crate) action_calls: Vec<ActionCallNode>,
    #[serde(default)]
    pub(crate) action_profiles: Vec<ActionProfile>,
}

/// An action profile, to whose actions the entries of several tables refer.
#[derive(Debug, Deserialize)]
pub(crate) struct ActionProfile {
    pub(crate) name: String,
    /// The selector that chooses one of several actions, if the profile has one.
    pub(crate) selector: Option<Selector>,
}

/// A hash over fields.
#[derive(Debug, Deserialize)]
pub(crate) struct Selector {
    pub(crate) algo: String,
    pub(crate) input: Vec<CalculationInput>,
}

/// A table.
#[derive(Debug, Deserialize)]
pub(crate) struct Table {
    pub(crate) name: String,
    pub(crate) key: Vec<TableKey>,
    #[serde(rename = "type")]
    pub(crate) kind: String,
    pub(crate) max_size: u64,
    #[serde(default)]
    pub(crate) with_counters: bool,
    #[serde(default)]
    pub(crate) support_timeout: bool,
    pub(crate) direct_meters: Option<String>,
    pub(crate) action_profile: Option<String>,
    pub(crate) action_ids: Vec<u64>,
    pub(crate) actions: Vec<String>,
    /// The next node by action name, or by `__HIT__` and `__MISS__`.
    pub(crate) next_tables: std::collections::BTreeMap<String, Option<String>>,
    /// The next node on a miss if the default action is not known.
    pub(crate) base_default_next: Option<String>,
    pub(crate) default_entry: Option<DefaultEntry>,
    #[serde(default)]
    pub(crate) entries: Vec<ConstEntry>,
    #[serde(default)]
    pub(crate) source_info: SourceInfo,
}

/// One field of a table's key.
#[derive(Debug, Deserialize)]
pub(crate) struct TableKey {
    pub(crate) match_type: String,
    pub(crate) name: Option<String>,
    pub(crate) target: Value,
    pub(crate) mask: Option<String>,
}

/// The default entry of a table, which applies on a miss.
#[derive(Debug, Deserialize)]
pub(crate) struct DefaultEntry {
    pub(crate) action_id: u64,
    #[serde(default)]
    pub(crate) action_const: bool,
    #[serde(default)]
    pub(crate) action_entry_const: bool,
    #[serde(default)]
    pub(crate) action_data: Vec<String>,
}

/// An entry that the program fixes.
#[derive(Debug, Deserialize)]
pub(crate) struct ConstEntry {
    pub(crate) match_key: Vec<ConstKey>,
    pub(crate) action_entry: ConstAction,
    #[serde(default)]
    pub(crate) priority: i64,
}

/// One field of a fixed entry's key.
#[derive(Debug, Deserialize)]
pub(crate) struct ConstKey {
    pub(crate) match_type: String,
    pub(crate) key: Option<String>,
    pub(crate) mask: Option<String>,
    pub(crate) prefix_length: Option<u32>,
    pub(crate) start: Option<String>,
    pub(crate) end: Option<String>,
}

/// The action of a fixed entry.
#[derive(Debug, Deserialize)]
pub(crate) struct ConstAction {
    pub(crate) action_id: u64,
    #[serde(default)]
    pub(crate) action_data: Vec<String>,
}

/// A condition, from an `if` statement.
#[derive(Debug, Deserialize)]
pub(crate) struct Conditional {
    pub(crate) name: String,
    pub(crate) expression: Value,
    pub(crate) true_next: Option<String>,
    pub(crate) false_next: Option<String>,
    #[serde(default)]
    pub(crate) source_info: SourceInfo,
}

/// An action that is called outside a table.
#[derive(Debug, Deserialize)]
pub(crate) struct ActionCallNode {
    pub(crate) name: String,
    pub(crate) action_id: u64,
    pub(crate) next_node: Option<String>,
    #[serde(default)]
    pub(crate) source_info: SourceInfo,
}

/// A position in the P4 source. A malformed position is ignored, and never a reason to refuse a
/// program.
#[derive(Debug, Default, Deserialize)]
#[serde(transparent)]
pub(crate) struct SourceInfo(Value);

impl SourceInfo {
    /// Returns the file's name and the line.
    pub(crate) fn position(&self) -> Option<(&str, u64)> {
        Some((self.0.get("filename")?.as_str()?, self.0.get("line")?.as_u64()?))
    }

    /// Returns the source text. If it is longer than a line, p4c cuts it off and appends "...".
    pub(crate) fn text(&self) -> Option<&str> {
        self.0.get("source_fragment")?.as_str()
    }
}
