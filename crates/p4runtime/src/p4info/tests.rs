use super::*;

/// A program with a table for every kind of match.
pub(crate) const ROUTER: &str = r#"
# proto-message: p4.config.v1.P4Info
pkg_info { arch: "v1model" }
tables {
  preamble { id: 0x02000001 name: "Ingress.admission" alias: "admission" }
  match_fields { id: 1 name: "job" bitwidth: 16 match_type: EXACT }
  match_fields { id: 2 name: "ingress_port" bitwidth: 9 match_type: EXACT }
  action_refs { id: 0x01000001 scope: TABLE_ONLY }
  action_refs { id: 0x01000002 annotations: "@defaultonly" scope: DEFAULT_ONLY }
  size: 4
}
tables {
  preamble { id: 0x02000002 name: "Ingress.acl" alias: "acl" }
  match_fields { id: 1 name: "dst" bitwidth: 32 match_type: TERNARY }
  match_fields { id: 2 name: "port" bitwidth: 16 match_type: RANGE }
  match_fields { id: 3 name: "vlan" bitwidth: 12 match_type: OPTIONAL }
  action_refs { id: 0x01000002 }
  const_default_action_id: 0x01000002
}
tables {
  preamble { id: 0x02000003 name: "Ingress.route" alias: "route" }
  match_fields { id: 1 name: "dst" bitwidth: 128 match_type: LPM }
  action_refs { id: 0x01000002 }
  size: 1024
}
actions {
  preamble { id: 0x01000001 name: "Ingress.admit" alias: "admit" }
  params { id: 1 name: "slot_base" bitwidth: 32 }
  params { id: 2 name: "kinds" bitwidth: 2 }
}
actions { preamble { id: 0x01000002 name: "Ingress.drop" alias: "drop" } }
counters {
  preamble { id: 0x12000001 name: "Ingress.job_received" alias: "job_received" }
  spec { unit: BOTH }
  size: 256
}
controller_packet_metadata {
  preamble { id: 0x04000001 name: "packet_in" alias: "packet_in" }
  metadata { id: 1 name: "ingress_port" bitwidth: 9 }
  metadata { id: 2 name: "pad" bitwidth: 7 }
}
controller_packet_metadata {
  preamble { id: 0x04000002 name: "packet_out" alias: "packet_out" }
  metadata { id: 1 name: "egress_port" bitwidth: 9 }
  metadata { id: 2 name: "pad" bitwidth: 7 }
}
registers {
  preamble { id: 0x16000001 name: "slots" alias: "slots" }
  type_spec { bitstring { bit { bitwidth: 2048 } } }
  size: 4096
}
type_info { }
"#;

/// Parses the text with one part of it replaced.
fn with(part: &str, replacement: &str) -> Result<P4Info, P4InfoError> {
    assert!(ROUTER.contains(part), "{part} is not in the text");
    P4Info::parse(&ROUTER.replacen(part, replacement, 1))
}

#[test]
fn objects_are_found_by_id_name_and_alias() {
    let info = P4Info::parse(ROUTER).unwrap();
    let table = info.table("admission").unwrap();
    assert_eq!(info.table("Ingress.admission"), Some(table));
    assert_eq!(info.table_by_id(0x0200_0001), Some(table));
    assert_eq!(table.key.iter().map(|field| field.width).collect::<Vec<_>>(), [16, 9]);
    assert_eq!((table.size, info.table("acl").unwrap().size), (Some(4), None));
    assert!(!table.needs_priority() && info.table("acl").unwrap().needs_priority());
    assert!(info.table("acl").unwrap().const_default);
    assert_eq!(info.action("admit").unwrap().parameters[1].width, 2);
    assert_eq!(info.counter("job_received").unwrap().size, 256);
    assert_eq!(info.register("slots").unwrap().size, 4096);
    assert_eq!(info.packet_in().unwrap().fields[0].name, "ingress_port");
    assert!(info.table("drop").is_none() && info.action("admission").is_none());
}

#[test]
fn a_p4info_survives_the_way_through_its_message() {
    let info = P4Info::parse(ROUTER).unwrap();
    let again = P4Info::new(info.message().clone()).unwrap();
    assert_eq!(again.message(), info.message());
    assert_eq!(again.table("route"), info.table("route"));
}

#[test]
fn text_that_is_no_p4info_is_refused_with_the_reason() {
    let error = P4Info::parse("tables { preambel { id: 1 } }").unwrap_err();
    assert!(error.to_string().contains("preambel"), "{error}");
    assert!(matches!(P4Info::parse("{\"json\": 1}"), Err(P4InfoError::Syntax(_))));
}

#[test]
fn contradictions_are_refused_by_name() {
    let missing = with("preamble { id: 0x01000002 name: \"Ingress.drop\" alias: \"drop\" }", "");
    assert_eq!(missing.unwrap_err(), P4InfoError::NoPreamble { kind: "action" });
    let twice = with("id: 0x02000002 name", "id: 0x02000001 name").unwrap_err();
    assert_eq!(twice.to_string(), "the table Ingress.acl of the P4Info has the id 0x02000001 of another one");
    let same = with("alias: \"acl\"", "alias: \"admission\"").unwrap_err();
    assert_eq!(same, P4InfoError::DuplicateName { kind: "table", name: "admission".to_owned() });
    let dangling =
        with("const_default_action_id: 0x01000002", "const_default_action_id: 0x01000009").unwrap_err();
    assert!(dangling.to_string().contains("table acl") && dangling.to_string().contains("0x01000009"));
    let flat = with("bitwidth: 12", "bitwidth: 0").unwrap_err();
    assert_eq!(flat.to_string(), "acl.vlan of the P4Info has a width of 0 bits");
    let unknown = with("match_type: LPM", "other_match_type: \"fuzzy\"").unwrap_err();
    assert!(unknown.to_string().starts_with("route.dst"), "{unknown}");
}

#[test]
fn the_compiled_program_is_understood() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../p4/build/256/tributary.p4info.txtpb");
    let info = P4Info::parse(&std::fs::read_to_string(path).unwrap()).unwrap();
    for table in ["identity", "admission", "egress_guard", "result_group", "mac_forward"] {
        assert!(info.table(table).is_some(), "no table {table}");
    }
    assert!(info.counters().count() > 0 && info.registers().count() > 0);
}
