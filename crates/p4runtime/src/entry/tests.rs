use std::sync::LazyLock;

use proptest::prelude::*;

use super::*;
use crate::canonical::{ByteStringError, all_ones};
use crate::p4::v1 as message;
use crate::p4::v1::field_match::FieldMatchType;
use crate::p4info::tests::ROUTER;
use crate::p4info::{MatchField, MatchType, P4Info, Scope};

/// Returns the test program's P4Info. It is parsed once, because the property tests need it
/// hundreds of times.
fn router() -> P4Info {
    static INFO: LazyLock<P4Info> = LazyLock::new(|| P4Info::parse(ROUTER).unwrap());
    INFO.clone()
}

fn admit() -> ActionCall {
    ActionCall::new("admit").with("slot_base", 512u32).with("kinds", 3u8)
}

fn admission() -> TableEntry {
    TableEntry::new("admission").exact("job", 7u16).exact("ingress_port", 259u16).action(admit())
}

fn refusal(entry: &TableEntry) -> String {
    entry.to_proto(&router()).unwrap_err().to_string()
}

#[test]
fn an_entry_becomes_ids_and_canonical_bytes() {
    let message = admission().to_proto(&router()).unwrap();
    assert_eq!(message.table_id, 0x0200_0001);
    let values: Vec<_> = message
        .r#match
        .iter()
        .map(|field| match &field.field_match_type {
            Some(FieldMatchType::Exact(exact)) => (field.field_id, exact.value.clone()),
            other => panic!("{other:?}"),
        })
        .collect();
    assert_eq!(values, [(1, vec![7]), (2, vec![1, 3])]);
    let Some(message::table_action::Type::Action(action)) = message.action.unwrap().r#type else { panic!() };
    assert_eq!(action.action_id, 0x0100_0001);
    assert_eq!(action.params.iter().map(|param| param.param_id).collect::<Vec<_>>(), [1, 2]);
    assert_eq!(action.params[0].value, [2, 0]);
}

#[test]
fn what_does_not_fit_is_refused_by_name() {
    assert_eq!(refusal(&TableEntry::new("admision")), "the P4Info has no table called admision");
    assert_eq!(refusal(&admission().exact("jb", 1u8)), "admission has no field jb");
    let incomplete = TableEntry::new("admission").exact("job", 1u8).action(admit());
    assert_eq!(refusal(&incomplete), "admission needs a value for ingress_port");
    assert_eq!(
        refusal(&admission().exact("ingress_port", 512u16)),
        "admission.ingress_port: a value of 10 bits does not fit into bit<9>"
    );
    assert_eq!(
        refusal(&admission().matching("job", Match::Lpm { value: 0, prefix: 4 })),
        "admission.job matches Exact, not a prefix"
    );
    assert_eq!(
        refusal(&admission().action(ActionCall::new("addmit"))),
        "the P4Info has no action called addmit"
    );
    assert_eq!(refusal(&admission().action(ActionCall::new("admit"))), "admit needs a value for slot_base");
    assert_eq!(
        refusal(&admission().action(admit().with("kinds", 4u8))),
        "admit.kinds: a value of 3 bits does not fit into bit<2>"
    );
    assert_eq!(refusal(&admission().action(admit().with("slots", 4u8))), "admit has no field slots");
}

#[test]
fn actions_stay_where_they_belong() {
    let entry = admission().action(ActionCall::new("drop"));
    assert_eq!(
        refusal(&entry),
        "admission can't have the action drop in an entry: it is for the default only"
    );
    let default = TableEntry::default_of("admission").action(admit());
    assert_eq!(refusal(&default), "admission can't have the action admit as its default");
    let stranger = TableEntry::new("route").action(admit());
    assert_eq!(refusal(&stranger), "route can't have the action admit at all");
    assert!(TableEntry::default_of("admission").action(ActionCall::new("drop")).to_proto(&router()).is_ok());
}

#[test]
fn patterns_that_match_anything_are_to_be_left_out() {
    let acl = |pattern, field| TableEntry { priority: 1, ..TableEntry::new("acl") }.matching(field, pattern);
    assert!(refusal(&acl(Match::Ternary { value: 0, mask: 0 }, "dst")).contains("leave the field out"));
    assert!(refusal(&acl(Match::Range { low: 0, high: 0xffff }, "port")).contains("leave the field out"));
    assert!(refusal(&acl(Match::Range { low: 5, high: 4 }, "port")).contains("ends before it starts"));
    assert!(refusal(&acl(Match::Ternary { value: 3, mask: 2 }, "dst")).contains("outside of its mask"));
    let route = |prefix, value| TableEntry::new("route").matching("dst", Match::Lpm { value, prefix });
    assert!(refusal(&route(0, 0)).contains("leave the field out"));
    assert!(refusal(&route(129, 0)).contains("longer than the field"));
    assert!(refusal(&route(127, 1)).contains("below its prefix"));
    assert!(route(128, 1).to_proto(&router()).is_ok());
    assert!(acl(Match::Optional(4), "vlan").to_proto(&router()).unwrap().r#match.len() == 1);
}

#[test]
fn priorities_go_with_tables_whose_entries_overlap() {
    assert!(refusal(&TableEntry::new("acl")).contains("priority 0"));
    assert!(refusal(&TableEntry { priority: 3, ..admission() }).contains("priority 3"));
    assert!(TableEntry::default_of("acl").to_proto(&router()).is_ok());
}

#[test]
fn a_received_entry_is_checked_like_a_sent_one() {
    let info = router();
    let good = admission().to_proto(&info).unwrap();
    let received = |change: fn(&mut message::TableEntry)| {
        let mut message = good.clone();
        change(&mut message);
        TableEntry::from_proto(&info, &message)
    };
    assert_eq!(received(|_| ()), Ok(admission()));
    let unknown = received(|entry| entry.table_id = 9);
    assert_eq!(unknown, Err(EntryError::UnknownId { kind: "table", id: 9 }));
    let twice = received(|entry| entry.r#match.push(entry.r#match[0].clone()));
    assert_eq!(twice.unwrap_err().to_string(), "admission has job twice");
    assert!(received(|entry| entry.r#match.truncate(1)).is_err());
    assert!(received(|entry| entry.r#match[0].field_match_type = None).is_err());
    let empty = received(|entry| {
        entry.r#match[0].field_match_type =
            Some(FieldMatchType::Exact(message::field_match::Exact::default()));
    });
    let (place, field) = ("admission".to_owned(), "job".to_owned());
    assert_eq!(empty, Err(EntryError::Value { place, field, reason: ByteStringError::Empty }));
    let profile = received(|entry| {
        entry.action = Some(message::TableAction {
            r#type: Some(message::table_action::Type::ActionProfileMemberId(1)),
        });
    });
    assert_eq!(profile.unwrap_err().to_string(), "admission: an action profile is not supported here");
}

#[test]
fn counters_stay_within_their_size() {
    let info = router();
    let cell = CounterCell { packets: 3, bytes: 90, ..CounterCell::zero("job_received", 255) };
    assert_eq!(CounterCell::from_proto(&info, &cell.to_proto(&info).unwrap()), Ok(cell));
    let beyond = CounterCell::zero("job_received", 256).to_proto(&info).unwrap_err();
    assert_eq!(beyond.to_string(), "job_received: 256 is not within 0..=255");
    let mut message = CounterCell::zero("job_received", 0).to_proto(&info).unwrap();
    message.index = Some(message::Index { index: -1 });
    assert!(CounterCell::from_proto(&info, &message).is_err());
    message.index = None;
    assert!(CounterCell::from_proto(&info, &message).is_err());
    assert!(Query::CounterCell("job_received".to_owned(), 256).to_proto(&info).is_err());
}

#[test]
fn groups_have_ids_that_a_controller_may_use_and_no_copy_twice() {
    assert!(MulticastGroup::to_ports(0, [1]).to_proto().is_err());
    assert!(MulticastGroup::to_ports(LAST_GROUP + 1, [1]).to_proto().is_err());
    let group = MulticastGroup::to_ports(LAST_GROUP, [0, 4, 510]);
    let mut message = group.to_proto().unwrap();
    assert_eq!(MulticastGroup::from_proto(&message), Ok(group));
    message.replicas.push(message.replicas[1].clone());
    let twice = MulticastGroup::from_proto(&message).unwrap_err();
    assert_eq!(twice.to_string(), "multicast group 32767 has port 4, instance 0 twice");
}

#[test]
fn ports_of_replicas_come_as_numbers_or_as_bytes() {
    use message::replica::PortKind;
    let replica = |kind| message::Replica { port_kind: kind, instance: 1, backup_replicas: Vec::new() };
    let group = |kind| message::MulticastGroupEntry {
        multicast_group_id: 1,
        replicas: vec![replica(kind)],
        ..Default::default()
    };
    let bytes = MulticastGroup::from_proto(&group(Some(PortKind::Port(vec![0, 1, 254]))));
    assert_eq!(bytes, MulticastGroup::from_proto(&group(Some(PortKind::EgressPort(510)))));
    assert!(bytes.is_ok());
    assert!(MulticastGroup::from_proto(&group(Some(PortKind::Port(vec![1; 5])))).is_err());
    assert!(MulticastGroup::from_proto(&group(None)).is_err());
}

#[test]
fn packets_carry_their_header_fields_by_name() {
    let info = router();
    let packet = ControllerPacket::new([1, 2, 3]).with("egress_port", 510u16);
    let out = packet.to_packet_out(&info).unwrap();
    assert_eq!(out.metadata[0].value, [1, 254]);
    assert_eq!(out.metadata[1].value, [0], "padding is filled in");
    let back = message::PacketIn { payload: out.payload, metadata: out.metadata };
    let back = ControllerPacket::from_packet_in(&info, back).unwrap();
    assert_eq!(back, ControllerPacket::new([1, 2, 3]).with("ingress_port", 510u16).with("pad", 0u8));
    assert!(ControllerPacket::new([]).with("egress_prot", 1u8).to_packet_out(&info).is_err());
    assert!(ControllerPacket::new([]).to_packet_out(&info).is_err());
}

#[test]
fn kinds_without_a_named_form_are_refused_by_what_they_are() {
    let register = message::Entity {
        entity: Some(message::entity::Entity::RegisterEntry(message::RegisterEntry::default())),
    };
    let error = Entity::from_proto(&router(), &register).unwrap_err();
    assert_eq!(error.to_string(), "an entity: a register is not supported here");
    assert!(Entity::from_proto(&router(), &message::Entity::default()).is_err());
}

/// Makes a pattern that fits the field from two random numbers.
fn pattern(field: &MatchField, a: u128, b: u128) -> Option<Match> {
    let ones = all_ones(field.width);
    let (a, b) = (a & ones, b & ones);
    match field.kind {
        MatchType::Exact => Some(Match::Exact(a)),
        MatchType::Optional => (b & 1 == 1).then_some(Match::Optional(a)),
        MatchType::Ternary => (b != 0).then_some(Match::Ternary { value: a & b, mask: b }),
        MatchType::Range => {
            let (low, high) = (a.min(b), a.max(b));
            ((low, high) != (0, ones)).then_some(Match::Range { low, high })
        }
        MatchType::Lpm => {
            let prefix = u32::try_from(b % u128::from(field.width + 1)).unwrap();
            (prefix > 0).then(|| Match::Lpm { value: a & !all_ones(field.width - prefix), prefix })
        }
        MatchType::Unspecified => None,
    }
}

proptest! {
    #[test]
    fn every_entry_that_fits_is_read_back(
        table in 0usize..3,
        numbers in prop::collection::vec(any::<(u128, u128)>(), 3),
        values: [u128; 2],
        action in any::<prop::sample::Index>(),
        priority in 1i32..,
    ) {
        let info = router();
        let table = info.tables().nth(table).unwrap();
        let mut entry = TableEntry::new(&table.name.alias);
        for (field, (a, b)) in table.key.iter().zip(numbers) {
            entry = pattern(field, a, b).into_iter().fold(entry, |entry, one| entry.matching(&field.name, one));
        }
        entry.priority = if table.needs_priority() { priority } else { 0 };
        let allowed: Vec<_> = table.actions.iter().filter(|one| one.scope != Scope::DefaultOnly).collect();
        let action = info.action_by_id(action.get(&allowed).id).unwrap();
        let call = action.parameters.iter().zip(values).fold(
            ActionCall::new(&action.name.alias),
            |call, (parameter, value)| call.with(&parameter.name, value & all_ones(parameter.width)),
        );
        let entity = Entity::from(entry.action(call));
        let message = entity.to_proto(&info).unwrap();
        prop_assert_eq!(Entity::from_proto(&info, &message).unwrap(), entity);
    }

    #[test]
    fn any_entry_is_taken_or_refused(
        table_id in prop_oneof![0x0200_0000u32..0x0200_0005, any::<u32>()],
        fields in prop::collection::vec((0u32..5, 0u8..6, any::<Vec<u8>>(), any::<Vec<u8>>(), any::<i32>()), 0..5),
        priority: i32,
        is_default_action: bool,
    ) {
        use message::field_match::{Exact, Lpm, Optional, Range, Ternary};
        let r#match = fields.into_iter().map(|(field_id, kind, value, other, number)| message::FieldMatch {
            field_id,
            field_match_type: match kind {
                0 => Some(FieldMatchType::Exact(Exact { value })),
                1 => Some(FieldMatchType::Lpm(Lpm { value, prefix_len: number })),
                2 => Some(FieldMatchType::Ternary(Ternary { value, mask: other })),
                3 => Some(FieldMatchType::Range(Range { low: value, high: other })),
                4 => Some(FieldMatchType::Optional(Optional { value })),
                _ => None,
            },
        }).collect();
        let message = message::TableEntry { table_id, r#match, priority, is_default_action, ..Default::default() };
        let info = router();
        if let Ok(entry) = TableEntry::from_proto(&info, &message) {
            let again = TableEntry::from_proto(&info, &entry.to_proto(&info).unwrap());
            prop_assert_eq!(again, Ok(entry));
        }
    }
}
