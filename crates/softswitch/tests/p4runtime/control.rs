//! A switch that runs `programs/control.p4`, with its requests and answers.

use std::sync::LazyLock;

use tributary_p4runtime::p4::v1::field_match::{Exact, FieldMatchType, Optional};
use tributary_p4runtime::p4::v1::{self as message, FieldMatch, entity::Entity, table_action::Type::Action};
use tributary_p4runtime::{P4Info, Session};

use crate::fixture::Rig;

const JSON: &str = include_str!("../programs/control.json");
const TEXT: &str = include_str!("../programs/control.p4info.txtpb");
pub(crate) static CONTROL: LazyLock<P4Info> = LazyLock::new(|| P4Info::parse(TEXT).unwrap());

/// Starts a switch that runs the program, and connects its primary controller.
pub(crate) async fn start() -> (Rig, Session) {
    Rig::running(JSON, &CONTROL).await
}

/// Starts the switch with a P4Info in which every occurrence of a text is replaced.
pub(crate) async fn start_with(from: &str, to: &str) -> (Rig, Session) {
    assert!(TEXT.contains(from), "{from}");
    Rig::running(JSON, &P4Info::parse(&TEXT.replace(from, to)).unwrap()).await
}

/// The fields of a packet.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Request {
    pub(crate) flow: u16,
    pub(crate) class: u8,
    pub(crate) left: u64,
    pub(crate) right: u64,
}

/// The results that the program writes to a packet.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Answer {
    pub(crate) value: u8,
    pub(crate) entry_colour: u8,
    pub(crate) cell_colour: u8,
    pub(crate) in_set: u8,
}

impl Request {
    pub(crate) fn frame(self) -> Vec<u8> {
        let mut frame = self.flow.to_be_bytes().to_vec();
        frame.push(self.class);
        frame.extend(&self.left.to_be_bytes()[1..]);
        frame.extend(&self.right.to_be_bytes()[2..]);
        frame.resize(60, 0);
        frame
    }
}

/// Sends a packet, and returns the answer in the packet that comes back.
pub(crate) async fn ask(mut rig: Rig, request: Request) -> (Rig, Answer) {
    rig.send(&request.frame());
    let (rig, frame) = rig.receive().await;
    let [value, entry_colour, cell_colour, in_set] = *frame.first_chunk().unwrap();
    (rig, Answer { value, entry_colour, cell_colour, in_set })
}

/// Returns the id of an object by the end of its name.
pub(crate) fn id(name: &str) -> u32 {
    let info = CONTROL.message();
    let tables = info.tables.iter().map(|one| &one.preamble);
    let actions = info.actions.iter().map(|one| &one.preamble);
    let meters = info.meters.iter().map(|one| &one.preamble);
    let sets = info.value_sets.iter().map(|one| &one.preamble);
    let all = tables.chain(actions).chain(meters).chain(sets);
    all.flatten().find(|preamble| preamble.alias == name).unwrap_or_else(|| panic!("{name}")).id
}

/// Makes an action with these arguments.
pub(crate) fn call(action: &str, arguments: &[&[u8]]) -> Option<message::TableAction> {
    let param = |(param_id, value): (u32, &&[u8])| message::action::Param { param_id, value: value.to_vec() };
    let action = message::Action { action_id: id(action), params: (1..).zip(arguments).map(param).collect() };
    Some(message::TableAction { r#type: Some(Action(action)) })
}

pub(crate) fn exact(field_id: u32, value: &[u8]) -> FieldMatch {
    let exact = FieldMatchType::Exact(Exact { value: value.to_vec() });
    FieldMatch { field_id, field_match_type: Some(exact) }
}

pub(crate) fn optional(field_id: u32, value: &[u8]) -> FieldMatch {
    let optional = FieldMatchType::Optional(Optional { value: value.to_vec() });
    FieldMatch { field_id, field_match_type: Some(optional) }
}

/// Makes a default entry of the table `answering`.
pub(crate) fn default(action: Option<message::TableAction>) -> message::TableEntry {
    message::TableEntry { table_id: id("answering"), is_default_action: true, action, ..Default::default() }
}

pub(crate) fn table(entry: &message::TableEntry) -> Entity {
    Entity::TableEntry(entry.clone())
}
