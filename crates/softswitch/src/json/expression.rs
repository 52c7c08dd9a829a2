//! Expressions of the BMv2 JSON as a tree.

use serde_json::Value;

use super::number::Number;
use crate::error::LoadError;

/// An expression, or another kind of argument.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Expr {
    /// An integer.
    Const(Number),
    /// A truth value.
    Bool(bool),
    /// A field: the header's name and the field's name. The field `$valid$` is the header's
    /// validity.
    Field(String, String),
    /// A field of a stack's last header: the stack's name and the field's name.
    StackField(String, String),
    /// A field of the last union of a stack: the names of the stack, the union's member and the
    /// field.
    UnionStackField(String, String, String),
    /// A member of the next union of a stack: the names of the stack and the member.
    UnionStack(String, String),
    /// Several values that form one argument.
    List(Vec<Expr>),
    /// A parameter of the action.
    Local(usize),
    /// Bits of the packet that have not been extracted: offset, width.
    Lookahead(u32, u32),
    /// A named object: its type and its name.
    Object(String, String),
    /// An operation on up to three operands.
    Op {
        /// The operation.
        op: String,
        /// The condition of the operation `?`.
        cond: Option<Box<Expr>>,
        /// Left operand, if there are two.
        left: Option<Box<Expr>>,
        /// Right or only operand.
        right: Box<Expr>,
    },
}

impl Expr {
    /// Reads an expression from a JSON object with a type and a value.
    pub(crate) fn read(json: &Value, place: &str) -> Result<Self, LoadError> {
        let malformed = |problem: &str| LoadError::Malformed {
            place: place.to_owned(),
            problem: format!("{problem}: {}", shortened(json)),
        };
        if json.get("op").is_some() {
            return Self::read_operation(json, place);
        }
        // A number is the position of a field in its header, or of a header in its union.
        if let Some(position) = json.as_u64() {
            return Ok(Self::Const(Number::from(position)));
        }
        let kind = json.get("type").and_then(Value::as_str).ok_or_else(|| malformed("no type"))?;
        let value = json.get("value").ok_or_else(|| malformed("no value"))?;
        let pair = || string_pair(value).ok_or_else(|| malformed("two names are needed"));
        match kind {
            "hexstr" => {
                let number = value.as_str().and_then(Number::parse);
                number.map(Self::Const).ok_or_else(|| malformed("not a hexadecimal number"))
            }
            "bool" => value.as_bool().map(Self::Bool).ok_or_else(|| malformed("not a truth value")),
            "field" => pair().map(|(header, field)| Self::Field(header, field)),
            "stack_field" => pair().map(|(stack, field)| Self::StackField(stack, field)),
            "union_stack_field" => {
                let field = value.get(2).and_then(Value::as_str).map(str::to_owned);
                let field = field.ok_or_else(|| malformed("three names are needed"))?;
                pair().map(|(stack, member)| Self::UnionStackField(stack, member, field))
            }
            "union_stack" => pair().map(|(stack, member)| Self::UnionStack(stack, member)),
            "parameters_vector" => {
                // An empty list is written as an object.
                let values = value.as_array().map(Vec::as_slice).unwrap_or_default();
                values.iter().map(|value| Self::read(value, place)).collect::<Result<_, _>>().map(Self::List)
            }
            "local" | "runtime_data" => {
                let index = value.as_u64().and_then(|index| usize::try_from(index).ok());
                index.map(Self::Local).ok_or_else(|| malformed("not an index"))
            }
            "lookahead" => {
                let [offset, width] = [0, 1]
                    .map(|i| value.get(i).and_then(Value::as_u64).and_then(|bits| u32::try_from(bits).ok()));
                offset
                    .zip(width)
                    .map(|(o, w)| Self::Lookahead(o, w))
                    .ok_or_else(|| malformed("bad lookahead"))
            }
            "expression" => Self::read(value, place),
            _ => {
                let name = value.as_str().ok_or_else(|| LoadError::Unsupported {
                    place: place.to_owned(),
                    what: format!("an argument of type '{kind}'"),
                })?;
                Ok(Self::Object(kind.to_owned(), name.to_owned()))
            }
        }
    }

    fn read_operation(json: &Value, place: &str) -> Result<Self, LoadError> {
        let malformed = |problem: &str| LoadError::Malformed {
            place: place.to_owned(),
            problem: format!("{problem}: {}", shortened(json)),
        };
        let operand = |name: &str| {
            let operand = json.get(name).filter(|operand| !operand.is_null());
            operand.map(|operand| Self::read(operand, place).map(Box::new)).transpose()
        };
        Ok(Self::Op {
            op: json.get("op").and_then(Value::as_str).ok_or_else(|| malformed("bad operation"))?.to_owned(),
            cond: operand("cond")?,
            left: operand("left")?,
            right: operand("right")?.ok_or_else(|| malformed("an operand is missing"))?,
        })
    }
}

/// Returns the first two strings of an array.
fn string_pair(value: &Value) -> Option<(String, String)> {
    let text = |i: usize| value.get(i).and_then(Value::as_str).map(str::to_owned);
    text(0).zip(text(1))
}

/// Returns the beginning of a JSON value, so that a user can find the value in the file.
fn shortened(json: &Value) -> String {
    let mut text = json.to_string();
    if let Some((end, _)) = text.char_indices().nth(80) {
        text.truncate(end);
        text.push_str("...");
    }
    text
}
