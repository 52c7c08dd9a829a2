//! Tests of `tributary switch` without a controller: program, entries and captures come from files, as
//! users who test P4 programs need it.

use std::fs;
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use tempfile::TempDir;
use tributary_link::{FramePort, InterfacePort};
use tributary_p4runtime::entry::{
    ActionCall, ControllerPacket, Entity, Match, MulticastGroup, Query, Replica, TableEntry,
};
use tributary_p4runtime::{P4Info, Session, Target};
use tributary_testkit::binary::{self, assert_refused, refused, tributary};
use tributary_testkit::network::Daemon;
use tributary_testkit::{netns, root};

const PATIENCE: Duration = Duration::from_secs(20);

/// Returns the path of a file of the router, which is one of the embedded switch's test programs.
fn router(ending: &str) -> String {
    root().join(format!("crates/softswitch/tests/programs/router.{ending}")).to_str().unwrap().to_owned()
}

/// A folder with the files of a test.
struct Folder(TempDir);

impl Folder {
    fn new() -> Self {
        Self(TempDir::new().unwrap())
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    fn text(&self, name: &str) -> String {
        self.path(name).to_str().unwrap().to_owned()
    }

    /// Writes a file and returns its path.
    fn with(&self, name: &str, contents: impl AsRef<[u8]>) -> String {
        fs::write(self.path(name), contents).unwrap();
        self.text(name)
    }

    /// Returns the value of `--port` for the captures `inN` and `outN`.
    fn port(&self, number: u16) -> String {
        format!("{number}=pcap:{},{}", self.text(&format!("in{number}")), self.text(&format!("out{number}")))
    }
}

/// Returns a pcap file. This code is independent of the switch's, and the tests compare the files byte
/// by byte.
fn capture(frames: &[(u32, &[u8])]) -> Vec<u8> {
    let header = [0xa1b2_c3d4_u32, 2 | 4 << 16, 0, 0, 262_144, 1];
    let mut file: Vec<u8> = header.iter().flat_map(|word| word.to_le_bytes()).collect();
    for (at, frame) in frames {
        let length = u32::try_from(frame.len()).unwrap();
        file.extend([1_700_000_000, *at, length, length].iter().flat_map(|word| word.to_le_bytes()));
        file.extend(*frame);
    }
    file
}

const HOST_1: [u8; 6] = [8, 0, 0, 0, 1, 0x11];
const HOST_2: [u8; 6] = [8, 0, 0, 0, 2, 0x22];
const ROUTER: [u8; 6] = [8, 0, 0, 0, 0, 1];

/// Returns a UDP packet over IPv4 in an Ethernet frame.
fn udp(macs: ([u8; 6], [u8; 6]), addresses: ([u8; 4], [u8; 4]), port: u16, ttl: u8) -> Vec<u8> {
    let payload = [0x5a; 40];
    let length = 8 + payload.len() as u16;
    let total = (20 + length).to_be_bytes();
    let mut ip = vec![0x45, 0, total[0], total[1], 0, 7, 0, 0, ttl, 17, 0, 0];
    ip.extend([addresses.0, addresses.1].concat());
    let sum: u32 = ip.chunks(2).map(|pair| u32::from(u16::from_be_bytes([pair[0], pair[1]]))).sum();
    let checksum = !((sum & 0xffff) + (sum >> 16)) as u16;
    ip[10..12].copy_from_slice(&checksum.to_be_bytes());
    let udp = [1234u16, port, length, 0].map(u16::to_be_bytes).concat();
    [&macs.1[..], &macs.0, &[8, 0], &ip, &udp, &payload].concat()
}

fn broadcast() -> Vec<u8> {
    [&[0xff; 6][..], &HOST_1, &[8, 6], &[1; 28]].concat()
}

/// Writes the input captures of the router's three ports. Returns the expected output captures.
fn write_captures(folder: &Folder) -> [Vec<u8>; 3] {
    let (host_1, host_2) = ([10, 0, 1, 5], [10, 0, 2, 9]);
    let there = udp((HOST_1, ROUTER), (host_1, host_2), 1000, 64);
    let back = udp((HOST_2, ROUTER), (host_2, host_1), 2000, 64);
    let mirrored = udp((HOST_1, ROUTER), (host_1, host_2), 5005, 64);
    let denied = udp((HOST_1, ROUTER), ([10, 0, 1, 66], host_2), 5005, 64);
    let late = udp((HOST_1, ROUTER), (host_1, host_2), 1000, 1);
    let nowhere = udp((HOST_1, ROUTER), (host_1, [10, 0, 3, 1]), 1000, 64);
    let flood = broadcast();
    let first: [(u32, &[u8]); 6] =
        [(1, &there), (3, &flood), (4, &mirrored), (5, &denied), (6, &late), (7, &nowhere)];
    folder.with("in1", capture(&first));
    folder.with("in2", capture(&[(2, &back)]));
    let routed_there = udp((ROUTER, HOST_2), (host_1, host_2), 1000, 63);
    let routed_back = udp((ROUTER, HOST_1), (host_2, host_1), 2000, 63);
    let routed_mirrored = udp((ROUTER, HOST_2), (host_1, host_2), 5005, 63);
    [
        capture(&[(2, &routed_back)]),
        capture(&[(1, &routed_there), (3, &flood), (4, &routed_mirrored)]),
        capture(&[(3, &flood), (4, &mirrored[..64])]),
    ]
}

#[test]
fn captures_go_through_a_program_with_entries_from_a_file() {
    let folder = Folder::new();
    let leaving = write_captures(&folder);
    let (ports, entries) = ([folder.port(1), folder.port(2)], router("runtime.json"));
    let third = format!("3=pcap:,{}", folder.text("out3"));
    let arguments = [
        "--entries",
        &entries,
        "--cpu-port",
        "255",
        "--port",
        &ports[0],
        "--port",
        &ports[1],
        "--port",
        &third,
    ];
    let printed = binary::json(&[&["switch", "--json"], &arguments[..]].concat());
    for (number, expected) in (1..).zip(&leaving) {
        let written = fs::read(folder.path(&format!("out{number}"))).unwrap();
        assert!(written == *expected, "port {number} sent\n{written:02x?}\nin place of\n{expected:02x?}");
    }
    let counts = |port: u16, way: &str| {
        let ports = printed["ports"].as_array().unwrap();
        ports.iter().find(|one| one["port"] == json!(port)).unwrap()[way].clone()
    };
    let in1 = json!({ "file": folder.text("in1"), "frames": 6, "bytes": 5 * 82 + 42 });
    assert_eq!((counts(1, "in"), counts(2, "out")["frames"].clone()), (in1, json!(3)));
    let out3 = json!({ "file": folder.text("out3"), "frames": 2, "bytes": 42 + 64 });
    assert_eq!((counts(3, "in")["file"].clone(), counts(3, "out")), (Value::Null, out3));
    // Without `--json`, the command prints a table.
    let output = tributary(&[&["switch"], &arguments[..]].concat());
    let table = String::from_utf8(output.stdout).unwrap();
    let row = |words: &[&str]| {
        table.lines().any(|line| line.replace('│', "").split_whitespace().eq(words.iter().copied()))
    };
    assert!(
        output.status.success() && row(&["1", "6", "452", "1", "82"]) && row(&["3", "0", "0", "2", "106"]),
        "{table}"
    );
}

#[test]
fn a_controller_that_connects_later_finds_the_program_and_its_entries() {
    let folder = Folder::new();
    let leaving = write_captures(&folder);
    // Binding a socket is the only way to find a free port.
    let address = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().to_string();
    let settings = json!({
        "name": "s1",
        "device-id": 7,
        "p4runtime": address,
        "program": router("json"),
        "p4info": router("p4info.txtpb"),
        "entries": router("runtime.json"),
        "cpu-port": 255,
        "port": [folder.port(1), folder.port(2), format!("3=pcap:,{}", folder.text("out3"))],
    });
    let settings = settings.as_object().unwrap().iter().map(|(key, value)| format!("{key} = {value}\n"));
    let settings = folder.with("switch.toml", settings.collect::<String>());
    let mut command = Command::new(binary::path());
    command.args(["switch", "--config", &settings]).stdout(Stdio::null());
    let mut switch = Daemon::start(command);
    switch.wait_for_line("all captures were processed");
    let info = P4Info::parse(&fs::read_to_string(router("p4info.txtpb")).unwrap()).unwrap();
    let runtime = tokio::runtime::Runtime::new().unwrap();
    runtime.block_on(async {
        let target = Target { name: "s1".into(), address, device_id: 7 };
        let deadline = tokio::time::Instant::now() + PATIENCE;
        let session = Session::connect(target, 1, deadline).await.unwrap();
        let config = session.pipeline().await.unwrap().unwrap();
        assert_eq!(config.p4_device_config, fs::read(router("json")).unwrap());
        assert_eq!(config.p4info.as_ref(), Some(info.message()));
        let read = session
            .read(vec![Query::AllTables.to_proto(&info).unwrap(), Query::AllGroups.to_proto(&info).unwrap()]);
        let read: Vec<_> =
            read.await.unwrap().iter().map(|entity| Entity::from_proto(&info, entity).unwrap()).collect();
        let forward = |net: u128, mac: u128, port: u16| {
            let call = ActionCall::new("forward").with("dst", mac).with("port", port);
            TableEntry::new("route").matching("dst", Match::Lpm { value: net, prefix: 24 }).action(call)
        };
        for expected in [
            forward(0x0a00_0100, 0x0800_0000_0111, 1).into(),
            forward(0x0a00_0200, 0x0800_0000_0222, 2).into(),
            Entity::from(MulticastGroup {
                id: 1,
                replicas: [1, 2, 3].map(|port| Replica { port, instance: 1 }).into(),
            }),
        ] {
            assert!(read.contains(&expected), "{expected} is not in {read:?}");
        }
        let tables = read.iter().filter(|entity| matches!(entity, Entity::Table(_))).count();
        assert_eq!(tables, 5);
        // Entries and packets from a controller work, too.
        let entry = Entity::from(forward(0x0a00_0300, 1, 3));
        session.write(vec![entry.insert(&info).unwrap()]).await.unwrap();
        let packet = ControllerPacket::new(broadcast()).with("egress_port", 2u16);
        session.send_packet(packet.to_packet_out(&info).unwrap()).await.unwrap();
        let expected = capture(&[]).len() + 4 * 16 + 82 + 42 + 82 + 42;
        let deadline = Instant::now() + PATIENCE;
        // The switch writes the frame to the file when it sends it, so a crash cannot lose the record.
        while fs::metadata(folder.path("out2")).unwrap().len() < expected as u64 {
            assert!(Instant::now() < deadline, "the packet did not leave");
            tokio::task::yield_now().await;
        }
    });
    let (status, log) = switch.terminate();
    assert!(status.success(), "{log}");
    assert_eq!(fs::read(folder.path("out1")).unwrap(), leaving[0]);
    let out2 = fs::read(folder.path("out2")).unwrap();
    assert!(out2.starts_with(&leaving[1]) && out2.ends_with(&broadcast()));
}

#[test]
fn what_a_switch_needs_is_named() {
    let (program, p4info) = (router("json"), router("p4info.txtpb"));
    let wrong = |options: &[&str], words: &[&str]| {
        refused(&[&["switch", "--port", "1=lo"], options].concat(), 2, words);
    };
    wrong(&[], &["--program and --p4info", "--p4runtime"]);
    wrong(&["--program", &program], &["--program needs --p4info", "--p4runtime-files"]);
    wrong(&["--p4info", &p4info], &["--p4info needs --program"]);
    wrong(&["--program", &program, "--p4info", &p4info, "--json"], &["--json", "captures"]);
    let both = ["--program", &program, "--p4info", &p4info, "--bypass-queues", "--segmentation-offload"];
    wrong(&both, &["--bypass-queues", "--segmentation-offload", "one of them"]);
    let folder = Folder::new();
    let entries = folder.with("entries.json", "{}");
    wrong(&["--entries", &entries], &["--entries needs a program"]);
    refused(&["switch", "--program", &program, "--p4info", &p4info], 2, &["--port"]);
    refused(&["switch", "--p4runtime", "127.0.0.1:0", "--port", "1=pcap:a"], 2, &["captures need --program"]);
    refused(&["switch", "--port", "1=pcap:"], 2, &["1=pcap:", "IN.pcap,OUT.pcap"]);
    let files = ["switch", "--program", &program, "--p4info", &p4info];
    refused(
        &[&files[..], &["--port", "1=pcap:a", "--pcap", "b"]].concat(),
        2,
        &["--pcap records interfaces"],
    );
    refused(&[&files[..], &["--port", "1=pcap:none.pcap"]].concat(), 1, &["none.pcap: it cannot be opened"]);
    refused(
        &[&files[..], &["--port", "255=pcap:,/dev/null"]].concat(),
        1,
        &["/dev/null: it is not a regular file"],
    );
    // A refused command must not change files.
    let out = folder.with("out", "kept");
    let port = |number: &str| format!("{number}=pcap:,{out}");
    let (first, ninth) = (port("1"), port("9"));
    let taken = ["--port", &first, "--cpu-port", "9", "--port", &ninth];
    refused(&[&files[..], &taken].concat(), 2, &["9 is the port to the controller", "--cpu-port"]);
    refused(&[&files[..], &["--port", &port("1"), "--port", "511=lo"]].concat(), 2, &["no port 511"]);
    assert_eq!(fs::read_to_string(&out).unwrap(), "kept");
    let own = folder.with("own.json", fs::read_to_string(&program).unwrap());
    let over = format!("1=pcap:,{own}");
    refused(&["switch", "--program", &own, "--p4info", &p4info, "--port", &over], 1, &["given twice"]);
    for (file, kind) in [("/dev/zero", "a device"), ("/dev", "a folder")] {
        let files = ["switch", "--program", file, "--p4info", &p4info, "--port", &port("1")];
        refused(&files, 1, &[&format!("cannot read {file}: it is {kind}, not a regular file")]);
    }
}

#[test]
fn a_packet_log_that_nobody_reads_holds_nothing_up() {
    let folder = Folder::new();
    let packet = udp((HOST_1, ROUTER), ([10, 0, 1, 5], [10, 0, 2, 9]), 1000, 64);
    // The output is longer than the buffer of a pipe.
    folder.with("in1", capture(&vec![(1, packet.as_slice()); 500]));
    let (port, entries) = (folder.port(1), router("runtime.json"));
    let mut switch = Command::new(binary::path())
        .args(["switch", "--entries", &entries, "--cpu-port", "255", "--port", &port, "--log-packets"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let unread = switch.stdout.take().unwrap();
    let ended = switch.wait_with_output().unwrap();
    assert_refused(&ended, &["standard output is closed"]);
    drop(unread);
}

#[test]
fn a_file_that_is_wrong_is_named_with_the_place() {
    let folder = Folder::new();
    let (program, p4info) = (router("json"), router("p4info.txtpb"));
    let started = |program: &str, p4info: &str, entries: &str, words: &[&str]| {
        let port = format!("1=pcap:,{}", folder.text("out"));
        let files = ["--program", program, "--p4info", p4info, "--entries", entries, "--port", &port];
        refused(&[&["switch"], &files[..]].concat(), 1, words);
    };
    let none = folder.with("none.json", "{}");
    started("no.json", &p4info, &none, &["cannot read no.json"]);
    started(&p4info, &p4info, &none, &["router.p4info.txtpb cannot be loaded", "p4c-bm2-ss"]);
    started(&program, &program, &none, &["router.json: not a P4Info in text format"]);
    let other = root().join("crates/softswitch/tests/programs/paths.p4info.txtpb");
    started(&program, other.to_str().unwrap(), &none, &["paths.p4info.txtpb", "files of one compilation"]);
    let entries = |text: &str, words: &[&str]| {
        started(
            &program,
            &p4info,
            &folder.with("s1-runtime.json", text),
            &[&["s1-runtime.json: "], words].concat(),
        );
    };
    entries("tables", &["no runtime JSON", "line 1"]);
    let route =
        |rest: &str| format!(r#"{{ "table_entries": [{{ "table": "RouterIngress.route", {rest} }}] }}"#);
    let drop = r#""action_name": "RouterIngress.drop""#;
    let place = "table_entries, entry 1 (RouterIngress.route)";
    entries(
        &route(&format!(r#""match": {{ "dts": [1, 8] }}, {drop}"#)),
        &[place, "dts", "dst (lpm, bit<32>)"],
    );
    // Errors that only the switch detects name the same position.
    let below = route(&format!(r#""match": {{ "dst": ["10.0.0.1", 8] }}, {drop}"#));
    entries(&below, &[place, "behind its prefix"]);
    let twice = r#"{ "multicast_group_entries": [
        { "multicast_group_id": 3, "replicas": [] }, { "multicast_group_id": 3, "replicas": [] }] }"#;
    entries(twice, &["multicast_group_entries, entry 2 (group 3)", "there already"]);
}

#[test]
fn files_that_the_entries_name_are_looked_for_here_and_beside_them() {
    let folder = Folder::new();
    fs::create_dir_all(folder.path("build")).unwrap();
    fs::create_dir_all(folder.path("pod")).unwrap();
    for ending in ["json", "p4info.txtpb"] {
        fs::copy(router(ending), folder.path(&format!("build/router.{ending}"))).unwrap();
    }
    let text =
        r#"{ "target": "bmv2", "p4info": "build/router.p4info.txtpb", "bmv2_json": "build/router.json" }"#;
    // In the tutorials, the file's folder is one level below the folder to which its paths are relative.
    let below = folder.with("pod/s1-runtime.json", text);
    let beside = folder.with("s1-runtime.json", text);
    let run = |here: &Path, entries: &str| {
        let port = format!("1=pcap:,{}", folder.text("out"));
        Command::new(binary::path())
            .current_dir(here)
            .args(["switch", "--entries", entries, "--port", &port])
            .output()
            .unwrap()
    };
    assert!(run(folder.0.path(), &below).status.success());
    assert!(run(Path::new("/"), &beside).status.success());
    assert_refused(&run(Path::new("/"), &below), &["cannot read build/router.json"]);
}

#[test]
fn a_capture_that_was_cut_off_is_processed_up_to_there_and_named() {
    let folder = Folder::new();
    let leaving = write_captures(&folder);
    let whole = fs::read(folder.path("in1")).unwrap();
    folder.with("in1", &whole[..whole.len() - 1]);
    let (ports, entries) = ([folder.port(1), folder.port(2)], router("runtime.json"));
    let arguments =
        ["switch", "--entries", &entries, "--cpu-port", "255", "--port", &ports[0], "--port", &ports[1]];
    let output = tributary(&arguments);
    assert_refused(&output, &["in1: it was cut off", "after 5 whole frames"]);
    assert_eq!(fs::read(folder.path("out2")).unwrap(), leaving[1]);
    assert!(String::from_utf8(output.stdout).unwrap().contains("frames in"));
}

/// Returns the frames of a capture with timestamps in microseconds.
fn frames_of(file: &Path) -> Vec<Vec<u8>> {
    let file = fs::read(file).unwrap();
    let (mut rest, mut frames) = (&file[24..], Vec::new());
    while !rest.is_empty() {
        let length = u32::from_le_bytes(rest[8..12].try_into().unwrap()) as usize;
        frames.push(rest[16..16 + length].to_vec());
        rest = &rest[16 + length..];
    }
    frames
}

fn receive(port: &mut InterfacePort) -> Vec<u8> {
    let deadline = Instant::now() + PATIENCE;
    loop {
        if let Some(frame) = port.receive().unwrap() {
            return frame.to_vec();
        }
        assert!(Instant::now() < deadline, "no frame came");
        std::thread::yield_now();
    }
}

#[test]
fn interfaces_are_recorded_as_bmv2_does() {
    if !netns::enter_with_veth_pair("s1-eth1", "h1") {
        return;
    }
    netns::connect("s1-eth2", "h2");
    let folder = Folder::new();
    let mut command = Command::new(binary::path());
    let (entries, recordings) = (router("runtime.json"), folder.text("pcaps"));
    command.args(["switch", "--entries", &entries, "--cpu-port", "255", "--pcap", &recordings]);
    command.args(["--port", "1=s1-eth1", "--port", "2=s1-eth2"]);
    let switch = Daemon::start(command);
    let (mut h1, mut h2) = (InterfacePort::open("h1").unwrap(), InterfacePort::open("h2").unwrap());
    let frame = udp((HOST_1, ROUTER), ([10, 0, 1, 5], [10, 0, 2, 9]), 1000, 64);
    let routed = udp((ROUTER, HOST_2), ([10, 0, 1, 5], [10, 0, 2, 9]), 1000, 63);
    h1.send_all(&[&frame]).unwrap();
    while receive(&mut h2) != routed {}
    // SIGKILL cannot be handled, but the files contain the frames that were sent.
    switch.kill();
    assert!(frames_of(&folder.path("pcaps/s1-eth2_out.pcap")).contains(&routed));
    assert!(frames_of(&folder.path("pcaps/s1-eth1_out.pcap")).iter().all(|other| *other != routed));
    assert!(folder.path("pcaps/s1-eth1_in.pcap").exists() && folder.path("pcaps/s1-eth2_in.pcap").exists());
}

#[test]
fn what_packets_meet_is_told_in_front_of_the_report() {
    let folder = Folder::new();
    write_captures(&folder);
    let entries = router("runtime.json");
    let ports = [folder.port(1), folder.port(2), format!("3=pcap:,{}", folder.text("out3"))];
    let mut arguments = vec!["switch", "--entries", &entries, "--cpu-port", "255"];
    arguments.extend(ports.iter().flat_map(|port| ["--port", port]));
    let told = |option| {
        let output = tributary(&[&arguments[..], &[option]].concat());
        assert!(output.status.success(), "{}", binary::stderr(&output));
        String::from_utf8(output.stdout).unwrap()
    };
    let text = told("--log-packets");
    let routed = "table RouterIngress.route: dst=0x0a000209 hits 0x0a000200/24: RouterIngress.forward(";
    assert!(text.starts_with("packet 1: 82 bytes by port 1, at ") && text.contains(routed), "{text}");
    let json = told("--log-packets=json");
    let objects: Vec<Value> = json.lines().map_while(|line| serde_json::from_str(line).ok()).collect();
    let received = objects.iter().filter(|object| object["cause"] == "received");
    assert_eq!(
        received.map(|object| object["port"].as_u64().unwrap()).collect::<Vec<_>>(),
        [1, 2, 1, 1, 1, 1, 1]
    );
    let refused = ["switch", "--log-packets=yaml", "--port", "1=va"];
    binary::refused(&refused, 2, &["--log-packets", "human", "json"]);
}
