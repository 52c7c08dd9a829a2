//! The programs of `tests/programs`: p4c's JSON as a tree, and the P4Info.

use std::collections::BTreeMap;
use std::path::Path;

use num_bigint::{BigInt, BigUint, Sign};
use serde_json::Value;
use tributary_p4runtime::P4Info;

/// A test program, compiled by p4c.
pub(crate) struct Program {
    pub(crate) json: Value,
    pub(crate) info: P4Info,
    /// The fields of each header, metadata included, and of each header stack's elements.
    headers: BTreeMap<String, Vec<Field>>,
}

/// A field of a header. The width of a field of variable length is its maximum.
#[derive(Debug, Clone)]
pub(crate) struct Field {
    pub(crate) name: String,
    pub(crate) bits: usize,
    pub(crate) varies: bool,
}

/// A header and one of its fields.
pub(crate) type FieldName = (String, String);

impl Program {
    pub(crate) fn read(name: &str) -> Self {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/programs");
        let read = |end: &str| std::fs::read_to_string(folder.join(format!("{name}.{end}"))).unwrap();
        let json = serde_json::from_str(&read("json")).unwrap();
        Self::new(json, P4Info::parse(&read("p4info.txtpb")).unwrap())
    }

    pub(crate) fn new(json: Value, info: P4Info) -> Self {
        let headers = headers(&json);
        Self { json, info, headers }
    }

    /// Returns the fields of a header, or of a header stack's elements.
    pub(crate) fn fields(&self, header: &str) -> &[Field] {
        self.headers.get(header).unwrap_or_else(|| panic!("there is no header {header}"))
    }

    pub(crate) fn width(&self, (header, field): &FieldName) -> Option<usize> {
        let fields = self.headers.get(header)?;
        fields.iter().find(|known| known.name == *field).map(|field| field.bits)
    }

    /// Returns the parser's state with this name.
    pub(crate) fn state(&self, name: &str) -> &Value {
        list(&self.json["parsers"][0]["parse_states"]).iter().find(|state| state["name"] == name).unwrap()
    }

    /// Returns the tables of both pipelines.
    pub(crate) fn tables(&self) -> impl Iterator<Item = &Value> {
        list(&self.json["pipelines"]).iter().flat_map(|pipeline| list(&pipeline["tables"]))
    }
}

fn headers(json: &Value) -> BTreeMap<String, Vec<Field>> {
    let types: BTreeMap<&str, Vec<Field>> =
        list(&json["header_types"]).iter().map(|one| (text(&one["name"]), fields(one))).collect();
    let headers = list(&json["headers"]).iter().chain(list(&json["header_stacks"]));
    let mut headers: BTreeMap<_, _> = headers
        .map(|one| (text(&one["name"]).to_owned(), types[text(&one["header_type"])].clone()))
        .collect();
    // A stack of unions has the fields of its members, with the member's name in front.
    for stack in list(&json["header_union_stacks"]) {
        let of_type = |one: &&Value| one["name"] == stack["union_type"];
        let union_type = list(&json["header_union_types"]).iter().find(of_type).unwrap();
        for member in list(&union_type["headers"]) {
            let name = format!("{}.{}", text(&stack["name"]), text(&member[0]));
            headers.insert(name, types[text(&member[1])].clone());
        }
    }
    headers
}

fn fields(header_type: &Value) -> Vec<Field> {
    let max = header_type["max_length"].as_u64().unwrap_or_default() as usize * 8;
    let fixed: u64 = list(&header_type["fields"]).iter().filter_map(|field| field[1].as_u64()).sum();
    let field = |field: &Value| Field {
        name: text(&field[0]).to_owned(),
        bits: field[1].as_u64().map_or(max.saturating_sub(fixed as usize), |bits| bits as usize),
        varies: !field[1].is_u64(),
    };
    list(&header_type["fields"]).iter().map(field).collect()
}

/// Returns the elements of a list; an empty slice if the value is not a list.
pub(crate) fn list(value: &Value) -> &[Value] {
    value.as_array().map(Vec::as_slice).unwrap_or_default()
}

pub(crate) fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

/// Reads a reference to a field: `["header", "field"]`.
pub(crate) fn field_name(value: &Value) -> FieldName {
    (text(&value[0]).to_owned(), text(&value[1]).to_owned())
}

/// Parses a number such as `0x1f` or `-0x01`; a negative number becomes its two's complement.
pub(crate) fn number(value: &Value, bits: usize) -> Option<BigUint> {
    let (sign, digits) = match value.as_str()?.strip_prefix("-0x") {
        Some(digits) => (Sign::Minus, digits),
        None => (Sign::Plus, value.as_str()?.strip_prefix("0x")?),
    };
    let number = BigInt::from_biguint(sign, BigUint::parse_bytes(digits.as_bytes(), 16)?);
    let number = if sign == Sign::Minus { number + (BigInt::from(1) << bits) } else { number };
    number.to_biguint()
}

/// Returns the largest number of `bits` bits.
pub(crate) fn ones(bits: usize) -> BigUint {
    (BigUint::from(1u8) << bits) - 1u8
}
