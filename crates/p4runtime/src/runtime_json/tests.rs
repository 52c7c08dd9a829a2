use super::*;
use crate::p4::v1::field_match::{Exact, FieldMatchType, Lpm, Range, Ternary};
use crate::p4::v1::{TableEntry, table_action};

const INFO: &str = r#"
    tables {
      preamble { id: 0x02000001 name: "MyIngress.route" alias: "route" }
      match_fields { id: 1 name: "hdr.ipv4.dst" bitwidth: 32 match_type: LPM }
      action_refs { id: 0x01000001 }
      action_refs { id: 0x01000002 }
    }
    tables {
      preamble { id: 0x02000002 name: "MyIngress.acl" alias: "acl" }
      match_fields { id: 1 name: "hdr.ipv6.src" bitwidth: 128 match_type: TERNARY }
      match_fields { id: 2 name: "port" bitwidth: 16 match_type: RANGE }
      action_refs { id: 0x01000001 }
    }
    tables {
      preamble { id: 0x02000003 name: "MyIngress.exact" alias: "exact" }
      match_fields { id: 1 name: "mac" bitwidth: 48 match_type: EXACT }
      match_fields { id: 2 name: "wide" bitwidth: 200 match_type: EXACT }
      match_fields { id: 3 name: "small" bitwidth: 9 match_type: EXACT }
      action_refs { id: 0x01000001 }
    }
    actions { preamble { id: 0x01000001 name: "MyIngress.drop" alias: "drop" } }
    actions {
      preamble { id: 0x01000002 name: "MyIngress.forward" alias: "forward" }
      params { id: 1 name: "dst" bitwidth: 48 }
      params { id: 2 name: "port" bitwidth: 9 }
    }
    actions { preamble { id: 0x01000003 name: "MyIngress.other" alias: "other" } }"#;

fn entries(list: &str, text: &str) -> Result<Vec<Entry>, RuntimeJsonError> {
    let file = RuntimeJson::parse(&format!("{{ \"{list}\": [{text}] }}"))?;
    file.updates(&P4Info::parse(INFO).unwrap())
}

fn of_table(text: &str) -> Result<(i32, TableEntry), String> {
    let entries = entries("table_entries", text).map_err(|error| error.to_string())?;
    let [Entry { update, .. }] = &entries[..] else { panic!("{entries:?}") };
    match update.entity.clone().and_then(|entity| entity.entity) {
        Some(entity::Entity::TableEntry(entry)) => Ok((update.r#type, entry)),
        other => panic!("{other:?}"),
    }
}

fn exact(key: &str) -> Result<TableEntry, String> {
    let text = format!(r#"{{ "table": "exact", "match": {key}, "action_name": "drop" }}"#);
    of_table(&text).map(|(_, entry)| entry)
}

fn matches(entry: &TableEntry) -> Vec<FieldMatchType> {
    entry.r#match.iter().map(|one| one.field_match_type.clone().unwrap()).collect()
}

#[test]
fn an_entry_of_the_tutorials_is_an_insertion() {
    let (kind, entry) = of_table(
        r#"{ "table": "MyIngress.route", "match": { "hdr.ipv4.dst": ["10.0.1.1", 32] },
             "action_name": "MyIngress.forward", "action_params": { "dst": "08:00:00:00:01:11", "port": 1 } }"#,
    )
    .unwrap();
    assert_eq!((kind, entry.table_id, entry.priority), (update::Type::Insert.into(), 0x0200_0001, 0));
    assert_eq!(matches(&entry), [FieldMatchType::Lpm(Lpm { value: vec![10, 0, 1, 1], prefix_len: 32 })]);
    let Some(table_action::Type::Action(call)) = entry.action.unwrap().r#type else { panic!("no action") };
    let params: Vec<_> = call.params.into_iter().map(|param| (param.param_id, param.value)).collect();
    assert_eq!((call.action_id, params), (0x0100_0002, vec![(1, vec![8, 0, 0, 0, 1, 0x11]), (2, vec![1])]));
}

#[test]
fn a_default_action_is_a_modification() {
    let text = r#"{ "table": "MyIngress.route", "default_action": true, "action_name": "MyIngress.drop", "action_params": {} }"#;
    let (kind, entry) = of_table(text).unwrap();
    assert!(kind == i32::from(update::Type::Modify) && entry.is_default_action && entry.r#match.is_empty());
}

#[test]
fn masks_and_ranges_are_pairs_and_what_matches_anything_is_left_out() {
    let acl = |key: &str| {
        let text = format!(r#"{{ "table": "acl", "match": {key}, "priority": 7, "action_name": "drop" }}"#);
        let (_, entry) = of_table(&text).unwrap();
        assert_eq!(entry.priority, 7);
        matches(&entry)
    };
    let both = acl(
        r#"{ "hdr.ipv6.src": ["2001:db8::", "0xffffffff000000000000000000000000"], "port": [22, "0x50"] }"#,
    );
    let (mut value, mut mask) = (vec![0; 16], vec![0; 16]);
    value[..4].copy_from_slice(&[0x20, 1, 0x0d, 0xb8]);
    mask[..4].fill(0xff);
    assert_eq!(
        both,
        [
            FieldMatchType::Ternary(Ternary { value, mask }),
            FieldMatchType::Range(Range { low: vec![22], high: vec![80] })
        ]
    );
    assert_eq!(acl(r#"{ "hdr.ipv6.src": [0, 0], "port": [0, 65535] }"#), []);
    let any = r#"{ "table": "route", "match": { "hdr.ipv4.dst": [0, 0] }, "action_name": "drop" }"#;
    assert_eq!(matches(&of_table(any).unwrap().1), []);
}

#[test]
fn values_are_numbers_addresses_and_text_of_any_width() {
    let values = |key: &str| {
        let values = matches(&exact(key).unwrap()).into_iter();
        values
            .map(|one| match one {
                FieldMatchType::Exact(Exact { value }) => value,
                other => panic!("{other:?}"),
            })
            .collect::<Vec<_>>()
    };
    let wide = format!("0x{}", "ab".repeat(25));
    let all = values(&format!(r#"{{ "mac": "aa:bb:cc:00:01:02", "wide": "{wide}", "small": [511] }}"#));
    assert_eq!(all, [vec![0xaa, 0xbb, 0xcc, 0, 1, 2], vec![0xab; 25], vec![1, 255]]);
    // The values are in two's complement, for fields of type int<W>.
    let all = values(r#"{ "mac": "0x0", "wide": -1, "small": -2 }"#);
    assert_eq!(all, [vec![0], vec![255; 25], vec![1, 254]]);
    let all = values(r#"{ "mac": "12", "wide": -9223372036854775808, "small": -256 }"#);
    assert_eq!((&all[0], &all[2]), (&vec![12], &vec![1, 0]));
    let mut lowest = vec![255; 17];
    lowest.extend([0x80, 0, 0, 0, 0, 0, 0, 0]);
    assert_eq!(all[1], lowest);
}

#[test]
fn a_value_that_does_not_fit_is_named_with_its_field() {
    let wrong = |small: &str| exact(&format!(r#"{{ "mac": 1, "wide": 1, "small": {small} }}"#)).unwrap_err();
    for (value, said) in [
        ("512", "10 bits"),
        ("-257", "-257 needs 10 bits"),
        ("1.5", "whole number"),
        ("18446744073709551616", "as text"),
        ("\"10.0.0.1\"", "an IPv4 address, which has 32 bits"),
        ("\"aa:bb:cc:00:01:02\"", "a MAC address, which has 48 bits"),
        ("\"::1\"", "an IPv6 address, which has 128 bits"),
        ("\"0x\"", "no hexadecimal number"),
        ("\"0xzz\"", "no hexadecimal number"),
        ("\"\"", "is no value"),
        ("true", "is no value"),
        ("[1, 2]", "is no value"),
        ("{}", "is no value"),
    ] {
        let error = wrong(value);
        let place = "table_entries, entry 1 (exact): match field small (exact, bit<9>): ";
        assert!(error.starts_with(place) && error.contains(said), "{value}: {error}");
    }
}

#[test]
fn what_a_program_does_not_have_is_named_with_what_it_has() {
    let said = |text: &str| of_table(text).unwrap_err();
    let table = said(r#"{ "table": "rout", "action_name": "drop" }"#);
    assert_eq!(
        table,
        "table_entries, entry 1 (rout): the program has no such table: its tables are MyIngress.route, MyIngress.acl, MyIngress.exact"
    );
    let field = said(r#"{ "table": "route", "match": { "dst": ["10.0.0.0", 8] }, "action_name": "drop" }"#);
    assert!(
        field.ends_with("match field dst: the table has no such field, but hdr.ipv4.dst (lpm, bit<32>)"),
        "{field}"
    );
    let action = said(r#"{ "table": "route", "action_name": "other" }"#);
    assert!(action.ends_with("no such action, but MyIngress.drop, MyIngress.forward"), "{action}");
    let call = |params: &str| {
        said(&format!(r#"{{ "table": "route", "action_name": "forward", "action_params": {params} }}"#))
    };
    assert!(call(r#"{ "dst": 1, "prt": 1 }"#).contains("it has no parameter prt, but dst, port"));
    assert!(call(r#"{ "dst": 1 }"#).contains("parameter port (bit<9>): it is missing"));
    assert!(
        exact(r#"{ "mac": 1, "wide": 1 }"#).unwrap_err().contains("small (exact, bit<9>): it is missing")
    );
    let lpm = |value: &str| {
        said(&format!(
            r#"{{ "table": "route", "match": {{ "hdr.ipv4.dst": {value} }}, "action_name": "drop" }}"#
        ))
    };
    assert!(lpm("\"10.0.0.0\"").contains("[value, prefix length]"));
    assert!(lpm("[\"10.0.0.0\", 33]").contains("33 is no prefix length: 0 to 32 are"));
    assert!(lpm("[\"10.0.0.0\", -1]").contains("-1 is no prefix length"));
    let overlap = said(r#"{ "table": "acl", "match": { "port": [1, 2] }, "action_name": "drop" }"#);
    assert!(overlap.contains("\"priority\" is needed"), "{overlap}");
    let default =
        r#"{ "table": "exact", "default_action": true, "match": { "mac": 1 }, "action_name": "drop" }"#;
    assert!(said(default).contains("no match fields"));
}

#[test]
fn keys_that_are_unknown_or_missing_are_named() {
    let said = |text: &str| of_table(text).unwrap_err();
    let unknown = said(r#"{ "tabel": "route", "action_name": "drop" }"#);
    assert!(
        unknown.starts_with("table_entries, entry 1: unknown field `tabel`, expected one of `table`"),
        "{unknown}"
    );
    assert!(said(r#"{ "table": "route" }"#).contains("missing field `action_name`"));
    let form = RuntimeJson::parse("{\n \"table_entry\": [] }").unwrap_err().to_string();
    assert!(form.contains("`table_entry`") && form.contains("line 2"), "{form}");
    assert!(matches!(RuntimeJson::parse("tables {}"), Err(RuntimeJsonError::Form(_))));
    assert_eq!(
        RuntimeJson::parse(r#"{ "target": "tofino" }"#),
        Err(RuntimeJsonError::Target("tofino".into()))
    );
    let group =
        entries("multicast_group_entries", r#"{ "multicast_group_id": 1, "replicas": [{ "port": 1 }] }"#);
    assert!(group.unwrap_err().to_string().contains("unknown field `port`"));
}

#[test]
fn groups_and_sessions_are_inserted_with_their_replicas() {
    use crate::p4::v1::packet_replication_engine_entry::Type as Replication;
    use crate::p4::v1::{Replica, replica::PortKind};
    let replication = |list, text| {
        let entries = entries(list, text).unwrap();
        match entries[0].update.entity.clone().and_then(|entity| entity.entity) {
            Some(entity::Entity::PacketReplicationEngineEntry(entry)) => entry.r#type.unwrap(),
            other => panic!("{other:?}"),
        }
    };
    let replica = |instance, port| Replica {
        instance,
        port_kind: Some(PortKind::EgressPort(port)),
        backup_replicas: Vec::new(),
    };
    let group = replication(
        "multicast_group_entries",
        r#"{ "multicast_group_id": 3, "replicas": [{ "egress_port": 1, "instance": 5 }, { "egress_port": 2 }] }"#,
    );
    let Replication::MulticastGroupEntry(group) = group else { panic!("{group:?}") };
    assert_eq!((group.multicast_group_id, group.replicas), (3, vec![replica(5, 1), replica(0, 2)]));
    let session = replication(
        "clone_session_entries",
        r#"{ "clone_session_id": 5, "replicas": [{ "egress_port": 3, "instance": 1 }], "packet_length_bytes": 128 }"#,
    );
    let Replication::CloneSessionEntry(session) = session else { panic!("{session:?}") };
    assert_eq!((session.session_id, session.packet_length_bytes), (5, 128));
    assert_eq!(session.replicas, [replica(1, 3)]);
}
