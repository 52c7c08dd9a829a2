//! Programs that the switch refuses. The reason must name the construct and its place.

use serde_json::{Value, json};
use tributary_softswitch::{LoadError, Pipeline};

use crate::support::p4_build;

fn document() -> Value {
    serde_json::from_str(&p4_build("tributary.json")).unwrap()
}

fn load(document: &Value) -> Result<Pipeline, LoadError> {
    Pipeline::load_text(&document.to_string(), &p4_build("tributary.p4info.txtpb"))
}

/// Replaces a value in the project's program, and returns the reason why the program is refused.
fn why(place: &str, value: Value) -> String {
    let mut document = document();
    *document.pointer_mut(place).unwrap_or_else(|| panic!("no {place}")) = value;
    load(&document).expect_err(place).to_string()
}

/// Returns the index of an object by its name.
fn index(list: &str, name: &str) -> usize {
    let document = document();
    let list = document.pointer(list).unwrap().as_array().unwrap();
    list.iter().position(|item| item["name"] == name).unwrap()
}

#[track_caller]
fn says(text: &str, parts: &[&str]) {
    for part in parts {
        assert!(text.contains(part), "{part:?} is not in: {text}");
    }
}

#[test]
fn primitives_that_are_not_known_are_named_with_their_action() {
    let action = index("/actions", "SwitchIngress.gradients.pass_probe");
    for primitive in ["register_sync", "push_to_cpu"] {
        let text = why(&format!("/actions/{action}/primitives/0/op"), json!(primitive));
        says(&text, &["action SwitchIngress.gradients.pass_probe", primitive, "not supported"]);
    }
}

#[test]
fn externs_of_other_architectures_are_refused() {
    let text = why("/extern_instances", json!([{ "name": "some.thing" }]));
    says(&text, &["extern instance", "some.thing", "not supported"]);
}

#[test]
fn operations_that_are_not_known_are_named() {
    let action = index("/actions", "SwitchIngress.admission.admit");
    let place = format!("/actions/{action}/primitives/1/parameters/1/value/value/op");
    says(&why(&place, json!("/")), &["action SwitchIngress.admission.admit", "'/'"]);
    let place = format!("/actions/{action}/primitives/1/parameters/1");
    let shifted = json!({ "type": "expression", "value": { "op": "<<",
        "left": { "type": "field", "value": ["values_128", "lanes_128"] },
        "right": { "type": "field", "value": ["values_128", "lanes_192"] } } });
    says(&why(&place, shifted), &["action SwitchIngress.admission.admit", "wider than 64 bits"]);
}

#[test]
fn fields_that_the_switch_has_not_got_are_named() {
    let fields = index("/header_types", "udp_t");
    let place = format!("/header_types/{fields}/fields/0");
    says(&why(&place, json!(["src_port", "*"])), &["header type udp_t", "src_port", "no greatest length"]);
    says(&why(&place, json!(["src_port", 15])), &["header type udp_t", "inside a byte"]);
    let place = format!("/header_types/{fields}/fields/2");
    says(&why(&place, json!(["size", 16])), &["header udp has no field length"]);
}

#[test]
fn loops_are_refused() {
    let action = index("/actions", "SwitchIngress.gradients.slot.aggregate");
    let place = format!("/actions/{action}/primitives/9/parameters/0/value");
    says(&why(&place, json!("0x7fffffff")), &["SwitchIngress.gradients.slot.aggregate", "beyond"]);
    let condition = index("/pipelines/0/conditionals", "node_7");
    let place = format!("/pipelines/0/conditionals/{condition}/true_next");
    says(&why(&place, json!("node_2")), &["pipeline ingress", "comes after itself"]);
    says(&why(&place, json!("node_999")), &["pipeline ingress", "no node node_999"]);
}

#[test]
fn a_parser_that_goes_round_for_ever_is_stopped() {
    let state = index("/parsers/0/parse_states", "parse_fabric_0");
    let mut document = document();
    let next =
        document.pointer_mut(&format!("/parsers/0/parse_states/{state}/transitions/0/next_state")).unwrap();
    *next = json!("parse_fabric_0");
    let mut switch = tributary_softswitch::Switch::new(std::sync::Arc::new(load(&document).unwrap()));
    let mut outputs = tributary_softswitch::Outputs::new();
    switch.process(1, &[0; 64], &mut outputs);
    assert!(outputs.is_empty());
}

#[test]
fn other_formats_and_texts_are_refused() {
    says(&why("/__meta__/version", json!([3, 0])), &["__meta__", "version 3.0"]);
    for text in ["", "{}", "[]", "null", "{\"__meta__\": {}}"] {
        let error = Pipeline::load_text(text, &p4_build("tributary.p4info.txtpb")).unwrap_err();
        assert!(matches!(error, LoadError::Json(_)), "{error}");
    }
    let error = Pipeline::load_text(&p4_build("tributary.json"), "tables { preamble { id: }").unwrap_err();
    assert!(matches!(error, LoadError::P4Info(_)), "{error}");
}

#[test]
fn a_json_of_another_program_says_what_differs() {
    let table = index("/pipelines/0/tables", "SwitchIngress.admission.admission");
    let place = |rest: &str| format!("/pipelines/0/tables/{table}/{rest}");
    let name = "table SwitchIngress.admission.admission";
    let why = |at: &str, value| {
        let text = why(at, value);
        says(&text, &["the BMv2 JSON and the P4Info differ"]);
        text
    };
    says(&why(&place("key/0/name"), json!("task")), &["name", name, "task", "job"]);
    says(&why(&place("key/0/target/1"), json!("seq")), &["width", name, "32", "16"]);
    says(&why(&place("key/0/match_type"), json!("lpm")), &["kind", name, "Lpm", "Exact"]);
    says(&why(&place("with_counters"), json!(true)), &["direct counter", name]);
    says(&why("/counter_arrays/0/size", json!(255)), &["size of counter job_received", "255", "256"]);
    says(&why("/register_arrays/0/size", json!(8)), &["size of register slot_job", "8", "4096"]);
}

#[test]
fn a_register_of_no_width_is_refused_before_its_actions_are_compiled() {
    for (bits, told) in [(0, "0 bits"), (4096, "4096 bits"), (1_u64 << 32, "4294967296 bits")] {
        let text = why("/register_arrays/0/bitwidth", json!(bits));
        says(&text, &["register slot_job", told]);
    }
}

#[test]
fn objects_that_only_one_file_has_are_named() {
    let mut renamed = p4_build("tributary.json");
    renamed = renamed.replace("SwitchIngress.forwarding.mac_forward", "SwitchIngress.forwarding.mac_table");
    let error = Pipeline::load_text(&renamed, &p4_build("tributary.p4info.txtpb")).unwrap_err();
    says(&error.to_string(), &["table SwitchIngress.forwarding.mac_forward is only in the P4Info"]);
    let info = p4_build("tributary.p4info.txtpb");
    for (from, to, expected) in [
        ("name: \"job_probe\"", "name: \"job_question\"", "counter job_question is only in the P4Info"),
        ("name: \"slot_tag_low\"", "name: \"slot_sum\"", "register slot_sum is only in the P4Info"),
        ("name: \"SwitchIngress.admission.admit\"", "name: \"let_in\"", "SwitchIngress.admission.admit"),
        ("name: \"slot_base\"", "name: \"slot_top\"", "slot_top"),
    ] {
        assert!(info.contains(from), "{from}");
        let error = Pipeline::load_text(&p4_build("tributary.json"), &info.replace(from, to)).unwrap_err();
        says(&error.to_string(), &[expected]);
    }
}
