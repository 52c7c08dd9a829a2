//! The format of the files under `vectors`, which the README there describes.

use serde::{Deserialize, Serialize};
use serde_json::Serializer;
use serde_json::ser::PrettyFormatter;
use tributary_protocol::{GradientData, Sums};
use tributary_wire::{Header, Hop, Message, MessageView};

/// The number of words in a line of a file.
const WORDS: usize = 8;

/// One job, its operations and all of its packets.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Vector {
    pub(crate) about: String,
    pub(crate) secret: String,
    pub(crate) confidential: bool,
    pub(crate) width: usize,
    pub(crate) window: u32,
    pub(crate) start: u32,
    pub(crate) begun: u64,
    pub(crate) tree: Tree,
    pub(crate) job: u16,
    pub(crate) members: Vec<u16>,
    pub(crate) operations: Vec<Operation>,
    pub(crate) steps: Vec<Step>,
}

impl Vector {
    /// Returns the text of the file.
    pub(crate) fn to_json(&self) -> String {
        let mut text = Vec::new();
        let formatter = PrettyFormatter::with_indent(b" ");
        self.serialize(&mut Serializer::with_formatter(&mut text, formatter)).unwrap();
        text.push(b'\n');
        String::from_utf8(text).unwrap()
    }
}

/// The nodes of the hop stack up: a switch that aggregates all members, and the server.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Tree {
    pub(crate) switch: u16,
    pub(crate) egress_port: u16,
    pub(crate) server: u16,
}

/// One all-reduce and its sums.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Operation {
    pub(crate) name: String,
    #[serde(rename = "type")]
    pub(crate) element_type: String,
    pub(crate) length: usize,
    pub(crate) contributions: Vec<Contribution>,
    pub(crate) sums: Vec<String>,
}

/// The contribution of one member.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Contribution {
    pub(crate) rank: u16,
    pub(crate) weight: u32,
    pub(crate) elements: Vec<String>,
}

/// One packet, or a change of the generation.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "step", rename_all = "lowercase")]
pub(crate) enum Step {
    /// A GRADIENT that a worker sends.
    Gradient {
        rank: u16,
        seq: u32,
        #[serde(flatten)]
        packet: Packet,
    },
    /// The PROBE that the switch makes of the last GRADIENT.
    Probe {
        rank: u16,
        seq: u32,
        #[serde(flatten)]
        packet: Packet,
    },
    /// The sum that the switch forwards to the server.
    Sum {
        seq: u32,
        #[serde(flatten)]
        packet: Packet,
    },
    /// A RESULT that the server sends, and the members that receive it; all members if no list is given.
    Result {
        seq: u32,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        to: Option<Vec<u16>>,
        #[serde(flatten)]
        packet: Packet,
    },
    /// A change of the generation.
    Generation { job: u16, members: Vec<u16> },
}

/// The bytes of an INA message, without the zeros at the end of its values.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Packet {
    pub(crate) header: String,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub(crate) hops: String,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) values: Vec<String>,
}

impl Packet {
    /// Encodes a message; it is a PROBE without `values`. Checks that it can be parsed.
    pub(crate) fn new(header: &Header, hops: &[Hop], values: Option<&[i32]>) -> Self {
        let message = Message { header: *header, hops, values };
        let mut bytes = vec![0; message.len()];
        message.emit(&mut bytes).unwrap();
        let view = MessageView::parse(&bytes).unwrap();
        assert_eq!(view.header(), header);
        let (header, rest) = bytes.split_at(28);
        let (stack, values) = rest.split_at(6 * hops.len());
        let end = values.iter().rposition(|byte| *byte != 0).map_or(0, |last| last / 4 + 1);
        let values = lines(&words(&values[..4 * end], 4));
        Self { header: words(header, 4).join(" "), hops: words(stack, 6).join(" "), values }
    }
}

/// Returns the hexadecimal digits of words of `size` bytes.
fn words(bytes: &[u8], size: usize) -> Vec<String> {
    bytes.chunks(size).map(hex::encode).collect()
}

fn lines(words: &[String]) -> Vec<String> {
    words.chunks(WORDS).map(|line| line.join(" ")).collect()
}

/// Reads elements. An element is a big-endian number with the number of bytes of its type.
pub(crate) fn elements(element_type: &str, lines: &[String]) -> GradientData {
    let numbers =
        || lines.iter().flat_map(|line| line.split(' ')).map(|word| u64::from_str_radix(word, 16).unwrap());
    let floats = || numbers().map(|bits| f32::from_bits(bits as u32)).collect();
    match element_type {
        "f32" => GradientData::F32(floats()),
        "f32, precision float32" => GradientData::F32Exact(floats()),
        "f16" => {
            GradientData::F16(numbers().map(|bits| half::f16::from_bits(bits as u16).to_f32()).collect())
        }
        "bf16" => GradientData::BF16(numbers().map(|bits| f32::from_bits((bits as u32) << 16)).collect()),
        "f16 (paired)" => GradientData::F16Paired(
            numbers().map(|bits| half::f16::from_bits(bits as u16).to_f32()).collect(),
        ),
        "bf16 (paired)" => {
            GradientData::BF16Paired(numbers().map(|bits| f32::from_bits((bits as u32) << 16)).collect())
        }
        "f64" => GradientData::F64(numbers().map(f64::from_bits).collect()),
        "i32" => GradientData::I32(numbers().map(|bits| bits as i32).collect()),
        "i64" => GradientData::I64(numbers().map(|bits| bits as i64).collect()),
        other => panic!("{other} is not an element type"),
    }
}

/// Writes sums. A sum is a big-endian number of 4 or 8 bytes.
pub(crate) fn sums(sums: &Sums) -> Vec<String> {
    let words: Vec<_> = match sums {
        Sums::F32(sums) => sums.iter().map(|sum| hex::encode(sum.to_be_bytes())).collect(),
        Sums::F64(sums) => sums.iter().map(|sum| hex::encode(sum.to_be_bytes())).collect(),
        Sums::I32(sums) => sums.iter().map(|sum| hex::encode(sum.to_be_bytes())).collect(),
        Sums::I64(sums) => sums.iter().map(|sum| hex::encode(sum.to_be_bytes())).collect(),
    };
    lines(&words)
}
