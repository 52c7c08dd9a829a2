//! Compiled P4 programs, which a controller loads into a switch.
//!
//! An input is a program's JSON; or, after a first byte that says so, places of a real program and what to put there, since
//! mutations of text alone hardly ever get past its syntax. Checked: a program is refused, or frames go through it;
//! none of both panics.

use std::sync::{Arc, LazyLock};

use serde_json::{Value, json};
use tributary_softswitch::{LoadError, Outputs, Pipeline, Switch};
use tributary_wire::Kind;

use crate::input::Input;
use crate::packets::{self, hop, values};
use crate::program::{JSON, P4INFO, Small};
use crate::{Seed, Target};

/// It uses more of P4 than ours.
const CONSTRUCTS: &str = include_str!("../../../softswitch/tests/programs/constructs.json");
const CONSTRUCTS_P4INFO: &str = include_str!("../../../softswitch/tests/programs/constructs.p4info.txtpb");
/// The bytes that say that a program is to be damaged; JSON never begins with them.
const DAMAGED: [u8; 2] = [1, 2];
/// Changes of one input.
const CHANGES: usize = 6;
/// A larger part in another one's place would only be slow.
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
    program: Small,
    /// All places in the document.
    places: Vec<String>,
}

static ORIGINALS: LazyLock<[Original; 2]> =
    LazyLock::new(|| [Original::new(CONSTRUCTS, CONSTRUCTS_P4INFO), Original::new(JSON, P4INFO)]);

impl Original {
    fn new(json: &str, p4info: &str) -> Self {
        let program = Small::new(json, p4info);
        let mut all = Vec::new();
        places(&program.json, "", &mut all);
        Self { program, places: all }
    }

    fn load(&self, json: &str) -> Result<Pipeline, LoadError> {
        Pipeline::load(json, self.program.p4info.clone())
    }

    fn damaged(&self, mut input: Input<'_>) -> Value {
        let mut document = self.program.json.clone();
        let place = |number: usize| self.places.get(number % self.places.len()).map_or("", String::as_str);
        for _ in 0..CHANGES {
            if input.is_empty() {
                break;
            }
            let (at, what, number) = (input.number(), input.byte(), input.number());
            let part = match what % 4 {
                0 => json!(number),
                1 => REPLACEMENTS[number % REPLACEMENTS.len()](),
                _ => self.program.json.pointer(place(number)).cloned().unwrap_or_default(),
            };
            if let (Some(place), true) = (document.pointer_mut(place(at)), part.to_string().len() < PART) {
                *place = part;
            }
        }
        document
    }
}

/// Something that some part of a program could be by mistake.
const REPLACEMENTS: [fn() -> Value; 20] = [
    || Value::Null,
    || json!(""),
    || json!("default"),
    || json!("0xffffffffffffffffffffffff"),
    || json!("-0x1"),
    || json!("*"),
    || json!([]),
    || json!({}),
    || json!(["hop", "$valid$"]),
    || json!(["values", "lanes_0"]),
    || json!(true),
    || json!(u64::MAX),
    || json!(-1),
    || json!(1.5),
    || json!("<<"),
    || json!(">>"),
    || json!("?"),
    || json!("two_comp_mod"),
    || json!("d2b"),
    || json!("later_hops"),
];

/// All places of a JSON document, as pointers.
fn places(json: &Value, at: &str, all: &mut Vec<String>) {
    all.push(at.to_owned());
    match json {
        Value::Array(items) => {
            let items = items.iter().enumerate();
            items.for_each(|(index, item)| places(item, &format!("{at}/{index}"), all));
        }
        Value::Object(items) => {
            for (name, item) in items {
                places(item, &format!("{at}/{}", name.replace('~', "~0").replace('/', "~1")), all);
            }
        }
        _ => {}
    }
}

fn run(bytes: &[u8]) {
    let pipeline = match bytes {
        [first, rest @ ..] if DAMAGED.contains(first) => {
            let original = &ORIGINALS[usize::from(*first - DAMAGED[0])];
            original.load(&original.damaged(Input(rest)).to_string())
        }
        _ => match str::from_utf8(bytes) {
            Ok(text) => ORIGINALS[0].load(text),
            Err(_) => return,
        },
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
    let mut frames = vec![frame(Kind::Gradient), frame(Kind::Result)];
    frames.extend((0..14).map(|test| [vec![test, 0x80], vec![0xa5; 60]].concat()));
    for frame in frames {
        for port in [0, 1, 9, 510] {
            outputs.clear();
            switch.process(port, &frame, &mut outputs);
        }
    }
}

fn seeds() -> Vec<Seed> {
    let changes = |first: u8, changes: &[[u8; 5]]| [&[first][..], &changes.concat()].concat();
    vec![
        ("constructs".to_owned(), changes(1, &[])),
        ("ours".to_owned(), changes(2, &[])),
        ("numbers".to_owned(), changes(1, &[[0, 40, 0, 0, 9], [1, 20, 0, 0, 65]])),
        ("words".to_owned(), changes(1, &[[1, 40, 1, 0, 4], [2, 20, 1, 0, 14]])),
        ("exchanged".to_owned(), changes(1, &[[1, 0, 2, 2, 0], [2, 0, 3, 1, 0]])),
        (
            "json".to_owned(),
            br#"{"program":"p","header_types":[],"headers":[],"parsers":[],"pipelines":[]}"#.to_vec(),
        ),
    ]
}
