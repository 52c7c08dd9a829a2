//! Translated values, wide value sets, and objects that only the P4Info has.

use tributary_p4runtime::Code;
use tributary_p4runtime::p4::v1::entity::Entity;
use tributary_p4runtime::p4::v1::field_match::{FieldMatchType, Ternary};
use tributary_p4runtime::p4::v1::update::Type as Update;
use tributary_p4runtime::p4::v1::{self as message, PacketMetadata, TableEntry, ValueSetMember};
use tributary_p4runtime::session::Notification;

use crate::control::{Request, ask, call, exact, id, optional, start, start_with, table};
use crate::fixture::{code, read_raw, receive, soon, update};

/// Makes an entry for packets of port 2 and this flow.
fn forward(flow: &[u8], action: Option<message::TableAction>) -> TableEntry {
    TableEntry {
        table_id: id("forward"),
        r#match: vec![exact(1, b"2"), exact(2, flow), optional(3, &[3])],
        priority: 1,
        action,
        ..Default::default()
    }
}

#[tokio::test]
async fn translated_values_are_numbers_that_fit_on_both_sides() {
    let (rig, session) = start().await;
    let insert = |entry: &TableEntry| update(Update::Insert, table(entry));
    let good = forward(&[1, 0], call("to_port", &[b"2"]));
    session.write(vec![insert(&good)]).await.unwrap();
    let request = Request { flow: 0x100, class: 3, ..Request::default() };
    let (_rig, answer) = ask(rig, request).await;
    assert_eq!(answer.value, 1);
    let pattern = TableEntry { action: None, ..good.clone() };
    assert_eq!(read_raw(&session, table(&pattern)).await, [table(&good)]);

    let key = |at: usize, field| {
        let mut bad = forward(&[9], call("to_port", &[b"2"]));
        bad.r#match[at] = field;
        bad
    };
    for bad in [
        forward(&[1, 0, 0], call("to_port", &[b"2"])),
        forward(&[9], call("to_port", &[b"eth0"])),
        forward(&[9], call("to_port", &[&[2]])),
        forward(&[9], call("to_port", &[b"512"])),
        key(0, exact(1, b"02")),
        key(0, exact(1, &[2])),
        key(2, optional(3, &[16])),
    ] {
        assert_eq!(code(&session, insert(&bad)).await, Code::InvalidArgument, "{bad:?}");
    }
}

#[tokio::test]
async fn controller_headers_are_translated() {
    let (mut rig, session) = start().await;
    let mut heard = session.notifications();
    let entry = forward(&[1, 0], call("to_controller", &[]));
    session.write(vec![update(Update::Insert, table(&entry))]).await.unwrap();
    let request = Request { flow: 0x100, class: 3, ..Request::default() };
    rig.send(&request.frame());
    let Notification::PacketIn(packet) = soon(heard.recv()).await.unwrap() else { panic!() };
    let field = |metadata_id, value: &[u8]| PacketMetadata { metadata_id, value: value.to_vec() };
    assert_eq!(packet.metadata, [field(1, b"2"), field(2, &[0]), field(3, &[1, 0])]);

    let metadata = vec![field(1, b"2"), field(2, &[0])];
    session.send_packet(message::PacketOut { payload: request.frame(), metadata }).await.unwrap();
    let received = tokio::task::spawn_blocking(move || receive(&mut rig.host)).await.unwrap();
    assert_eq!(received, request.frame());
    let metadata = vec![field(1, b"uplink")];
    session.send_packet(message::PacketOut { payload: request.frame(), metadata }).await.unwrap();
    let Notification::Refused(error) = soon(heard.recv()).await.unwrap() else { panic!() };
    assert_eq!(error.canonical_code, i32::from(Code::InvalidArgument));
    assert!(error.message.contains("egress_port") && error.message.contains("uplink"), "{}", error.message);
}

#[tokio::test]
async fn a_value_set_of_wide_fields_is_compared_as_a_whole() {
    let (rig, session) = start().await;
    let ternary = |value: &[u8], mask: &[u8]| message::FieldMatch {
        field_id: 2,
        field_match_type: Some(FieldMatchType::Ternary(Ternary {
            value: value.to_vec(),
            mask: mask.to_vec(),
        })),
    };
    let member = ValueSetMember {
        r#match: vec![
            exact(1, &[1, 2, 3, 4, 5, 6, 7]),
            ternary(&[0xab, 0, 0, 0, 0, 0], &[0xff, 0, 0, 0, 0, 0]),
        ],
    };
    let any_right = ValueSetMember { r#match: vec![exact(1, &[9])] };
    let set = |members: &[ValueSetMember]| {
        let (value_set_id, members) = (id("pairs"), members.to_vec());
        Entity::ValueSetEntry(message::ValueSetEntry { value_set_id, members })
    };
    let both = set(&[member.clone(), any_right]);
    session.write(vec![update(Update::Modify, both.clone())]).await.unwrap();
    assert_eq!(read_raw(&session, set(&[])).await, [both]);
    assert_eq!(
        code(&session, update(Update::Modify, set(&[member.clone(), member]))).await,
        Code::AlreadyExists
    );
    let left = 0x01_0203_0405_0607;
    let mut rig = rig;
    for (left, right, expected) in [
        (left, 0xab12_3456_789a, 1),
        (left, 0xaa12_3456_789a, 0),
        (left ^ 1 << 55, 0xab12_3456_789a, 0),
        (9, 0x77, 1),
        (8, 0x77, 0),
    ] {
        let answer;
        (rig, answer) = ask(rig, Request { left, right, ..Request::default() }).await;
        assert_eq!(answer.in_set, expected, "{left:x} {right:x}");
    }
}

#[tokio::test]
async fn a_table_that_the_compiler_left_out_is_empty_and_takes_no_entries() {
    // The compiler would have written this table in front of the other tables.
    let first = "tables {\n  preamble {\n    id: 49720512\n";
    let other = r#"tables {
          preamble { id: 0x02000077 name: "ControlIngress.left_out" alias: "left_out" }
          match_fields { id: 1 name: "k" bitwidth: 8 match_type: EXACT }
          action_refs { id: 25600311 }
        }
        action_profiles {
          preamble { id: 0x11000077 name: "ControlIngress.unused" alias: "unused" }
          table_ids: 0x02000077
          size: 4
        }
        "#;
    let (_rig, session) = start_with(first, &format!("{other}{first}")).await;
    let entry = TableEntry {
        table_id: 0x0200_0077,
        r#match: vec![exact(1, &[1])],
        action: call("to_controller", &[]),
        ..Default::default()
    };
    let refused = crate::fixture::failures(&session, vec![update(Update::Insert, table(&entry))]).await;
    assert_eq!(refused[0].code, Code::InvalidArgument);
    assert!(refused[0].reason.contains("left_out") && refused[0].reason.contains("compiler"), "{refused:?}");
    for default in [false, true] {
        let pattern = TableEntry { table_id: 0x0200_0077, is_default_action: default, ..Default::default() };
        assert!(read_raw(&session, table(&pattern)).await.is_empty());
    }
    assert!(read_raw(&session, table(&TableEntry::default())).await.is_empty());
    let members = Entity::ActionProfileMember(message::ActionProfileMember::default());
    assert!(read_raw(&session, members).await.is_empty());
}

#[tokio::test]
async fn a_controller_header_that_the_program_does_not_have_is_what_the_p4info_says() {
    let fields = "metadata {\n    id: 1\n    name: \"egress_port\"\n    type_name {\n      name: \"port_name_t\"\n    }\n  }\n";
    let other = "metadata { id: 1 name: \"elsewhere\" bitwidth: 31 }";
    let (_rig, session) = start_with(fields, other).await;
    let mut heard = session.notifications();
    let metadata = vec![PacketMetadata { metadata_id: 1, value: vec![0x80, 0, 0, 0] }];
    session.send_packet(message::PacketOut { payload: vec![0; 60], metadata }).await.unwrap();
    let Notification::Refused(error) = soon(heard.recv()).await.unwrap() else { panic!() };
    assert!(error.message.contains("elsewhere") && error.message.contains("31"), "{}", error.message);
}
