//! Compiled P4 programs, which a controller loads into a switch.
//!
//! An input is a program's JSON. If the first byte is in `DAMAGED`, the input has another form: positions in
//! a real program, replacements for them, and a frame. This form is needed because mutations of text alone
//! hardly ever get past its syntax. The target checks that a program is refused or processes frames, in both
//! cases without a panic, with and without a packet log.

use std::borrow::Cow;
use std::io;
use std::ops::{Range, RangeInclusive};
use std::sync::{Arc, LazyLock};

use serde_json::Value;
use tributary_p4runtime::p4::config::v1 as message;
use tributary_softswitch::{LoadError, LogForm, Outputs, PacketLog, Pipeline, Switch};
use tributary_wire::Kind;

use crate::finding::sound;
use crate::input::Input;
use crate::packets::{self, hop, values};
use crate::program::{JSON, P4INFO, Small};
use crate::{Seed, Target};

/// Returns the switch's test programs with these names, each with its JSON and its P4Info.
macro_rules! test_programs {
    ($($name:literal)*) => {
        [$((
            $name,
            include_str!(concat!("../../../../crates/softswitch/tests/programs/", $name, ".json")),
            include_str!(concat!("../../../../crates/softswitch/tests/programs/", $name, ".p4info.txtpb")),
        )),*]
    };
}

/// Programs that together use all of v1model. `ORIGINALS` has this project's program after them.
const TEST_PROGRAMS: [(&str, &str, &str); 21] = test_programs![
    "arithmetic" "checksums" "clocks" "constructs" "control" "copies" "drops" "externs" "hashing" "language" "logged"
    "matching" "packet_io" "parsing" "paths" "router" "selectors" "stacks" "state" "timeouts" "unions"
];
/// First bytes of inputs that damage a program: two for each program.
///
/// One is for a run with a packet log, and one is for a run without it. Text never begins with these bytes.
const DAMAGED: RangeInclusive<u8> = 0x80..=0xbf;
/// The most changes in one input.
const CHANGES: usize = 6;
/// The longest part that replaces another part. A longer part would only be slow.
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
    /// The JSON text, without white space.
    text: String,
    /// The ranges of its parts, one for each value. A container comes before its contents.
    parts: Vec<Range<usize>>,
}

/// Returns the first byte of an input that damages the program at this index of `ORIGINALS`.
const fn first_byte(place: u8, is_logged: bool) -> u8 {
    *DAMAGED.start() + 2 * place + is_logged as u8
}

/// A packet log whose output is discarded.
static LOG: LazyLock<io::Result<PacketLog>> = LazyLock::new(|| PacketLog::new(LogForm::Text, io::sink()));

static ORIGINALS: LazyLock<Vec<Original>> = LazyLock::new(|| {
    let tests = TEST_PROGRAMS.iter().map(|(_, json, p4info)| Original::new(json, p4info));
    tests.chain([Original::new(JSON, P4INFO)]).collect()
});

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

    /// Returns the text with other parts at some positions.
    ///
    /// It works on text and not on a tree of values, because copying and writing a tree would take longer
    /// than the check itself.
    fn damaged(&self, input: &mut Input<'_>) -> String {
        let mut changes = Vec::<(Range<usize>, _)>::new();
        for _ in 0..usize::from(input.byte()) % (CHANGES + 1) {
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

/// Replacements that a program could contain by mistake.
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

/// Writes a document to `text`, and the ranges of its parts to `parts`.
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
    let mut input = Input(bytes);
    let loaded = match bytes.first().filter(|first| DAMAGED.contains(first)) {
        Some(_) => {
            let choice = usize::from(input.byte() - DAMAGED.start());
            let original = &ORIGINALS[choice / 2 % ORIGINALS.len()];
            original.load(&original.damaged(&mut input), choice % 2 == 1)
        }
        None => match str::from_utf8(input.take(bytes.len())) {
            Ok(text) => ORIGINALS[0].load(text, true),
            Err(_) => return,
        },
    };
    match loaded {
        Ok(pipeline) => exercise(pipeline, input.0),
        Err(error) => assert!(!error.to_string().is_empty()),
    }
}

/// Runs a program on `frame` and on other frames.
///
/// The other frames reach all code of this project's programs, and of programs that branch on the first byte.
fn exercise(pipeline: Pipeline, frame: &[u8]) {
    let mut switch = Switch::new(Arc::new(pipeline));
    let mut outputs = Outputs::new();
    let hops = [hop(7, 9, 0, 2), hop(1000, 0, 0, 1)];
    let ours = |kind| packets::frame(packets::header(kind, 0x1234, 0, 1), &hops, Some(&values(1)));
    let others = (0..14).map(|test| [vec![test, 0x80], vec![0xa5; 60]].concat());
    let frames = [ours(Kind::Gradient), ours(Kind::Result), frame.to_vec()].into_iter().chain(others);
    for (frame, port) in frames.zip([0, 1, 9, 510].into_iter().cycle()) {
        outputs.clear();
        switch.process(port, &frame, &mut outputs);
    }
}

fn seeds() -> Vec<Seed> {
    let changed = |first: u8, changes: &[[u8; 5]], frame: &[u8]| {
        [&[first, changes.len() as u8][..], &changes.concat(), frame].concat()
    };
    let names = TEST_PROGRAMS.iter().map(|(name, ..)| *name).chain(["ours"]).zip(0..);
    let place =
        |wanted: &str| sound(names.clone().find(|(name, _)| *name == wanted).ok_or("no such program")).1;
    let whole = names.clone().map(|(name, place)| {
        let frame = [[2, 0, 0, 0, 0, place], [2, 0, 0, 0, 0, 1], [0x08, 0x00, 0x45, 0, 0, 40]].concat();
        (name.to_owned(), changed(first_byte(place, place % 2 == 1), &[], &frame))
    });
    let (constructs, ours) = (place("constructs"), place("ours"));
    let numbers = [[0, 40, 0, 0, 9], [1, 20, 0, 0, 65]];
    let words = [[1, 40, 1, 0, 4], [2, 20, 1, 0, 14]];
    let exchanged = [[1, 0, 2, 2, 0], [2, 0, 3, 1, 0]];
    let json = br#"{"program":"p","header_types":[],"headers":[],"parsers":[],"pipelines":[]}"#;
    whole
        .chain([
            ("numbers".to_owned(), changed(first_byte(constructs, false), &numbers, &[])),
            ("words".to_owned(), changed(first_byte(constructs, true), &words, &[])),
            ("exchanged".to_owned(), changed(first_byte(ours, false), &exchanged, &[])),
            ("json".to_owned(), json.to_vec()),
        ])
        .collect()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::ffi::OsStr;
    use std::fs;
    use std::path::Path;

    use super::*;

    #[test]
    fn all_test_programs_of_the_switch_are_damaged() {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../crates/softswitch/tests/programs");
        let files = fs::read_dir(folder).unwrap().map(|file| file.unwrap().path());
        let sources = files.filter(|file| file.extension() == Some(OsStr::new("p4")));
        let sources: BTreeSet<_> = sources.map(|file| file.file_stem().unwrap().to_owned()).collect();
        let damaged: BTreeSet<_> =
            TEST_PROGRAMS.iter().map(|(name, ..)| OsStr::new(*name).to_owned()).collect();
        assert_eq!(damaged, sources);
        let last = usize::from(DAMAGED.end() - DAMAGED.start()) / 2;
        assert!(ORIGINALS.len() <= last + 1, "there are bytes for {} programs", last + 1);
    }
}
