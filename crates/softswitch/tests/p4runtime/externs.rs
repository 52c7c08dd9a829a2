//! A switch that runs `programs/externs.p4`, with its requests and answers.

use std::sync::LazyLock;

use tributary_p4runtime::p4::v1::entity::Entity;
use tributary_p4runtime::p4::v1::field_match::{Exact, FieldMatchType};
use tributary_p4runtime::p4::v1::{self as message, table_action};
use tributary_p4runtime::{P4Info, Session};

use crate::fixture::Rig;

pub(crate) const JSON: &str = include_str!("../programs/externs.json");
pub(crate) const INFO_TEXT: &str = include_str!("../programs/externs.p4info.txtpb");
pub(crate) static EXTERNS: LazyLock<P4Info> = LazyLock::new(|| P4Info::parse(INFO_TEXT).unwrap());

/// Starts a switch that runs the program, and connects its primary controller.
pub(crate) async fn start() -> (Rig, Session) {
    Rig::running(JSON, &EXTERNS).await
}

/// The fields of a packet.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Request {
    pub(crate) kind: u8,
    pub(crate) meter: u8,
    pub(crate) key: u8,
    pub(crate) flow: u8,
    pub(crate) learned: u32,
}

/// The results that the program writes to a packet.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Answer {
    pub(crate) special: u8,
    pub(crate) colour: u8,
    pub(crate) entry_colour: u8,
    pub(crate) chosen: u8,
    pub(crate) hit: u8,
    pub(crate) initial: u8,
}

/// Length of a packet in bytes.
pub(crate) const BYTES: usize = 100;

/// Sends a packet, and returns the answer in the packet that comes back.
pub(crate) async fn ask(mut rig: Rig, request: Request) -> (Rig, Answer) {
    let mut frame = vec![request.kind, request.meter, request.key, request.flow];
    frame.extend(request.learned.to_be_bytes());
    frame.resize(BYTES, 0);
    rig.send(&frame);
    let (rig, frame) = rig.receive().await;
    let [special, colour, entry_colour, chosen, hit, initial] = *frame.first_chunk().unwrap();
    (rig, Answer { special, colour, entry_colour, chosen, hit, initial })
}

/// Returns the id of an object by the end of its name.
pub(crate) fn id(name: &str) -> u32 {
    let info = EXTERNS.message();
    let tables = info.tables.iter().map(|one| &one.preamble);
    let actions = info.actions.iter().map(|one| &one.preamble);
    let profiles = info.action_profiles.iter().map(|one| &one.preamble);
    let meters = info.meters.iter().map(|one| &one.preamble);
    let registers = info.registers.iter().map(|one| &one.preamble);
    let digests = info.digests.iter().map(|one| &one.preamble);
    let sets = info.value_sets.iter().map(|one| &one.preamble);
    let all = tables.chain(actions).chain(profiles).chain(meters).chain(registers).chain(digests).chain(sets);
    all.flatten().find(|preamble| preamble.alias == name).unwrap_or_else(|| panic!("{name}")).id
}

/// Makes an action with arguments of one byte each.
pub(crate) fn call(action: &str, arguments: &[u8]) -> message::Action {
    let param = |(param_id, value): (u32, &u8)| message::action::Param { param_id, value: vec![*value] };
    message::Action { action_id: id(action), params: (1..).zip(arguments).map(param).collect() }
}

/// Makes an entry of a table whose key is one byte that matches exactly.
pub(crate) fn entry(table: &str, key: u8, action: table_action::Type) -> message::TableEntry {
    let exact = FieldMatchType::Exact(Exact { value: vec![key] });
    message::TableEntry {
        table_id: id(table),
        r#match: vec![message::FieldMatch { field_id: 1, field_match_type: Some(exact) }],
        action: Some(message::TableAction { r#type: Some(action) }),
        ..Default::default()
    }
}

pub(crate) fn table(entry: &message::TableEntry) -> Entity {
    Entity::TableEntry(entry.clone())
}
