//! Checks that no frame and no program causes a panic.

use std::sync::{Arc, LazyLock};

use proptest::prelude::*;
use proptest::sample::Index;
use serde_json::Value;
use tributary_p4runtime::P4Info;
use tributary_softswitch::{LoadError, LogForm, Outputs, PacketLog, Pipeline, Switch};

use crate::support::{Rig, Sent, UP, p4_build, values};

/// An intact program, which the tests damage.
struct Original {
    json: String,
    p4info: String,
    document: Value,
    /// The paths to all values of the document.
    places: Vec<String>,
}

/// The project's program, and test programs that use more of P4.
static ORIGINALS: LazyLock<[Original; 3]> = LazyLock::new(|| {
    [
        Original::new(p4_build("tributary.json"), p4_build("tributary.p4info.txtpb")),
        Original::new(
            include_str!("../programs/constructs.json").to_owned(),
            include_str!("../programs/constructs.p4info.txtpb").to_owned(),
        ),
        Original::new(
            include_str!("../programs/language.json").to_owned(),
            include_str!("../programs/language.p4info.txtpb").to_owned(),
        ),
    ]
});

impl Original {
    fn new(json: String, p4info: String) -> Self {
        let document = serde_json::from_str(&json).unwrap();
        let mut all = Vec::new();
        places(&document, "", &mut all);
        Self { json, p4info, document, places: all }
    }

    fn load(&self, json: &str) -> Result<Pipeline, LoadError> {
        Pipeline::load_text(json, &self.p4info)
    }

    /// Loads a program for a switch that logs its packets.
    fn load_to_log(&self, json: &str) -> Result<Pipeline, LoadError> {
        static LOG: LazyLock<PacketLog> =
            LazyLock::new(|| PacketLog::new(LogForm::Text, std::io::sink()).unwrap());
        let p4info = P4Info::parse(&self.p4info).unwrap().message().clone();
        Pipeline::load_to_log(json, p4info, Some(LOG.clone()))
    }

    fn some_place(&self, index: &Index) -> &str {
        &self.places[index.index(self.places.len())]
    }
}

fn original() -> impl Strategy<Value = &'static Original> {
    (0..3_usize).prop_map(|number| &ORIGINALS[number])
}

impl std::fmt::Debug for Original {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}", self.document["program"])
    }
}

/// Collects the paths to all values of a JSON document, as JSON pointers.
fn places(json: &Value, at: &str, all: &mut Vec<String>) {
    all.push(at.to_owned());
    match json {
        Value::Array(items) => {
            for (index, item) in items.iter().enumerate() {
                places(item, &format!("{at}/{index}"), all);
            }
        }
        Value::Object(items) => {
            for (name, item) in items.iter().filter(|(name, _)| *name != "source_info") {
                places(item, &format!("{at}/{}", name.replace('~', "~0").replace('/', "~1")), all);
            }
        }
        _ => {}
    }
}

/// Generates a value that could be anywhere in a program by mistake.
fn replacement() -> impl Strategy<Value = Value> {
    prop_oneof![
        Just(Value::Null),
        Just(Value::from("")),
        Just(Value::from("default")),
        Just(Value::from("0xffffffffffffffffffffffff")),
        Just(Value::from("-0x1")),
        Just(Value::from("*")),
        Just(Value::from("later_hops")),
        Just(Value::from("SwitchIngress.admission.admission")),
        Just(serde_json::json!([])),
        Just(serde_json::json!({})),
        Just(serde_json::json!(["values", "lanes_0"])),
        Just(serde_json::json!(["hop", "$valid$"])),
        any::<bool>().prop_map(Value::from),
        any::<u64>().prop_map(Value::from),
        (0..70_u64).prop_map(Value::from),
        prop::sample::select(vec![
            "+",
            "-",
            "*",
            ">>",
            "<<",
            "~",
            "&",
            "<",
            "==",
            "?",
            "and",
            "not",
            "two_comp_mod"
        ])
        .prop_map(Value::from),
    ]
}

/// Runs a program on packets that reach all of it.
fn exercise(pipeline: Pipeline) {
    let mut switch = Switch::new(Arc::new(pipeline));
    let mut outputs = Outputs::new();
    let mut frames = vec![Sent::gradient(0, 2, 1, values(1)).frame(), Sent::result(1, 2).frame()];
    for test in 0..14 {
        frames.push([vec![test, 0x80], vec![0xa5; 60]].concat());
    }
    for frame in frames {
        for port in [0, 1, UP, 510] {
            outputs.clear();
            switch.process(port, &frame, &mut outputs);
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 128, ..ProptestConfig::default() })]

    #[test]
    fn a_damaged_program_is_refused_or_runs(
        original in original(),
        damage in prop::collection::vec((any::<Index>(), replacement()), 1..4),
    ) {
        let mut document = original.document.clone();
        for (place, value) in damage {
            if let Some(part) = document.pointer_mut(original.some_place(&place)) {
                *part = value;
            }
        }
        let json = document.to_string();
        for pipeline in [original.load(&json), original.load_to_log(&json)].into_iter().flatten() {
            exercise(pipeline);
        }
    }

    #[test]
    fn parts_of_a_program_in_each_others_place_are_refused_or_run(
        original in original(),
        swaps in prop::collection::vec(any::<[Index; 2]>(), 1..4),
    ) {
        let mut document = original.document.clone();
        for [from, to] in swaps {
            let part = original.document.pointer(original.some_place(&from)).cloned().unwrap_or_default();
            // This leaves out the replacement of a part by the whole document, which would only be
            // slow.
            if let (Some(place), true) = (document.pointer_mut(original.some_place(&to)), part.to_string().len() < 5000) {
                *place = part;
            }
        }
        let json = document.to_string();
        for pipeline in [original.load(&json), original.load_to_log(&json)].into_iter().flatten() {
            exercise(pipeline);
        }
    }

    #[test]
    fn a_program_that_ends_early_is_refused(original in original(), len in any::<Index>()) {
        let len = len.index(original.json.trim_end().len());
        prop_assert!(original.load(original.json.get(..len).unwrap_or_default()).is_err());
    }
}

proptest! {
    #[test]
    fn any_bytes_are_survived(port in 0_u16..520, frame in prop::collection::vec(any::<u8>(), 0..1300)) {
        let mut rig = Rig::aggregating(2);
        rig.send(port, &frame);
    }

    #[test]
    fn damaged_packets_are_survived(
        child in 0_u8..3,
        damage in prop::collection::vec((any::<Index>(), any::<u8>()), 0..6),
        keep in any::<Index>(),
        cut in any::<bool>(),
    ) {
        let mut rig = Rig::aggregating(2);
        let mut frame = Sent::gradient(child, 2, 1, values(1)).frame();
        for (at, byte) in damage {
            // The index covers the headers and the first values, because bytes behind them do not
            // affect control flow.
            frame[at.index(100)] = byte;
        }
        if cut {
            frame.truncate(keep.index(frame.len()));
        }
        for port in [1, 2, UP, 510] {
            rig.send(port, &frame);
        }
    }
}
