//! P4Info, which lists a compiled program's objects: text from a file, or a message from a controller.
//!
//! The target checks these properties: accepted P4Info does not change in a round trip over the wire; all
//! objects are found by their ids and names; their references to other objects resolve; and reading uses
//! memory only in proportion to the bytes.

use prost::Message;
use tributary_p4runtime::P4Info;
use tributary_p4runtime::p4::config::v1 as message;

use crate::bounded::within;
use crate::finding::sound;
use crate::program::P4INFO;
use crate::{Seed, Target};

/// Memory in addition to the memory for the bytes: P4Info's descriptor, which is needed to read text.
const DESCRIPTION: usize = 8 << 20;
/// The most memory for a byte.
///
/// An empty message in a list takes two bytes, and some hundreds of bytes in memory.
const EACH: usize = 1024;

pub(super) const TARGET: Target = Target {
    name: "p4info",
    about: "P4Info: text, or a protobuf message",
    max_len: 12_000,
    tries: 150,
    run,
    seeds,
};

fn run(bytes: &[u8]) {
    let most = DESCRIPTION + EACH * bytes.len();
    if let Ok(text) = str::from_utf8(bytes)
        && let Ok(info) = within(most, "P4Info's text", || P4Info::parse(text))
    {
        sane(&info);
    }
    let read = within(most, "P4Info", || message::P4Info::decode(bytes).ok().map(P4Info::new));
    if let Some(Ok(info)) = read {
        sane(&info);
    }
}

fn sane(info: &P4Info) {
    let sent = info.message().encode_to_vec();
    let again = sound(P4Info::new(sound(message::P4Info::decode(&*sent))));
    assert_eq!(again.message(), info.message());
    for table in info.tables() {
        assert_eq!(info.table(&table.name.full).map(|table| table.name.id), Some(table.name.id));
        assert_eq!(info.table(&table.name.alias).map(|table| table.name.id), Some(table.name.id));
        assert!(table.actions.iter().all(|action| info.action_by_id(action.id).is_some()));
    }
    assert!(info.actions().all(|action| info.action(&action.name.alias).is_some()));
    assert!(info.counters().all(|counter| info.counter(&counter.name.alias).is_some()));
    assert!(info.registers().all(|register| info.register(&register.name.alias).is_some()));
}

fn seeds() -> Vec<Seed> {
    let constructs = include_str!("../../../../crates/softswitch/tests/programs/constructs.p4info.txtpb");
    let info = sound(P4Info::parse(P4INFO));
    vec![
        ("constructs".to_owned(), constructs.as_bytes().to_vec()),
        ("small".to_owned(), SMALL.as_bytes().to_vec()),
        ("message".to_owned(), info.message().encode_to_vec()),
    ]
}

/// P4Info with one object of each kind.
const SMALL: &str = r#"pkg_info { arch: "v1model" }
tables {
  preamble { id: 33554433 name: "a.t" alias: "t" }
  match_fields { id: 1 name: "k" bitwidth: 8 match_type: TERNARY }
  action_refs { id: 16777217 scope: TABLE_ONLY }
  const_default_action_id: 16777217
  size: 16
}
actions {
  preamble { id: 16777217 name: "a.f" alias: "f" }
  params { id: 1 name: "p" bitwidth: 9 }
}
counters {
  preamble { id: 302055013 name: "c" alias: "c" }
  spec { unit: BOTH }
  size: 4
}
registers {
  preamble { id: 369140025 name: "r" alias: "r" }
  type_spec { bitstring { bit { bitwidth: 32 } } }
  size: 8
}
controller_packet_metadata {
  preamble { id: 67146229 name: "packet_in" alias: "packet_in" }
  metadata { id: 1 name: "port" bitwidth: 9 }
}
type_info { new_types { key: "n" value { original_type { bitstring { bit { bitwidth: 9 } } } } } }
"#;
