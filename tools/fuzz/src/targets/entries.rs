//! Entries for the start of a switch, from a file in the format of p4lang's tutorials.
//!
//! The target checks these properties: an entry that a switch accepts can be deleted again, and memory is
//! used in proportion to the bytes.

use std::sync::{Arc, LazyLock};

use tributary_p4runtime::P4Info;
use tributary_p4runtime::p4::v1::{Update, update};
use tributary_p4runtime::runtime_json::RuntimeJson;
use tributary_softswitch::server::requests;
use tributary_softswitch::{Pipeline, Switch};

use crate::bounded::within;
use crate::finding::sound;
use crate::{Seed, Target};

const JSON: &str = include_str!("../../../../crates/softswitch/tests/programs/router.json");
const INFO: &str = include_str!("../../../../crates/softswitch/tests/programs/router.p4info.txtpb");
const ENTRIES: &str = include_str!("../../../../crates/softswitch/tests/programs/router.runtime.json");

/// Memory in addition to the memory for the bytes. An error lists the program's objects.
const PROGRAM: usize = 64 << 10;
/// The most memory for a byte. An empty list in a list takes two bytes.
const EACH: usize = 256;

pub(super) const TARGET: Target = Target {
    name: "entries",
    about: "entries that a switch starts with, as p4lang's tutorials have them",
    max_len: 4096,
    tries: 1500,
    run,
    seeds,
};

static PIPELINE: LazyLock<Arc<Pipeline>> = LazyLock::new(|| Arc::new(sound(Pipeline::load_text(JSON, INFO))));
static P4INFO: LazyLock<P4Info> = LazyLock::new(|| sound(P4Info::parse(INFO)));

fn run(bytes: &[u8]) {
    let Ok(text) = str::from_utf8(bytes) else { return };
    let info = &*P4INFO;
    let most = PROGRAM + EACH * text.len();
    let entries = within(most, "a file with entries", || RuntimeJson::parse(text)?.updates(info));
    let mut switch = Switch::new(Arc::clone(&PIPELINE));
    for entry in entries.into_iter().flatten() {
        assert!(entry.place.contains(", entry "), "{}", entry.place);
        let is_insertion = entry.update.r#type == i32::from(update::Type::Insert);
        if requests::write(&mut switch, entry.update.clone()).is_ok() && is_insertion {
            let delete = Update { r#type: update::Type::Delete.into(), ..entry.update };
            sound(requests::write(&mut switch, delete));
        }
    }
}

fn seeds() -> Vec<Seed> {
    let values = r#"{ "table_entries": [
        { "table": "route", "match": { "dst": ["0x0a000000", 8] }, "action_name": "forward",
          "action_params": { "dst": "12", "port": [3] } },
        { "table": "route", "default_action": true, "action_name": "drop", "action_params": {} },
        { "table": "access", "match": { "src": [-1, "::"], "dst_port": [0, 65535] }, "priority": 1, "action_name": "drop" }
    ] }"#;
    vec![
        ("router".to_owned(), ENTRIES.as_bytes().to_vec()),
        ("values".to_owned(), values.as_bytes().to_vec()),
    ]
}
