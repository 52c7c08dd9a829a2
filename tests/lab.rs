//! Tests of a complete fabric with `tributary lab`. They need root, to inspect labs from outside, and
//! network tools. If these are missing, the tests print that they are skipped.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::process::{Command, Stdio};

use serde_json::Value;
use tributary_testkit::binary::{TRIBUTARY, json, refused, stderr, tributary};
use tributary_testkit::labs;
use tributary_testkit::root;
use tributary_testkit::test_lab::{TestLab, reports, wait_until};
use tributary_testkit::user::User;

const THREE_TIERS: &str = "topologies/three-tier-8.toml";
const TWO_SPINES: &str = "topologies/leaf-spine-8.toml";
const TWO_WORKERS: &str = "topologies/two-workers.toml";

#[test]
fn eight_workers_reduce_right_and_down_leaves_nothing() {
    let Some(name) = TestLab::new("eight") else { return };
    let up = name.up(THREE_TIERS, &["--no-rates", "--window", "64"]);
    assert_eq!(up["workers"].as_array().unwrap().len(), 8);
    let listed = json(&["lab", "list", "--json"]);
    let own = listed["labs"].as_array().unwrap().iter().find(|lab| lab["name"] == name.0);
    assert_eq!(own.unwrap()["state"], "up");
    refused(
        &["lab", "up", TWO_WORKERS, "--name", &name.0],
        1,
        &["exists already", "lab down", "--name NAME"],
    );
    // The job continues to exist for a second command.
    for _ in 0..2 {
        let reduced = name.run(&["tributary", "allreduce", "--json", "--check", "--size", "1MiB"]);
        assert_eq!(reports(&reduced).len(), 8);
    }
    name.down();
    name.is_gone();
    refused(&["lab", "down", &name.0], 1, &["no lab"]);
    refused(&["lab", "run", "--name", &name.0, "--", "true"], 1, &["no lab", "lab up"]);
}

#[test]
fn eight_workers_reduce_right_over_bmv2() {
    if Command::new("simple_switch_grpc").arg("--version").output().is_err() {
        eprintln!("SKIPPED: there is no `simple_switch_grpc` on the PATH: install BMv2 (docs/bmv2.md)");
        return;
    }
    let Some(name) = TestLab::new("bmv2") else { return };
    let lab = ["lab", "run", THREE_TIERS, "--name", &name.0, "--switch", "bmv2", "--"];
    let command = ["tributary", "allreduce", "--json", "--check", "--size", "256KiB", "--iterations", "2"];
    assert_eq!(reports(&tributary(&[&lab[..], &command].concat())).len(), 8);
    name.is_gone();
}

#[test]
fn where_links_carry_more_slices_are_wider() {
    let Some(name) = TestLab::new("mtu") else { return };
    let slices = |mtu: &str| {
        let lab = ["lab", "run", TWO_WORKERS, "--name", &name.0, "--no-rates", "--mtu", mtu, "--"];
        let command =
            ["tributary", "allreduce", "--json", "--check", "--size", "256KiB", "--iterations", "1"];
        let reports = reports(&tributary(&[&lab[..], &command].concat()));
        reports.iter().map(|report| report["slices"].as_u64().unwrap()).max().unwrap()
    };
    // 65,536 values in slices of 256, 512 or 2,048 values, and one MAX slice for each 42 of these slices.
    assert_eq!(["1500", "4000", "9000"].map(slices), [263, 132, 33]);
    refused(&["lab", "up", TWO_WORKERS, "--name", &name.0, "--mtu", "100"], 1, &["bad mtu 100"]);
    name.is_gone();
}

#[test]
fn a_daemon_that_has_died_is_noticed() {
    let Some(name) = TestLab::new("dead") else { return };
    let up = name.up(TWO_WORKERS, &["--no-rates"]);
    let agent = up["stations"].as_array().unwrap().iter().find(|station| station["name"] == "w0").unwrap();
    Command::new("kill").args(["-KILL", &agent["process"].to_string()]).status().unwrap();
    let state = || {
        let listed = json(&["lab", "list", "--json"]);
        listed["labs"].as_array().unwrap().iter().find(|lab| lab["name"] == name.0).unwrap().clone()
    };
    wait_until("it is broken", || state()["state"] == "broken");
    assert_eq!(state()["ended"], serde_json::json!(["w0"]));
    refused(&["lab", "run", "--name", &name.0, "--", "true"], 1, &["w0 has ended", "lab down"]);
    name.down();
    name.is_gone();
}

#[test]
fn what_is_killed_starts_again_as_it_was() {
    let Some(name) = TestLab::new("again") else { return };
    name.up(TWO_WORKERS, &["--no-rates"]);
    let stations = ["leaf", "w0", "controller"];
    let before = ["leaf", "w0", "@controller"].map(|station| name.daemon(station));
    assert!(before.iter().all(|(process, state)| process.is_some() && state == "up"), "{before:?}");
    for station in stations {
        name.lab("kill", &[station]);
    }
    let listed = name.listed();
    assert_eq!(listed["killed"], serde_json::json!(["@controller", "leaf", "w0"]));
    assert_eq!(listed["state"], "up", "nothing is wrong that nobody wanted");
    name.lab_refuses("kill", &["leaf"], &["does not run", &format!("lab start --name {} leaf", name.0)]);
    name.lab_refuses("kill", &["nobody"], &["no node \"nobody\"", "leaf, ps, w0, w1"]);
    // A host is ready when the controller has accepted it.
    for station in ["leaf", "controller", "w0"] {
        name.lab("start", &[station]);
    }
    name.lab_refuses("start", &["leaf"], &["runs already"]);
    let after = ["leaf", "w0", "@controller"].map(|station| name.daemon(station));
    for ((before, _), (after, state)) in before.iter().zip(&after) {
        assert!(after.is_some() && after != before && state == "up");
    }
    name.reduces();
    name.down();
    name.is_gone();
}

#[test]
fn a_command_whose_processes_go_without_a_word_does_not_spoil_the_next_one() {
    let Some(name) = TestLab::new("word") else { return };
    name.up(TWO_WORKERS, &["--no-rates"]);
    let reduces = "timeout --signal KILL 2 tributary allreduce --size 1MiB --iterations 1000000; exit 0";
    for _ in 0..2 {
        let ended = name.run(&["sh", "-c", reduces]);
        assert!(ended.status.success(), "{}", stderr(&ended));
        name.reduces();
    }
    name.down();
    name.is_gone();
}

#[test]
fn links_are_cut_and_mended_and_a_switch_outlives_that_its_port_was_down() {
    let Some(name) = TestLab::new("cut") else { return };
    name.up(TWO_WORKERS, &["--no-rates"]);
    name.lab("cut", &["w0:leaf"]);
    name.lab("cut", &["leaf-w1", "--carrier"]);
    name.lab_refuses("cut", &["leaf-w0"], &["cut already"]);
    name.lab_refuses("cut", &["leaf-w2"], &["no link", "one of its links, leaf-ps, leaf-w0, leaf-w1"]);
    let cut = serde_json::json!([
        { "link": "leaf-w0", "carrier": false },
        { "link": "leaf-w1", "carrier": true },
    ]);
    assert_eq!(name.listed()["cut"], cut);
    name.lab("repair", &["leaf-w0"]);
    // The command has this earlier name, too.
    name.lab("mend", &["leaf-w1"]);
    name.lab_refuses("repair", &["leaf-w0"], &["not cut"]);
    assert_eq!(name.listed()["cut"], serde_json::json!([]));
    name.reduces();
    // Removing the lab also removes a link that is still cut.
    name.lab("cut", &["leaf-ps"]);
    name.down();
    name.is_gone();
}

#[test]
fn a_slow_worker_is_right_and_nothing_of_it_stays() {
    let Some(name) = TestLab::new("slow") else { return };
    name.up(TWO_WORKERS, &["--no-rates"]);
    name.lab("slow", &["w0", "3"]);
    name.lab("slow", &["w0", "2.5"]);
    assert_eq!(name.listed()["slow"], serde_json::json!([{ "node": "w0", "factor": 2.5 }]));
    name.reduces();
    name.lab("slow", &["w0", "1"]);
    assert_eq!(name.listed()["slow"], serde_json::json!([]));
    name.lab("slow", &["leaf", "2"]);
    name.lab("kill", &["leaf"]);
    name.down();
    name.is_gone();
    refused(&["lab", "slow", "w0", "0.5"], 2, &["bad factor 0.5", "1 (full speed) to 100"]);
    refused(&["lab", "slow", "--name", &name.0, "w0", "2"], 1, &["no lab"]);
}

#[test]
fn a_lab_for_one_command_meets_losses_and_goes() {
    let Some(name) = TestLab::new("lossy") else { return };
    let lab = ["lab", "run", THREE_TIERS, "--name", &name.0, "--no-rates", "--loss", "0.01", "--"];
    let command = ["tributary", "allreduce", "--json", "--check", "--size", "256KiB", "--iterations", "3"];
    let reports = reports(&tributary(&[&lab[..], &command].concat()));
    assert_eq!(reports.len(), 8);
    let again: u64 = reports.iter().map(|report| report["retransmissions"].as_u64().unwrap()).sum();
    assert!(again > 0, "30,000 frames, and one in 100 was lost");
    name.is_gone();
}

#[test]
fn agents_with_several_threads_reduce_right_over_lossy_links() {
    let Some(name) = TestLab::new("threads") else { return };
    name.up(TWO_WORKERS, &["--no-rates", "--loss", "0.01", "--threads", "4"]);
    // Each thread has a part of the larger elements, and the first has all of the smaller ones.
    let script = "tributary allreduce --json --check --size 1MiB --iterations 3 && \
                  exec tributary allreduce --check --size 4KiB >&2";
    let reduced = name.run(&["sh", "-c", script]);
    assert_eq!(reports(&reduced).len(), 2);
    let jobs = name.exec("controller", &["tributary", "jobs", "list", "--json"]);
    let jobs: Value = serde_json::from_slice(&jobs.stdout).unwrap();
    assert_eq!(jobs["jobs"][0]["threads"], 4);
    let too_many = ["tributary", "jobs", "create", "many", "--threads", "128", "--token-out", "many.token"];
    let refused = name.exec("controller", &too_many);
    assert!(stderr(&refused).contains("128 threads: use a power of two, 64 at most"), "{}", stderr(&refused));
    name.down();
    name.is_gone();
}

/// Otherwise the interface would drop the host's frames, and the job would stall.
#[test]
fn a_host_whose_interface_is_too_narrow_for_a_job_refuses_it_and_says_why() {
    let Some(name) = TestLab::new("narrow") else { return };
    name.up(TWO_WORKERS, &["--no-rates", "--mtu", "9000"]);
    let script = "ip link set $GLOO_SOCKET_IFNAME mtu 1500 && exec tributary allreduce --size 4KiB";
    let refused = name.run(&["sh", "-c", script]);
    assert_eq!(refused.status.code(), Some(1));
    let why = "interface carries packets of 1500 bytes, and the job's have up to 8296: raise its MTU";
    assert!(stderr(&refused).contains(why), "{}", stderr(&refused));
    name.down();
    name.is_gone();
}

/// Short probes pass such links. Without long probes, a job over them would stall.
#[test]
fn a_job_goes_round_links_that_swallow_its_packets_and_they_are_named() {
    let Some(name) = TestLab::new("swallow") else { return };
    name.up(TWO_SPINES, &["--no-rates"]);
    let set_mtu = |mtu: u16| {
        let each =
            format!("for port in $(ls /sys/class/net | grep spine0-); do ip link set $port mtu {mtu}; done");
        name.lab("exec", &["spine0", "--", "sh", "-c", &each]);
    };
    let doctor = || name.exec("controller", &["tributary", "doctor", "--json"]);
    set_mtu(1000);
    let words = "packets of 1128 bytes get lost on the cable between spine0 and leaf0";
    wait_until("the links are named", || {
        let found = String::from_utf8(doctor().stdout).unwrap();
        found.contains("cable-short-of-mtu") && found.contains(words)
    });
    let reduced = name.run(&["tributary", "allreduce", "--json", "--check", "--size", "64KiB"]);
    assert_eq!(reports(&reduced).len(), 8);
    let jobs = name.exec("controller", &["tributary", "jobs", "list", "--json"]);
    let jobs: Value = serde_json::from_slice(&jobs.stdout).unwrap();
    let switches = jobs["jobs"][0]["plan"]["switches"].to_string();
    assert!(switches.contains("spine1") && !switches.contains("spine0"), "{jobs}");
    set_mtu(1500);
    wait_until("the links are well again", || doctor().status.success());
    name.down();
    name.is_gone();
}

#[test]
fn a_command_that_fails_on_one_worker_fails_and_spoils_nothing() {
    let Some(name) = TestLab::new("fails") else { return };
    name.up(TWO_WORKERS, &["--no-rates"]);
    // The other process would wait forever for the missing member.
    let script = "test $TRIBUTARY_RANK = 0 || exit 3; exec tributary allreduce --size 4KiB";
    let failed = name.run(&["sh", "-c", script]);
    assert_eq!(failed.status.code(), Some(1));
    assert!(stderr(&failed).contains("w1 (exit status: 3)"), "{}", stderr(&failed));
    let next = name.run(&["tributary", "allreduce", "--json", "--check", "--size", "4KiB"]);
    assert_eq!(reports(&next).len(), 2);
    let said = name.run(&["sh", "-c", "echo $TRIBUTARY_RANK/$TRIBUTARY_WORLD_SIZE; echo aside >&2"]);
    let mut lines: Vec<_> = std::str::from_utf8(&said.stdout).unwrap().lines().collect();
    lines.sort_unstable();
    assert_eq!(lines, ["w0: 0/2", "w1: 1/2"]);
    assert!(stderr(&said).contains("w1: aside"), "{}", stderr(&said));
    // As with torchrun, the ranks find each other at the first rank's address on the data network.
    let script = "echo $RANK/$WORLD_SIZE $LOCAL_RANK/$LOCAL_WORLD_SIZE $MASTER_ADDR:$MASTER_PORT $GLOO_SOCKET_IFNAME \
                  $OMP_NUM_THREADS; \
                  exec ping -q -c 1 -W 10 $MASTER_ADDR";
    let said = name.run(&["sh", "-c", script]);
    assert!(said.status.success(), "{}", stderr(&said));
    let lines = std::str::from_utf8(&said.stdout).unwrap();
    let is_said = |line: &str| lines.lines().any(|said| said == line);
    assert!(is_said("w0: 0/2 0/1 10.0.0.2:29500 w0-eth1 1"), "{lines}");
    assert!(is_said("w1: 1/2 0/1 10.0.0.2:29500 w1-eth1 1"), "{lines}");
    name.down();
    name.is_gone();
}

#[test]
fn a_command_at_one_node_is_as_if_it_were_typed_there() {
    let Some(name) = TestLab::new("exec") else { return };
    name.up(TWO_WORKERS, &["--no-rates"]);
    let exec = |node: &str, command: &[&str], input: &str| {
        let mut child = Command::new(env!("CARGO_BIN_EXE_tributary"));
        child.args([&["lab", "exec", "--name", &name.0, node, "--"], command].concat()).current_dir(root());
        // Requests to the lab's controller do not use the certificates in the environment.
        child.env("TRIBUTARY_TLS_CA", "none.pem");
        child.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = child.spawn().unwrap();
        child.stdin.take().unwrap().write_all(input.as_bytes()).unwrap();
        child.wait_with_output().unwrap()
    };
    let script = "cat; echo $TRIBUTARY_RANK; ls /sys/class/net; echo aside >&2; exit 7";
    let said = exec("w1", &["sh", "-c", script], "typed\n");
    assert_eq!((said.status.code(), stderr(&said).as_str()), (Some(7), "aside\n"));
    assert_eq!(String::from_utf8(said.stdout).unwrap(), "typed\n1\nlo\nlost0\nmgmt0\nw1-eth1\n");
    // At any node, commands that need a controller use the lab's controller.
    for node in ["controller", "leaf"] {
        let jobs = exec(node, &["tributary", "jobs", "list", "--json"], "");
        assert!(jobs.status.success(), "{}", stderr(&jobs));
        assert!(String::from_utf8(jobs.stdout).unwrap().contains("\"lab\""));
    }
    refused(
        &["lab", "exec", "--name", &name.0, "nobody", "--", "true"],
        1,
        &["no node \"nobody\"", "w0, w1"],
    );
    refused(&["lab", "exec", "w0"], 2, &["COMMAND"]);
    for (program, status) in [("no-such-program", 127), ("/etc/passwd", 126)] {
        refused(&["lab", "exec", "--name", &name.0, "w0", "--", program], status, &["error: ", program]);
    }
    name.lab("down", &[]);
    name.is_gone();
}

#[test]
fn what_a_lab_logs_and_counts_is_shown() {
    let Some(name) = TestLab::new("shown") else { return };
    name.up(TWO_WORKERS, &["--no-rates"]);
    let clean = ["lab", "run", "--name", &name.0, "--no-prefix", "--"];
    let reduced = tributary(&[&clean[..], &["tributary", "allreduce", "--json", "--size", "64KiB"]].concat());
    let lines = String::from_utf8(reduced.stdout).unwrap();
    let hosts: BTreeSet<_> =
        lines.lines().map(|line| serde_json::from_str::<Value>(line).unwrap()["host"].to_string()).collect();
    assert_eq!(hosts, BTreeSet::from(["\"w0\"".to_owned(), "\"w1\"".to_owned()]));

    let counted = json(&["lab", "counters", "--name", &name.0, "--job", "lab", "--json"]);
    assert_eq!(counted["switches"][0]["name"], "leaf");
    assert!(counted["switches"][0]["jobs"]["lab"].is_object(), "{counted}");

    let logs = |arguments: &[&str]| {
        let logs = tributary(&[&["lab", "logs", "--name", &name.0], arguments].concat());
        assert!(logs.status.success(), "{}", stderr(&logs));
        String::from_utf8(logs.stdout).unwrap()
    };
    let all = logs(&[]);
    let daemons: BTreeSet<_> = all.lines().map(|line| line.split_once(": ").unwrap().0).collect();
    assert_eq!(daemons, BTreeSet::from(["@controller", "leaf", "ps", "w0", "w1"]));
    // Threads of one daemon may overtake each other between reading the clock and logging, so such lines
    // stay together.
    let mut latest = BTreeMap::new();
    let times = all.lines().map(|line| {
        let (daemon, said) = line.split_once(": ").unwrap();
        let time = said.split_once(' ').unwrap().0;
        let latest = latest.entry(daemon).or_insert(time);
        *latest = time.max(latest);
        *latest
    });
    assert!(times.is_sorted(), "{all}");
    let own: String =
        all.lines().filter_map(|line| line.strip_prefix("leaf: ")).map(|line| format!("{line}\n")).collect();
    assert_eq!(logs(&["leaf"]), own);
    name.lab_refuses("logs", &["nobody"], &["no node \"nobody\""]);

    let mut follow = Command::new(env!("CARGO_BIN_EXE_tributary"));
    let mut follow = follow
        .args(["lab", "logs", "leaf", "--follow", "--name", &name.0])
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut followed = BufReader::new(follow.stdout.take().unwrap()).lines().map(Result::unwrap);
    let seen: String = followed.by_ref().take(own.lines().count()).map(|line| line + "\n").collect();
    assert_eq!(seen, own);
    name.lab("kill", &["leaf"]);
    name.lab("start", &["leaf"]);
    assert!(followed.next().is_some(), "the switch has said something since then");
    name.down();
    assert!(follow.wait().unwrap().success());
    name.is_gone();
}

#[test]
fn an_ordinary_user_has_labs_too() {
    let Some(user) = User::new(&[TRIBUTARY]) else { return };
    user.does(&["up", "two-workers.toml", "--name", "theirs", "--no-rates"]);
    assert_eq!(user.holders(), 1);
    let listed: Value = serde_json::from_str(&user.does(&["list", "--json"])).unwrap();
    assert_eq!((&listed["labs"][0]["name"], &listed["labs"][0]["state"]), (&"theirs".into(), &"up".into()));
    assert_eq!(listed["labs"].as_array().unwrap().len(), 1, "root's are not theirs");
    let reduce = ["--", "tributary", "allreduce", "--json", "--check", "--size", "64KiB"];
    let reduced = user.lab(&[&["run", "--name", "theirs"], &reduce[..]].concat());
    assert_eq!(reports(&reduced).len(), 2);
    // Operations on a lab need the privileges, too.
    user.does(&["kill", "w0", "--name", "theirs"]);
    user.does(&["start", "w0", "--name", "theirs"]);
    user.does(&["cut", "leaf-w1", "--name", "theirs"]);
    user.does(&["repair", "leaf-w1", "--name", "theirs"]);
    let whereabouts = user.does(&["exec", "w0", "--name", "theirs", "--", "pwd"]);
    assert_eq!(whereabouts.trim_end(), user.folder().to_str().unwrap());
    let another =
        user.does(&["run", "two-workers.toml", "--name", "another", "--no-rates", "--", "echo", "here"]);
    assert_eq!(another.lines().count(), 2);
    assert_eq!(user.holders(), 1, "of the lab that is still up");
    user.does(&["down", "theirs"]);
    assert_eq!(user.holders(), 0);
    assert_eq!(labs::traces("theirs"), Vec::<String>::new());

    // Binding a socket is the only way to find a free port.
    let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port().to_string();
    let show = ["up", "two-workers.toml", "--no-rates", "--page", &port, "--name"];
    user.does(&[&show[..], &["shown"]].concat());
    let mut browser = TcpStream::connect(format!("127.0.0.1:{port}")).unwrap();
    browser.write_all(b"GET / HTTP/1.0\r\n\r\n").unwrap();
    let mut page = String::new();
    browser.read_to_string(&mut page).unwrap();
    assert!(page.starts_with("HTTP/1.0 200"), "{page}");
    let again = user.lab(&[&show[..], &["again"]].concat());
    assert!(
        again.status.code() == Some(1) && stderr(&again).contains("choose another port"),
        "{}",
        stderr(&again)
    );
    user.does(&["down", "shown"]);
    assert_eq!(user.holders(), 0);
    assert!(user.does(&["list"]).contains("no labs of this user"));
}

#[test]
fn a_user_who_may_not_make_namespaces_is_told_why() {
    // In a separate user namespace, this process can forbid further user namespaces and drop its own
    // privileges.
    let script = "echo 0 >/proc/sys/user/max_user_namespaces && exec setpriv --bounding-set=-all --inh-caps=-all \"$0\" lab list";
    let folder = tempfile::tempdir().unwrap();
    let refused = Command::new("unshare")
        .args(["--user", "--map-root-user", "sh", "-c", script, env!("CARGO_BIN_EXE_tributary")])
        .env("XDG_RUNTIME_DIR", folder.path())
        .output();
    let refused = refused.map(|output| (output.status.code(), stderr(&output))).unwrap_or_default();
    if refused.0.is_none() || refused.1.contains("unshare: ") || refused.1.contains("sh: ") {
        return eprintln!(
            "SKIPPED: no user namespace can be made here to forbid others in it: {}",
            refused.1
        );
    }
    assert_eq!(refused.0, Some(1), "{}", refused.1);
    assert!(refused.1.contains("sysctl user.max_user_namespaces="), "{}", refused.1);
}

#[test]
fn a_killed_up_can_be_taken_down_and_a_stopped_one_has_done_it() {
    let Some(name) = TestLab::new("killed") else { return };
    let mut up = TRIBUTARY.start(&["lab", "up", THREE_TIERS, "--name", &name.0]);
    // The network exists, and the first daemons are starting.
    let log = format!("/run/tributary/lab/{}/root.log", name.0);
    wait_until("a daemon has a log", || fs::exists(&log).unwrap());
    up.kill().unwrap();
    up.wait().unwrap();
    refused(&["lab", "run", "--name", &name.0, "--", "true"], 1, &["never finished", "lab down"]);
    name.down();
    name.is_gone();

    let mut run = TRIBUTARY.start(&["lab", "run", TWO_WORKERS, "--name", &name.0, "--", "sleep", "1000"]);
    name.wait_until_up();
    Command::new("kill").args(["-INT", &run.id().to_string()]).status().unwrap();
    assert_eq!(run.wait().unwrap().code(), Some(1));
    name.is_gone();
}

#[test]
fn options_of_a_network_need_a_topology() {
    refused(&["lab", "run", "--loss", "0.1", "--", "true"], 2, &["TOPOLOGY"]);
    refused(&["lab", "up", "topologies/none.toml"], 1, &["topologies/none.toml"]);
}
