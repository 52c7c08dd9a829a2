//! Tests of the packet log with `programs/logged.p4`.

use std::io::{self, Write};
use std::sync::{Arc, Condvar, Mutex};

use proptest::prelude::*;
use serde_json::{Value, json};
use tributary_p4runtime::P4Info;
use tributary_softswitch::control::{
    ActionCall, CloneSession, EntryKey, FieldMatch, KeyMatch, MulticastGroup, Replica, TableEntry,
};
use tributary_softswitch::{LogForm, Outputs, PacketLog, Pipeline, Switch};

const JSON: &str = include_str!("../programs/logged.json");
const P4INFO: &str = include_str!("../programs/logged.p4info.txtpb");

/// The written text, which a test can read.
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

/// Makes a switch with a program, which logs its packets if there is a log.
fn switch(json: &str, p4info: &str, log: Option<PacketLog>) -> Switch {
    let p4info = P4Info::parse(p4info).unwrap().message().clone();
    Switch::new(Arc::new(Pipeline::load_to_log(json, p4info, log).unwrap()))
}

/// Makes a router with its routes.
fn router(log: Option<PacketLog>) -> Switch {
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
    switch
        .insert_group(&MulticastGroup { id: 1, replicas: replicas.clone(), ..MulticastGroup::default() })
        .unwrap();
    let replicas = replicas[..1].to_vec();
    let session = CloneSession { id: 7, replicas, ..CloneSession::default() };
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

/// Makes an IPv4 packet from 10.0.1.`source` to 10.0.`network`.2 with a correct checksum.
fn packet(source: u8, network: u8, protocol: u8) -> Vec<u8> {
    let mut ip = [0x45, 0, 0, 24, 0, 0, 0, 0, 64, protocol, 0, 0, 10, 0, 1, source, 10, 0, network, 2];
    let words = ip.chunks(2).map(|pair| u32::from(pair[0]) << 8 | u32::from(pair[1]));
    let sum: u32 = words.sum();
    let sum = !((sum & 0xffff) + (sum >> 16)) as u16;
    ip[10..12].copy_from_slice(&sum.to_be_bytes());
    let ethernet = [8, 0, 0, 0, 1, 0, 8, 0, 0, 0, 1, 0x11, 8, 0];
    [&ethernet[..], &ip, b"rest"].concat()
}

/// Returns the log of a router for these packets, which come in at port 1.
fn logged(form: LogForm, packets: &[Vec<u8>]) -> String {
    let written = Written::default();
    let mut switch = router(Some(PacketLog::new(form, written.clone()).unwrap()));
    let mut outputs = Outputs::new();
    packets.iter().for_each(|packet| switch.process(1, packet, &mut outputs));
    // The log is written when its last user is dropped.
    drop(switch);
    written.text()
}

/// Returns the log of these packets as text, without times.
fn text(packets: &[Vec<u8>]) -> String {
    let text = logged(LogForm::Text, packets);
    let lines = text.lines().map(|line| match line.split_once(", at ") {
        Some((line, _)) if line.starts_with("packet") => line,
        _ => line,
    });
    lines.collect::<Vec<_>>().join("\n")
}

/// Returns the log of these packets as JSON objects.
fn objects(packets: &[Vec<u8>]) -> Vec<Value> {
    logged(LogForm::Json, packets).lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

/// Returns the events of this kind.
fn events(object: &Value, kind: &str) -> Vec<Value> {
    let all = object["events"].as_array().unwrap().iter();
    all.filter(|event| event["event"] == kind).cloned().collect()
}

/// Returns the lines of a text that begin with one of these words.
fn lines<'a>(text: &'a str, words: &[&str]) -> Vec<&'a str> {
    let lines = text.lines().map(str::trim);
    lines.filter(|line| words.iter().any(|word| line.starts_with(word))).collect()
}

/// Makes a packet with these labels.
fn labelled(labels: &[u8]) -> Vec<u8> {
    [&[0; 12][..], &[0x88, 0x47], labels, b"rest"].concat()
}

#[test]
fn a_packet_is_followed_from_port_to_port() {
    let expected = "\
packet 1: 38 bytes by port 1
  state start
      + ethernet: destination=0x080000000100 source=0x080000000111 type=0x0800
  state ipv4
      + ipv4: version=4 length=5 traffic_class=0 total_length=0x0018 fragment=0 time_to_live=64 protocol=17 \
checksum=0x63d3 source=0x0a000101 destination=0x0a000202
  accept
  checksum ipv4.checksum: 0x63d3 is right
  ingress
    if hdr.ipv4.isValid() && sm.checksum_error == 0: true  [logged.p4:111]
    packets.read(meta.seen, (bit<32>)sm.ingress_port); ...  [logged.p4:112]
      RouterIngress.packets[1] is 0
      metadata_t.seen: 0 → 1
      RouterIngress.packets[1] becomes 1
    table RouterIngress.routes: hdr.ipv4.destination=0x0a000202 hits 0x0a000200/24: RouterIngress.forward(port=2, \
next_hop=0x080000000222)  [logged.p4:96]
      standard_metadata.egress_spec: 0 → 2
      ethernet.destination: 0x080000000100 → 0x080000000222
      ipv4.time_to_live: 64 → 63
    table RouterIngress.access: hdr.ipv4.protocol=17, hdr.ipv4.source=0x0a000101, sm.ingress_port=1 misses: \
NoAction()  [logged.p4:101]
  egress to port 2
    if sm.egress_port == 4: false  [logged.p4:132]
  deparser
      ipv4.checksum: 0x63d3 → 0x64d3
  38 bytes leave by port 2
";
    assert_eq!(text(&[packet(1, 2, 17)]), expected);
}

#[test]
fn entries_are_told_with_their_priority_and_what_a_packet_ends_at() {
    let refused = text(&[packet(1, 2, 6)]);
    let access = "table RouterIngress.access: hdr.ipv4.protocol=6, hdr.ipv4.source=0x0a000101, sm.ingress_port=1 hits \
                  6 &&& 255, _, 1..3 (priority 20): RouterIngress.refuse(reason=3)  [logged.p4:101]";
    let counted = "RouterIngress.refused[3] counts";
    let found = lines(&refused, &["table RouterIngress.access", "RouterIngress.refused", "dropped"]);
    assert_eq!(found, [access, counted, "dropped: by ingress"]);

    let missed = text(&[packet(1, 7, 17)]);
    let routes = "table RouterIngress.routes: hdr.ipv4.destination=0x0a000702 misses: RouterIngress.drop()  \
                  [logged.p4:96]";
    assert_eq!(lines(&missed, &["table RouterIngress.routes", "dropped"]), [routes, "dropped: by ingress"]);

    let held = text(&[packet(1, 4, 17)]);
    assert_eq!(
        lines(&held, &["egress", "if sm.egress_port", "mark", "dropped"]),
        [
            "egress to port 4",
            "if sm.egress_port == 4: true  [logged.p4:132]",
            "mark_to_drop(sm)  [logged.p4:133]",
            "dropped: by egress",
        ]
    );
}

#[test]
fn a_wrong_checksum_is_told_with_the_right_one() {
    let mut wrong = packet(1, 2, 17);
    wrong[24] ^= 1;
    let said = text(&[wrong]);
    let checksum = "checksum ipv4.checksum: 0x62d3 is wrong, it should be 0x63d3";
    assert_eq!(lines(&said, &["checksum", "dropped"]), [checksum, "dropped: by ingress"]);
}

#[test]
fn copies_are_told_with_where_they_go() {
    let flooded = text(&[packet(1, 9, 17)]);
    assert_eq!(
        lines(&flooded, &["multicast", "egress", "38 bytes"]),
        [
            "multicast group 1: port 1, port 3 (instance 5)",
            "egress to port 1",
            "38 bytes leave by port 1",
            "egress to port 3, instance 5",
            "38 bytes leave by port 3, which does not exist or is down",
        ]
    );

    let mirrored = text(&[packet(1, 2, 1), packet(9, 2, 17)]);
    assert_eq!(
        lines(&mirrored, &["packet ", "clones", "egress", "38 bytes"]),
        [
            "packet 1: 38 bytes by port 1",
            "egress to port 2",
            "38 bytes leave by port 2",
            "packet 2: 38 bytes by port 1",
            "clones by session 7 to port 1",
            "packet 2, a clone of ingress: 38 bytes",
            "egress to port 1",
            "38 bytes leave by port 1",
            "packet 2 goes on behind its clones: 38 bytes",
            "egress to port 2",
            "38 bytes leave by port 2",
        ]
    );
}

#[test]
fn a_packet_that_begins_again_keeps_its_number() {
    let said = text(&[labelled(&[2, 5])]);
    assert_eq!(
        lines(&said, &["packet ", "state", "+ labels", "- labels", "labels", "resubmitted"]),
        [
            "packet 1: 20 bytes by port 1",
            "state start",
            "state labels",
            "+ labels[0]: value=1 last=0",
            "state labels",
            "+ labels[1]: value=2 last=1",
            "resubmitted",
            "packet 1, resubmitted: 20 bytes",
            "state start",
            "state labels",
            "+ labels[0]: value=1 last=0",
            "state labels",
            "+ labels[1]: value=2 last=1",
            "labels[0].value: 1 → 2",
            "labels[0].last: 0 → 1",
            "- labels[1]",
        ]
    );
}

#[test]
fn what_cannot_be_parsed_is_told_with_the_parsers_error() {
    assert_eq!(lines(&text(&[vec![1, 2, 3]]), &["parser error", "+"]), ["parser error: PacketTooShort"]);
    let unknown = [&[0; 12][..], &[0x12, 0x34]].concat();
    assert_eq!(lines(&text(&[unknown]), &["parser error"]), ["parser error: NoMatch"]);
    let many = lines(&text(&[labelled(&[2, 4, 6])]), &["parser error"]).len();
    assert_eq!(many, 2, "it is resubmitted");
}

#[test]
fn programs_get_an_object_a_packet() {
    let objects = objects(&[packet(1, 2, 17), vec![1, 2, 3], packet(9, 2, 17)]);
    let causes: Vec<_> = objects.iter().map(|one| (&one["packet"], one["cause"].as_str().unwrap())).collect();
    let [one, two, three] = [1, 2, 3].map(Value::from);
    assert_eq!(
        causes,
        [
            (&one, "received"),
            (&two, "received"),
            (&three, "received"),
            (&three, "ingress_clone"),
            (&three, "after_clones"),
        ]
    );
    let first = &objects[0];
    assert_eq!([&first["port"], &first["length"]], [1, 38]);
    assert!(first["time"].as_f64().unwrap() > 1e9);
    let routes = json!({
        "event": "table",
        "name": "RouterIngress.routes",
        "key": [{ "field": "hdr.ipv4.destination", "value": "0x0a000202" }],
        "hit": { "matches": ["0x0a000200/24"], "priority": 0 },
        "run": {
            "action": "RouterIngress.forward",
            "arguments": [
                { "name": "port", "value": "0x002" },
                { "name": "next_hop", "value": "0x080000000222" },
            ],
        },
        "source": { "file": "logged.p4", "line": 96 },
    });
    assert_eq!(events(first, "table")[0], routes);
    let sent = json!({ "event": "send", "port": 2, "length": 38, "up": true });
    assert_eq!(events(first, "send"), [sent]);
    let error = json!({ "event": "parser_error", "error": "PacketTooShort" });
    assert_eq!(events(&objects[1], "parser_error"), [error]);
}

#[test]
fn a_switch_that_logs_sends_what_others_send() {
    let packets = [packet(1, 2, 17), packet(9, 2, 17), packet(1, 9, 6), labelled(&[2, 5]), vec![0; 20]];
    let sent = |switch: &mut Switch| {
        let mut outputs = Outputs::new();
        packets.iter().for_each(|packet| switch.process(1, packet, &mut outputs));
        outputs.iter().map(|(port, frame)| (port, frame.to_vec())).collect::<Vec<_>>()
    };
    let log = PacketLog::new(LogForm::Json, io::sink()).unwrap();
    let [logs, silent] = [Some(log), None].map(|log| sent(&mut router(log)));
    assert_eq!(logs, silent);
    assert!(logs.len() >= 4);
}

/// A writer that blocks until the test releases it, and then writes to `Written`.
#[derive(Clone, Default)]
struct Stuck(Arc<(Mutex<bool>, Condvar)>, Written);

impl Write for Stuck {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let (reads, changed) = &*self.0;
        drop(changed.wait_while(reads.lock().unwrap(), |reads| !*reads).unwrap());
        self.1.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[test]
fn a_slow_reader_holds_up_no_packet_and_is_told_what_it_missed() {
    const PACKETS: u64 = 10_000;
    let stuck = Stuck::default();
    let mut switch = router(Some(PacketLog::new(LogForm::Json, stuck.clone()).unwrap()));
    let mut outputs = Outputs::new();
    // The packets exceed the log's queue. This would never end if the switch waited for the log.
    (0..PACKETS).for_each(|_| switch.process(1, &packet(1, 2, 17), &mut outputs));
    assert_eq!(outputs.len() as u64, PACKETS);
    *stuck.0.0.lock().unwrap() = true;
    stuck.0.1.notify_all();
    drop(switch);
    let text = stuck.1.text();
    let objects = text.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    let (lost, told): (Vec<_>, Vec<_>) = objects.partition(|object| object.get("lost").is_some());
    let lost: u64 = lost.iter().map(|object| object["lost"].as_u64().unwrap()).sum();
    assert!(lost > 0 && !told.is_empty());
    assert_eq!(told.len() as u64 + lost, PACKETS);
}

#[test]
fn when_the_reader_is_gone_packets_go_on() {
    struct Gone;
    impl Write for Gone {
        fn write(&mut self, _: &[u8]) -> io::Result<usize> {
            Err(io::ErrorKind::BrokenPipe.into())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }
    let mut switch = router(Some(PacketLog::new(LogForm::Text, Gone).unwrap()));
    let mut outputs = Outputs::new();
    (0..100).for_each(|_| switch.process(1, &packet(1, 2, 17), &mut outputs));
    assert_eq!(outputs.len(), 100);
}

proptest! {
    #[test]
    fn of_any_bytes_every_line_is_an_object(
        frames in prop::collection::vec((0_u16..520, prop::collection::vec(any::<u8>(), 0..80)), 1..20),
    ) {
        let written = Written::default();
        let mut switch = router(Some(PacketLog::new(LogForm::Json, written.clone()).unwrap()));
        let mut outputs = Outputs::new();
        for (port, frame) in &frames {
            switch.process(*port, frame, &mut outputs);
        }
        drop(switch);
        for line in written.text().lines() {
            let object: Value = serde_json::from_str(line).unwrap();
            prop_assert!(object["events"].is_array());
        }
    }
}

#[test]
fn a_packet_that_goes_round_for_long_fills_no_memory() {
    let labels = include_str!("../programs/paths.json");
    let info = include_str!("../programs/paths.p4info.txtpb");
    let written = Written::default();
    let mut switch = switch(labels, info, Some(PacketLog::new(LogForm::Json, written.clone()).unwrap()));
    let mut outputs = Outputs::new();
    // The packet is recirculated forever.
    switch.process(7, &[0, 6, 0, 0xff, 0, 0], &mut outputs);
    assert!(switch.is_waiting());
    drop(switch);
    let text = written.text();
    assert!(text.lines().all(|line| line.contains("\"packet\":1,")), "{text}");
    assert!(text.lines().count() > 10);
}
