//! Tests that labs are created or refused, and removed completely, even if their creator is killed.

use std::fs;
use std::io::{BufRead as _, BufReader, Read as _};
use std::os::unix::process::ExitStatusExt as _;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::thread;

use rustix::thread::{CapabilitySet, capabilities, set_capabilities};
use tributary_lab::{CONTROLLER, Lab, LabError, LabOptions, SwitchKind};
use tributary_link::InterfaceCondition;

use crate::support;

/// The variable with the name of the lab to create. It is for a test of this file that runs again as a
/// separate process.
const VICTIM: &str = "TRIBUTARY_TEST_VICTIM";

/// Returns descriptions of everything on the machine that belongs to a lab.
fn traces(lab: &str) -> Vec<String> {
    let mark = format!("tributary.{lab}.");
    let named = |folder: &str, needle: &str| {
        let names = fs::read_dir(folder).into_iter().flatten().map(|entry| entry.unwrap().file_name());
        let names = names.map(|name| name.into_string().unwrap()).filter(|name| name.contains(needle));
        names.collect::<Vec<_>>()
    };
    let mut traces = named("/run/netns", &mark);
    traces.extend(named("/run/tributary/lab", lab));
    traces.extend(named("/sys/class/net", "-eth").into_iter().filter(|name| name.starts_with("leaf0")));
    traces
}

/// Returns a program at a station that starts a child, to which the test has no handle. The program
/// prints "started", and its output ends when both processes have ended.
fn daemon(lab: &Lab, station: &str) -> Command {
    let mut command = lab.command(station, "sh").unwrap();
    command.args(["-c", "sleep 1000 & echo started; exec sleep 1000"]);
    command
}

/// Starts a [`daemon`] and waits until its child has started.
fn start(mut daemon: Command) -> Child {
    let mut child = daemon.stdout(Stdio::piped()).spawn().unwrap();
    let mut started = [0; 8];
    child.stdout.as_mut().unwrap().read_exact(&mut started).unwrap();
    assert_eq!(&started, b"started\n");
    child
}

/// Waits until a daemon and its child have ended.
fn join(mut daemon: Child) {
    assert_eq!(daemon.stdout.take().unwrap().read_to_end(&mut Vec::new()).unwrap(), 0);
    assert!(daemon.wait().unwrap().signal().is_some());
}

#[test]
fn pinned_programs_stay_on_one_processor() {
    let topology = support::shipped("three-tier-8");
    let processors = thread::available_parallelism().unwrap().get();
    if !(2..topology.nodes().count()).contains(&processors) {
        eprintln!("skipped: with {processors} processors there is nothing to choose");
        return;
    }
    let options = LabOptions { pinned: true, ..LabOptions::new(support::name("pinned")) };
    let Some(lab) = support::up(&topology, &options) else { return };
    let allowed = |station: &str| {
        let mut command = lab.command(station, "grep").unwrap();
        let output = command.args(["Cpus_allowed_list", "/proc/self/status"]).output().unwrap();
        String::from_utf8(output.stdout).unwrap()
    };
    let of = |stations: [&str; 3]| stations.map(allowed);
    let [one, other] = [of(["leaf0", "w0", "w3"]), of(["leaf3", "w4", "w7"])];
    assert!(one.iter().all(|list| *list == one[0]) && other.iter().all(|list| *list == other[0]));
    assert_ne!(one[0], other[0]);
    assert!(allowed(CONTROLLER).contains(['-', ',']));
    lab.down().unwrap();
}

#[test]
fn the_kernel_puts_frames_together_only_where_that_is_wanted() {
    let topology = support::shipped("two-workers");
    for (offloads, switches, expected) in [
        (false, SwitchKind::None, &[][..]),
        // A switch's port can split datagrams, but not TCP segments.
        (true, SwitchKind::None, &["gso", "tx"]),
        (true, SwitchKind::Bridge, &["tso", "gso", "tx"]),
    ] {
        let options = LabOptions { offloads, switches, ..LabOptions::new(support::name("offloads")) };
        let Some(lab) = support::up(&topology, &options) else { return };
        let interface = &lab.interfaces("w0").unwrap()[0].name;
        let condition = lab.inside("w0", || InterfaceCondition::of(interface)).unwrap().unwrap();
        assert_eq!(condition.offloads, expected, "{offloads} {switches:?}");
        assert_eq!(lab.has_offloads(), offloads);
        lab.down().unwrap();
    }
}

#[test]
fn up_makes_what_the_topology_says_and_down_leaves_nothing() {
    let (name, topology) = (support::name("down"), support::shipped("three-tier-8"));
    let Some(lab) = support::up(&topology, &LabOptions { loss: 0.01, ..LabOptions::new(&name) }) else {
        return;
    };
    let nodes: Vec<_> = topology.nodes().map(|(_, node)| node.name.as_str()).collect();
    assert_eq!(lab.stations().collect::<Vec<_>>(), [&[CONTROLLER][..], &nodes].concat());
    for (key, node) in topology.nodes() {
        let ports: Vec<_> = topology.neighbours(key).iter().map(|to| to.port).collect();
        let interfaces = lab.interfaces(&node.name).unwrap();
        assert_eq!(interfaces.iter().map(|interface| interface.port).collect::<Vec<_>>(), ports);
        let counters = support::counters(&lab, &node.name);
        assert!(interfaces.iter().all(|interface| counters.contains_key(&interface.name)));
        let ipv6 = "/proc/thread-self/net/if_inet6";
        let ipv6 = lab.inside(&node.name, || fs::read_to_string(ipv6).unwrap_or_default()).unwrap();
        assert_eq!(ipv6, "", "nobody speaks IPv6");
    }
    assert!(lab.interfaces(CONTROLLER).unwrap().is_empty());
    assert!(traces(&name).len() > nodes.len());

    let daemons = ["w0", "leaf0", CONTROLLER].map(|station| start(daemon(&lab, station)));
    fs::write(lab.folder().join("w0.log"), "started").unwrap();
    lab.down().unwrap();
    daemons.into_iter().for_each(join);
    assert_eq!(traces(&name), Vec::<String>::new());
    assert!(matches!(Lab::clean(&name), Err(LabError::NoLab(_))));
}

#[test]
fn a_lab_goes_with_its_value_unless_it_is_kept() {
    let (name, topology) = (support::name("drop"), support::shipped("two-workers"));
    let Some(lab) = support::up(&topology, &LabOptions::new(&name)) else { return };
    drop(lab);
    assert_eq!(traces(&name), Vec::<String>::new());

    let _sweeper = support::Sweeper(name.clone());
    Lab::up(&topology, &LabOptions::new(&name)).unwrap().keep();
    assert!(Lab::list().unwrap().contains(&name));
    let opened = Lab::open(&name).unwrap();
    assert_eq!(opened.interfaces("w0").unwrap()[0].name, "w0-eth1");
    let unknown = opened.namespace("w2").unwrap_err();
    assert!(unknown.to_string().contains("it has leaf, ps, w0, w1, and @controller"), "{unknown}");
    drop(opened);
    let refused = Lab::up(&topology, &LabOptions::new(&name)).unwrap_err();
    assert!(refused.to_string().contains(&format!("tributary lab down {name}")), "{refused}");
    Lab::open(&name).expect("neither a dropped handle nor a refusal takes it down").down().unwrap();
    assert!(matches!(Lab::open(&name), Err(LabError::NoLab(_))));
    assert!(!Lab::list().unwrap().contains(&name));
}

/// Runs [`make_a_lab_and_wait_to_be_killed`] in a separate process.
fn victim(name: &str) -> Child {
    Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "lifecycle::make_a_lab_and_wait_to_be_killed", "--ignored", "--nocapture"])
        .env(VICTIM, name)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap()
}

#[test]
#[ignore = "not a test: what the tests of crashes kill"]
fn make_a_lab_and_wait_to_be_killed() {
    let Ok(name) = std::env::var(VICTIM) else { return };
    let lab = Lab::up(&support::shipped("two-workers"), &LabOptions::new(&name)).unwrap();
    // The daemon writes to this process's output, and continues after this process has ended.
    let mut daemon = daemon(&lab, "w0").spawn().unwrap();
    // If the test ends without killing this process, standard input ends, and this process ends, too.
    std::io::stdin().read_to_end(&mut Vec::new()).unwrap();
    lab.down().unwrap();
    daemon.wait().unwrap();
}

#[test]
fn a_lab_that_a_crash_left_is_refused_and_can_be_removed() {
    let (name, topology) = (support::name("crash"), support::shipped("two-workers"));
    let Some(probe) = support::up(&topology, &LabOptions::new(support::name("crash-probe"))) else { return };
    probe.down().unwrap();
    let _sweeper = support::Sweeper(name.clone());
    let mut victim = victim(&name);
    let mut output = BufReader::new(victim.stdout.take().unwrap()).lines();
    assert!(output.any(|line| line.unwrap().ends_with("started")));
    victim.kill().unwrap();
    victim.wait().unwrap();
    assert!(matches!(Lab::up(&topology, &LabOptions::new(&name)), Err(LabError::Exists(_))));
    assert_eq!(Lab::open(&name).unwrap().name(), name, "what is left is whole, and could still be used");
    Lab::clean(&name).unwrap();
    assert_eq!(output.count(), 0, "the victim's daemon has ended, and its child");
    assert_eq!(traces(&name), Vec::<String>::new());
    Lab::up(&topology, &LabOptions::new(&name)).unwrap().down().unwrap();
}

#[test]
fn a_crash_in_the_middle_of_up_can_be_removed() {
    let (name, topology) = (support::name("half"), support::shipped("two-workers"));
    let Some(probe) = support::up(&topology, &LabOptions::new(support::name("half-probe"))) else { return };
    probe.down().unwrap();
    let _sweeper = support::Sweeper(name.clone());
    let mut victim = victim(&name);
    let record = PathBuf::from(format!("/run/tributary/lab/{name}.json"));
    while !record.exists() {
        assert!(victim.try_wait().unwrap().is_none(), "up failed");
        thread::yield_now();
    }
    // The victim may be killed in any state. An incomplete lab is refused, and can be removed.
    victim.kill().unwrap();
    victim.wait().unwrap();
    assert!(matches!(Lab::up(&topology, &LabOptions::new(&name)), Err(LabError::Exists(_))));
    Lab::clean(&name).unwrap();
    assert_eq!(traces(&name), Vec::<String>::new());
}

#[test]
fn without_rights_the_error_says_what_is_missing() {
    // Capabilities belong to a thread, so the other tests keep their capabilities.
    let refused = thread::spawn(|| {
        let mut sets = capabilities(None).unwrap();
        sets.effective = CapabilitySet::empty();
        set_capabilities(None, sets).unwrap();
        Lab::up(&support::shipped("two-workers"), &LabOptions::new(support::name("rights"))).unwrap_err()
    });
    let refused = refused.join().unwrap();
    assert!(refused.to_string().contains("needs root"), "{refused}");
}

#[test]
fn options_that_make_no_network_are_refused() {
    let topology = support::shipped("two-workers");
    let good = LabOptions::new(support::name("options"));
    let refused = |options: LabOptions| Lab::up(&topology, &options).unwrap_err();
    assert!(matches!(refused(LabOptions::new("a.b")), LabError::BadName(_)));
    for loss in [1.0, -0.1, f64::NAN] {
        assert!(matches!(refused(LabOptions { loss, ..good.clone() }), LabError::BadLoss(_)));
    }
    assert!(matches!(refused(LabOptions { queue_frames: 0, ..good }), LabError::BadQueue));
    assert!(matches!(Lab::clean("../x"), Err(LabError::BadName(_))));
    assert!(matches!(Lab::open(""), Err(LabError::BadName(_))));
}

#[test]
fn a_program_at_a_host_has_the_hosts_name_and_finds_the_others() {
    let topology = support::shipped("two-workers");
    let Some(lab) = support::up(&topology, &LabOptions::new(support::name("names"))) else { return };
    let outside = fs::read_to_string("/proc/sys/kernel/hostname").unwrap();
    let mut command = lab.command("w0", "sh").unwrap();
    let output = command.args(["-c", "hostname && getent hosts w0 w1 leaf && exit 3"]).output().unwrap();
    let said = String::from_utf8(output.stdout).unwrap();
    let words: Vec<Vec<_>> = said.lines().map(|line| line.split_whitespace().collect()).collect();
    let data = |host: &str| topology[topology.find(host).unwrap()].host().unwrap().ip.to_string();
    let (own, other) = (data("w0"), data("w1"));
    let leaf = lab.management_address("leaf").unwrap().to_string();
    assert_eq!(words, [vec!["w0"], vec![&own, "w0"], vec![&other, "w1"], vec![&leaf, "leaf"]]);
    assert_eq!(output.status.code(), Some(3), "the status is the program's");
    assert_eq!(fs::read_to_string("/proc/sys/kernel/hostname").unwrap(), outside);
    lab.down().unwrap();
}
