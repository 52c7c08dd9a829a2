//! Checks that packets reach all of a program, so that the comparison covers the whole program.
//!
//! The program is changed so that it counts the packets at each point: each state of its parser,
//! each action, each table's hits and misses, and both outcomes of each condition. BMv2 is not
//! needed for this check.

use std::net::SocketAddr;

use serde_json::{Value, json};
use tributary_p4runtime::P4Info;
use tributary_p4runtime::p4::config::v1 as config;
use tributary_p4runtime::p4::v1::{self as message, entity::Entity as Kind};
use tributary_softswitch::{SoftSwitch, SwitchConfig};

use super::controller::Controller;
use super::program::{Program, list, text};
use super::values::Values;
use super::{SEED, Subject, run, seed};
use crate::pair::DEVICE;

const COUNTER: &str = "reached";
const COUNTER_ID: u32 = 0x12ff_fffe;
const HEADER: &str = "reached$";

/// Fails unless the packets of the usual seed reach all points, except those known to be
/// unreachable.
pub(crate) async fn check(subject: Subject) {
    let program = Program::read(subject.name);
    let values = Values::of(&program);
    let (updates, packets) = (subject.updates(&program, &values), subject.packets(&program, &values));
    let (counting, points) = instrumented(program);
    let listen = SocketAddr::from(([127, 0, 0, 1], 0));
    let config = SwitchConfig { device_id: DEVICE, ..SwitchConfig::new("embedded", listen, Vec::new()) };
    let switch = SoftSwitch::start(config).await.unwrap();
    let mut controller = Controller::connect("embedded", switch.p4runtime_addr(), &counting).await;
    assert_eq!(controller.write(&updates).await, []);
    switch.control().run(move |switch| run::embedded(switch, &packets)).await.unwrap();
    let pattern = message::CounterEntry { counter_id: COUNTER_ID, ..Default::default() };
    let mut counts = vec![0; points.len()];
    for cell in controller.read(Kind::CounterEntry(pattern)).await.unwrap() {
        let Kind::CounterEntry(cell) = cell else { panic!("{cell:?}") };
        counts[cell.index.unwrap().index as usize] = cell.data.unwrap().packet_count;
    }
    let never: Vec<_> = points.iter().zip(&counts).filter(|(_, count)| **count == 0).collect();
    let never: Vec<&str> = never.into_iter().map(|(point, _)| point.as_str()).collect();
    println!("{}, seed {}: {} of {} points", subject.name, seed(), points.len() - never.len(), points.len());
    if seed() == SEED {
        assert_eq!(never, subject.unreached, "{}: what no packet reaches", subject.name);
    } else {
        // Some points are reached by few packets, or depend on an entry, so other seeds may miss
        // other points.
        println!("{}: not reached with this seed: {never:?}", subject.name);
    }
}

/// Returns a program that counts the packets at each point, and the names of the points.
fn instrumented(program: Program) -> (Program, Vec<String>) {
    let Program { mut json, info, .. } = program;
    let mut points = Points { names: Vec::new(), actions: Vec::new(), next_action: 1 << 20 };
    points.actions(&mut json);
    let states = points.states(&mut json);
    for (at, pipeline) in json["pipelines"].as_array_mut().unwrap().iter_mut().enumerate() {
        points.pipeline(pipeline);
        if at == 0 {
            points.begin(pipeline, &states);
        }
    }
    json["actions"].as_array_mut().unwrap().append(&mut points.actions);
    let size = points.names.len();
    json["counter_arrays"]
        .as_array_mut()
        .unwrap()
        .push(json!({"name": COUNTER, "id": 1 << 20, "is_direct": false, "size": size, "source_info": null}));
    let mut message = info.message().clone();
    message.counters.push(config::Counter {
        preamble: Some(config::Preamble {
            id: COUNTER_ID,
            name: COUNTER.to_owned(),
            alias: COUNTER.to_owned(),
            ..Default::default()
        }),
        spec: Some(config::CounterSpec { unit: config::counter_spec::Unit::Packets.into() }),
        size: size as i64,
        ..Default::default()
    });
    (Program::new(json, P4Info::new(message).unwrap()), points.names)
}

/// The points that are already counted, and the actions that count them.
struct Points {
    names: Vec<String>,
    actions: Vec<Value>,
    next_action: usize,
}

impl Points {
    /// Returns the primitive that counts a point.
    fn count(&mut self, name: String) -> Value {
        let at = self.names.iter().position(|known| *known == name).unwrap_or_else(|| {
            self.names.push(name);
            self.names.len() - 1
        });
        json!({"op": "count", "parameters": [
            {"type": "counter_array", "value": COUNTER},
            {"type": "hexstr", "value": format!("0x{at:08x}")},
        ]})
    }

    /// Inserts a primitive that counts the action at the beginning of each action.
    fn actions(&mut self, json: &mut Value) {
        for action in json["actions"].as_array_mut().unwrap() {
            let count = self.count(format!("action {}", text(&action["name"])));
            let primitives = action["primitives"].as_array_mut().unwrap();
            for jump in primitives.iter_mut().filter(|one| text(&one["op"]).starts_with("_jump")) {
                // A jump names its target primitive by number, so the number grows by one.
                let to = jump["parameters"].as_array_mut().unwrap().last_mut().unwrap();
                let number = u64::from_str_radix(text(&to["value"]).trim_start_matches("0x"), 16).unwrap();
                to["value"] = format!("0x{:x}", number + 1).into();
            }
            primitives.insert(0, count);
        }
    }

    /// Inserts a statement that marks the state into each state of the parser.
    fn states(&mut self, json: &mut Value) -> Vec<String> {
        let mut names = Vec::new();
        for state in json["parsers"][0]["parse_states"].as_array_mut().unwrap() {
            let field = format!("s{}", names.len());
            names.push(text(&state["name"]).to_owned());
            let mark = json!({"op": "set", "parameters": [
                {"type": "field", "value": [HEADER, field]}, {"type": "hexstr", "value": "0x01"},
            ]});
            state["parser_ops"].as_array_mut().unwrap().insert(0, mark);
        }
        let fields: Vec<Value> = (0..names.len()).map(|at| json!([format!("s{at}"), 1, false])).collect();
        json["header_types"]
            .as_array_mut()
            .unwrap()
            .push(json!({"name": "reached_t", "id": 1 << 20, "fields": fields}));
        json["headers"].as_array_mut().unwrap().push(
            json!({"name": HEADER, "id": 1 << 20, "header_type": "reached_t", "metadata": true, "pi_omit": true}),
        );
        names
    }

    /// Adds a table without a key that counts a point and continues.
    fn node(&mut self, name: String, next: &Value, pipeline: &mut Vec<Value>) -> Value {
        let (id, action) = (self.next_action, format!("reached{}", self.next_action));
        self.next_action += 1;
        let count = self.count(name);
        self.actions.push(json!({"name": action, "id": id, "runtime_data": [], "primitives": [count]}));
        let table = format!("tbl_{action}");
        pipeline.push(json!({
            "name": table, "id": id, "key": [], "match_type": "exact", "type": "simple", "max_size": 1024,
            "with_counters": false, "support_timeout": false, "direct_meters": null, "action_ids": [id],
            "actions": [action], "base_default_next": next, "next_tables": {(action): next},
            "default_entry": {"action_id": id, "action_const": true, "action_data": [], "action_entry_const": true},
        }));
        table.into()
    }

    /// Inserts tables that count behind each outcome of tables and conditions.
    fn pipeline(&mut self, pipeline: &mut Value) {
        let mut added = Vec::new();
        for table in pipeline["tables"].as_array_mut().unwrap() {
            let name = text(&table["name"]).to_owned();
            if list(&table["key"]).is_empty() {
                continue;
            }
            let next = table["next_tables"].as_object().unwrap();
            let ways = match (next.get("__HIT__"), next.get("__MISS__")) {
                (Some(hit), Some(miss)) => Some((hit.clone(), miss.clone())),
                _ => {
                    let mut all = next.values();
                    let first = all.next().cloned().unwrap_or_default();
                    all.all(|other| *other == first).then_some((first.clone(), first))
                }
            };
            // If the action selects the next table, the counts of the actions suffice.
            let Some((hit, miss)) = ways else { continue };
            let hit = self.node(format!("{name} hit"), &hit, &mut added);
            let miss = self.node(format!("{name} missed"), &miss, &mut added);
            table["next_tables"] = json!({"__HIT__": hit, "__MISS__": miss});
        }
        for condition in pipeline["conditionals"].as_array_mut().unwrap() {
            let line = condition["source_info"]["line"].clone();
            let source = text(&condition["source_info"]["source_fragment"]).to_owned();
            for way in ["true_next", "false_next"] {
                let name = format!("line {line}: {source}: {}", way.trim_end_matches("_next"));
                let next = condition[way].clone();
                condition[way] = self.node(name, &next, &mut added);
            }
        }
        pipeline["tables"].as_array_mut().unwrap().append(&mut added);
    }

    /// Inserts tables that count the marks of the parser's states at the beginning of the pipeline.
    fn begin(&mut self, pipeline: &mut Value, states: &[String]) {
        let mut added = Vec::new();
        let mut next = pipeline["init_table"].clone();
        for (at, state) in states.iter().enumerate() {
            let counted = self.node(format!("state {state}"), &next, &mut added);
            let name = format!("node_reached{at}");
            pipeline["conditionals"].as_array_mut().unwrap().push(json!({
                "name": name, "id": (1 << 20) + at, "true_next": counted, "false_next": next,
                "expression": {"type": "expression", "value": {"op": "==",
                    "left": {"type": "field", "value": [HEADER, format!("s{at}")]},
                    "right": {"type": "hexstr", "value": "0x01"},
                }},
            }));
            next = name.into();
        }
        pipeline["init_table"] = next;
        pipeline["tables"].as_array_mut().unwrap().append(&mut added);
    }
}
