//! What the packet log says, with `programs/router.p4`.

use std::io::{self, Write};
use std::sync::{Arc, Condvar, Mutex};

use proptest::prelude::*;
use serde_json::{Value, json};
use tributary_p4runtime::P4Info;
use tributary_softswitch::control::{
    ActionCall, CloneSession, EntryKey, FieldMatch, KeyMatch, MulticastGroup, Replica, TableEntry,
};
use tributary_softswitch::{LogForm, Outputs, PacketLog, Pipeline, Switch};

const JSON: &str = include_str!("../programs/router.json");
const P4INFO: &str = include_str!("../programs/router.p4info.txtpb");

/// What was written, for a test to read.
#[derive(Clone, Default)]
struct Written(Arc<Mutex<Vec<u8>>>);

impl Write for Written {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().unwrap().write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Written {
    fn text(&self) -> String {
        String::from_utf8(self.0.lock().unwrap().clone()).unwrap()
    }
}

/// A program's switch that logs.
fn switch(json: &str, p4info: &str, log: PacketLog) -> Switch {
    let p4info = P4Info::parse(p4info).unwrap().message().clone();
    Switch::new(Arc::new(Pipeline::load_to_log(json, p4info, Some(log)).unwrap()))
}

/// A router with its routes.
fn router(log: PacketLog) -> Switch {
    let mut switch = switch(JSON, P4INFO, log);
    let route = |prefix: [u8; 4], prefix_len, action| {
        let matched = KeyMatch::Lpm { value: prefix.to_vec(), prefix_len };
        entry(&switch, "routes", vec![(1, matched)], 0, action)
    };
    let routes = [
        route([10, 0, 2, 0], 24, call(&switch, "forward", &[&[2], &[8, 0, 0, 0, 2, 0x22]])),
        route([10, 0, 4, 0], 24, call(&switch, "forward", &[&[4], &[8]])),
        route([10, 0, 9, 0], 24, call(&switch, "flood", &[&[1]])),
    ];
    let tcp = KeyMatch::Ternary { value: vec![6], mask: vec![0xff] };
    let ports = KeyMatch::Range { low: vec![1], high: vec![3] };
    let accesses = [
        entry(&switch, "access", vec![(1, tcp), (3, ports)], 20, call(&switch, "refuse", &[&[3]])),
        entry(
            &switch,
            "access",
            vec![(2, KeyMatch::Optional(vec![10, 0, 1, 9]))],
            10,
            call(&switch, "mirror", &[]),
        ),
    ];
    routes.iter().chain(&accesses).for_each(|entry| switch.insert(entry).unwrap());
    let replicas = [(1, 0), (3, 5)].map(|(port, instance)| Replica { port, instance }).to_vec();
    switch.insert_group(&MulticastGroup { id: 1, replicas: replicas.clone() }).unwrap();
    let replicas = replicas[..1].to_vec();
    let session = CloneSession { id: 7, replicas, class_of_service: 0, packet_length: 0 };
    switch.insert_session(&session).unwrap();
    (1..=4).for_each(|port| switch.set_port(port, port != 3));
    switch
}

fn call(switch: &Switch, action: &str, arguments: &[&[u8]]) -> ActionCall {
    let action = switch.pipeline().info().action(action).unwrap();
    let params = (1..).zip(arguments).map(|(id, bytes)| (id, bytes.to_vec()));
    ActionCall { action_id: action.name.id, params: params.collect() }
}

fn entry(
    switch: &Switch,
    table: &str,
    matches: Vec<(u32, KeyMatch)>,
    priority: i32,
    action: ActionCall,
) -> TableEntry {
    let table_id = switch.pipeline().info().table(table).unwrap().name.id;
    let matches = matches.into_iter().map(|(field_id, key)| FieldMatch { field_id, key }).collect();
    TableEntry::new(EntryKey { table_id, matches, priority }, action)
}

/// An IPv4 packet from 10.0.1.`source` to 10.0.`network`.2, and a right checksum.
fn packet(source: u8, network: u8, protocol: u8) -> Vec<u8> {
    let mut ip = [0x45, 0, 0, 24, 0, 0, 0, 0, 64, protocol, 0, 0, 10, 0, 1, source, 10, 0, network, 2];
    let words = ip.chunks(2).map(|pair| u32::from(pair[0]) << 8 | u32::from(pair[1]));
    let sum: u32 = words.sum();
    let sum = !((sum & 0xffff) + (sum >> 16)) as u16;
    ip[10..12].copy_from_slice(&sum.to_be_bytes());
    let ethernet = [8, 0, 0, 0, 1, 0, 8, 0, 0, 0, 1, 0x11, 8, 0];
    [&ethernet[..], &ip, b"rest"].concat()
}

/// What a router logs of these packets, of port 1.
fn logged(form: LogForm, packets: &[Vec<u8>]) -> String {
    let written = Written::default();
    let mut switch = router(PacketLog::new(form, written.clone()).unwrap());
    let mut outputs = Outputs::new();
    packets.iter().for_each(|packet| switch.process(1, packet, &mut outputs));
    // It is written when the last user of the log is gone.
    drop(switch);
    written.text()
}

/// The text of these packets, without times.
fn text(packets: &[Vec<u8>]) -> String {
    let text = logged(LogForm::Text, packets);
    let lines = text.lines().map(|line| match line.split_once(", at ") {
        Some((line, _)) if line.starts_with("packet") => line,
        _ => line,
    });
    lines.collect::<Vec<_>>().join("\n")
}

/// The objects of these packets.
fn objects(packets: &[Vec<u8>]) -> Vec<Value> {
    logged(LogForm::Json, packets).lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

/// The events of this kind.
fn events(object: &Value, kind: &str) -> Vec<Value> {
    let all = object["events"].as_array().unwrap().iter();
    all.filter(|event| event["event"] == kind).cloned().collect()
}

#[test]
fn a_packet_is_followed_from_port_to_port() {
    assert_eq!(text(&[packet(1, 2, 17)]), "");
}

#[test]
fn rest() {
    for one in [packet(1, 2, 6), packet(9, 2, 17), packet(1, 9, 17), packet(1, 4, 17), packet(1, 7, 17), vec![1, 2, 3],
     [&[0; 12][..], &[0x88, 0x47, 2, 4, 6, 9, 9]].concat(),
     [&[0; 12][..], &[0x88, 0x47, 2, 5, 6, 9, 9]].concat(),
     ] {
        eprintln!("{}", text(&[one]));
    }
    eprintln!("{}", logged(LogForm::Json, &[packet(1, 2, 6)]));
    panic!();
}
