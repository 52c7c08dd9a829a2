//! Compiled P4 programs, which a controller loads into a switch.
//!
//! An input is a program's JSON; or, after a first byte that says so, positions in a real program and replacements for
//! them, since mutations of text alone hardly ever get past its syntax. Checked: a program is refused, or processes
//! frames, without a panic in either case, whether its packets are logged or not.

use std::borrow::Cow;
use std::io;
use std::ops::Range;
use std::sync::{Arc, LazyLock};

use serde_json::Value;
use tributary_p4runtime::p4::config::v1 as message;
use tributary_softswitch::{LoadError, LogForm, Outputs, PacketLog, Pipeline, Switch};
use tributary_wire::Kind;

use crate::input::Input;
use crate::packets::{self, hop, values};
use crate::program::{JSON, P4INFO, Small};
use crate::{Seed, Target};

/// A program that uses more of P4 than ours.
const CONSTRUCTS: &str = include_str!("../../../softswitch/tests/programs/constructs.json");
const CONSTRUCTS_P4INFO: &str = include_str!("../../../softswitch/tests/programs/constructs.p4info.txtpb");
/// First bytes of inputs that damage a program, and those of inputs that damage one whose packets are logged: each stands
/// for one of the [`ORIGINALS`]. JSON never begins with them.
const DAMAGED: [u8; 2] = [1, 2];
const LOGGED: [u8; 2] = [3, 4];
/// The most changes in one input.
const CHANGES: usize = 6;
/// The longest part that replaces another: a longer one would only be slow.
const PART: usize = 5000;

pub(super) const TARGET: Target = Target {
    name: "program",
    about: "BMv2 JSON: a whole one, or changes of a real one",
    max_len: 4096,
    tries: 25,
    run,
    seeds,
};

/// A program to damage.
struct Original {
    p4info: message::P4Info,
    /// The document, without white space.
    text: String,
    /// The ranges of its parts: one for each value, containers before their contents.
    parts: Vec<Range<usize>>,
}

/// A log that nobody reads.
static LOG: LazyLock<io::Result<PacketLog>> = LazyLock::new(|| PacketLog::new(LogForm::Text, io::sink()));

static ORIGINALS: LazyLock<[Original; 2]> =
    LazyLock::new(|| [Original::new(CONSTRUCTS, CONSTRUCTS_P4INFO), Original::new(JSON, P4INFO)]);

impl Original {
    fn new(json: &str, p4info: &str) -> Self {
        let Small { json, p4info } = Small::new(json, p4info);
        let (mut text, mut parts) = (String::new(), Vec::new());
        write(&json, &mut text, &mut parts);
        Self { p4info, text, parts }
    }

    fn load(&self, json: &str, is_logged: bool) -> Result<Pipeline, LoadError> {
        let log = LOG.as_ref().ok().filter(|_| is_logged).cloned();
        Pipeline::load_to_log(json, self.p4info.clone(), log)
    }

    /// The text with other parts at some positions. It works on text and not on a tree of values: copying a tree and
    /// writing it out would take longer than the check itself.
    fn damaged(&self, mut input: Input<'_>) -> String {
        let mut changes = Vec::<(Range<usize>, _)>::new();
        for _ in 0..CHANGES {
            if input.is_empty() {
                break;
            }
            let (at, what, number) = (self.part(input.number()), input.byte(), input.number());
            let part: Cow<'_, str> = match what % 4 {
                0 => number.to_string().into(),
                1 => REPLACEMENTS[number % REPLACEMENTS.len()].into(),
                _ => self.text[self.part(number)].into(),
            };
            let is_free = changes.iter().all(|(taken, _)| at.end <= taken.start || taken.end <= at.start);
            if is_free && part.len() < PART {
                changes.push((at, part));
            }
        }
        changes.sort_by_key(|(at, _)| at.start);
        let (mut text, mut from) = (String::with_capacity(self.text.len() + PART), 0);
        for (at, part) in changes {
            text.push_str(&self.text[from..at.start]);
            text.push_str(&part);
            from = at.end;
        }
        text + &self.text[from..]
    }

    fn part(&self, number: usize) -> Range<usize> {
        self.parts[number % self.parts.len()].clone()
    }
}

/// Replacements that could be in a program by mistake.
const REPLACEMENTS: [&str; 20] = [
    "null",
    r#""""#,
    r#""default""#,
    r#""0xffffffffffffffffffffffff""#,
    r#""-0x1""#,
    r#""*""#,
    "[]",
    "{}",
    r#"["hop","$valid$"]"#,
    r#"["values","lanes_0"]"#,
    "true",
    "18446744073709551615",
    "-1",
    "1.5",
    r#""<<""#,
    r#"">>""#,
    r#""?""#,
    r#""two_comp_mod""#,
    r#""d2b""#,
    r#""later_hops""#,
];

/// Writes a document, and the ranges of its parts.
fn write(json: &Value, text: &mut String, parts: &mut Vec<Range<usize>>) {
    let (from, place) = (text.len(), parts.len());
    parts.push(from..from);
    match json {
        Value::Array(items) => {
            text.push('[');
            for (index, item) in items.iter().enumerate() {
                text.push_str(if index == 0 { "" } else { "," });
                write(item, text, parts);
            }
            text.push(']');
        }
        Value::Object(items) => {
            text.push('{');
            for (index, (name, item)) in items.iter().enumerate() {
                text.push_str(if index == 0 { "" } else { "," });
                text.push_str(&format!("{}:", Value::from(name.as_str())));
                write(item, text, parts);
            }
            text.push('}');
        }
        leaf => text.push_str(&leaf.to_string()),
    }
    parts[place].end = text.len();
}

fn run(bytes: &[u8]) {
    let place = |of: [u8; 2]| bytes.first().and_then(|first| of.iter().position(|byte| byte == first));
    let damaged = |place: usize, is_logged| {
        let original = &ORIGINALS[place];
        original.load(&original.damaged(Input(&bytes[1..])), is_logged)
    };
    let pipeline = match (place(DAMAGED), place(LOGGED), str::from_utf8(bytes)) {
        (Some(place), ..) => damaged(place, false),
        (_, Some(place), _) => damaged(place, true),
        (.., Ok(text)) => ORIGINALS[0].load(text, true),
        (.., Err(_)) => return,
    };
    match pipeline {
        Ok(pipeline) => exercise(pipeline),
        Err(error) => assert!(!error.to_string().is_empty()),
    }
}

/// Runs a program on packets that reach all of it.
fn exercise(pipeline: Pipeline) {
    let mut switch = Switch::new(Arc::new(pipeline));
    let mut outputs = Outputs::new();
    let hops = [hop(7, 9, 0, 2), hop(1000, 0, 0, 1)];
    let frame = |kind| packets::frame(packets::header(kind, 0x1234, 0, 1), &hops, Some(&values(1)));
    let ports = [0, 1, 9, 510];
    let ours = [frame(Kind::Gradient), frame(Kind::Result)];
    let ours = ours.iter().flat_map(|frame| ports.map(|port| (port, frame.clone())));
    // The program of constructs does something else for each first byte, and asks for the port only in few of them.
    let tests = (0..14).zip(ports.into_iter().cycle());
    let tests = tests.map(|(test, port)| (port, [vec![test, 0x80], vec![0xa5; 60]].concat()));
    for (port, frame) in ours.chain(tests) {
        outputs.clear();
        switch.process(port, &frame, &mut outputs);
    }
}

fn seeds() -> Vec<Seed> {
    let changes = |first: u8, changes: &[[u8; 5]]| [&[first][..], &changes.concat()].concat();
    vec![
        ("constructs".to_owned(), changes(1, &[])),
        ("ours".to_owned(), changes(2, &[])),
        ("constructs-logged".to_owned(), changes(3, &[])),
        ("ours-logged".to_owned(), changes(4, &[])),
        ("numbers".to_owned(), changes(1, &[[0, 40, 0, 0, 9], [1, 20, 0, 0, 65]])),
        ("words".to_owned(), changes(1, &[[1, 40, 1, 0, 4], [2, 20, 1, 0, 14]])),
        ("exchanged".to_owned(), changes(1, &[[1, 0, 2, 2, 0], [2, 0, 3, 1, 0]])),
        (
            "json".to_owned(),
            br#"{"program":"p","header_types":[],"headers":[],"parsers":[],"pipelines":[]}"#.to_vec(),
        ),
    ]
}
