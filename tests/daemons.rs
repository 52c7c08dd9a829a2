//! Tests of the daemons in network namespaces with veth interfaces, as on real hosts. They need root;
//! without root, they print that they are skipped.

use std::fs;
use std::io::{BufRead, BufReader};
use std::process::{Command, Output, Stdio};

use serde_json::Value;
use tributary_lab::CONTROLLER;
use tributary_testkit::binary::{assert_refused, left_shared_memory, stderr};
use tributary_testkit::network::{Daemon, METRICS, Network};

const TOPOLOGY: &str = "two-workers.toml";

/// Checks that every rank checked every sum, and that all sums were correct.
fn assert_all_right(outputs: &[Output]) -> Vec<Value> {
    let report = |output: &Output| {
        assert!(output.status.success(), "{}", stderr(output));
        let report: Value = serde_json::from_slice(&output.stdout).unwrap();
        assert_eq!(report["checked"], true);
        report
    };
    outputs.iter().map(report).collect()
}

fn assert_clean_end(daemons: impl IntoIterator<Item = Daemon>) {
    for daemon in daemons {
        let (status, log) = daemon.terminate();
        assert_eq!(status.code(), Some(0), "{log}");
    }
}

/// Ends a job as its owner does, and checks that its server then ends by itself.
fn end_job(network: &Network, job: &str, server: Daemon) {
    network.ask(&["jobs", "end", job, "--token-file", &network.token(job)]);
    let (status, log) = server.end();
    assert_eq!(status.code(), Some(0), "{log}");
}

#[test]
fn an_all_reduce_over_real_interfaces_is_right_and_leaves_nothing_behind() {
    let Some(network) = Network::up("reduce", TOPOLOGY) else { return };
    // The second run fails if the first one has left anything behind.
    for run in 0..2 {
        let switches = network.start_switches();
        let controller = Daemon::start(network.controller_command());
        let agents = network.start_agents();
        let job = format!("job{run}");
        network.create_job(&job);
        let server = Daemon::start(network.server_command(&job));
        for dtype in ["f32", "i32", "f16", "bf16"] {
            let outputs =
                network.allreduce(&job, &["--size", "300KiB", "--dtype", dtype, "--iterations", "3"]);
            let reports = assert_all_right(&outputs);
            let ranks: Vec<_> = reports.iter().map(|report| report["rank"].as_u64().unwrap()).collect();
            assert_eq!(ranks, [0, 1]);
        }
        let parts = ["--size", "300KiB", "--tensors", "7", "--in-flight", "3", "--iterations", "3"];
        for report in assert_all_right(&network.allreduce(&job, &parts)) {
            assert_eq!((&report["tensors"], &report["in_flight"]), (&7.into(), &3.into()));
        }
        assert_eq!(network.job(&job).0, "running");
        let counters = network.ask(&["counters", "--job", &job]);
        let received = &counters["switches"][0]["jobs"][&job]["received"]["packets"];
        assert!(received.as_u64().unwrap() > 0, "{counters}");
        end_job(&network, &job, server);
        assert_clean_end(agents);
        assert_clean_end([controller]);
        assert_clean_end(switches);
        assert!(network.workers().iter().all(|host| !network.socket(host).exists()));
        assert_eq!(left_shared_memory(), Vec::<String>::new());
    }
}

#[test]
fn whoever_goes_is_noticed_and_the_others_go_on() {
    let Some(network) = Network::up("goes", TOPOLOGY) else { return };
    let _switches = network.start_switches();
    let _controller = Daemon::start(network.controller_command());
    let mut agents = network.start_agents();

    network.create_rigid_job("rigid");
    let (server, mut clients) = network.start_endless("rigid");
    clients.remove(0).kill();
    let reason = network.wait_for_job("rigid", "failed");
    assert_eq!(reason, "w0 is gone");
    assert_failed(clients.into_iter().chain([server]), "w0 is gone");

    let (server, mut clients) = network.start_endless_job("process-killed");
    clients.remove(0).kill();
    network.wait_for_change("process-killed", "w0 is gone");
    end_job(&network, "process-killed", server);
    assert_failed(clients, "process-killed");

    let (server, mut clients) = network.start_endless_job("agent-stopped");
    assert_clean_end(agents.pop());
    network.wait_for_change("agent-stopped", "w1 is gone");
    assert_failed(clients.pop(), "agent");
    agents.push(Daemon::start(network.agent_command("w1")));
    end_job(&network, "agent-stopped", server);
    assert_failed(clients, "agent-stopped");

    // A worker's host replaces the server, and the switch continues to aggregate.
    let (server, clients) = network.start_endless_job("server-stopped");
    assert_clean_end([server]);
    network.wait_for_change("server-stopped", "server ps is gone");
    let before = network.progress("server-stopped");
    network.wait_for_progress("server-stopped", before + 1000);
    network.ask(&["jobs", "end", "server-stopped", "--token-file", &network.token("server-stopped")]);
    assert_failed(clients, "server-stopped");

    // The agents still work after all these failures.
    network.create_job("last");
    let _server = Daemon::start(network.server_command("last"));
    assert_all_right(&network.allreduce("last", &["--size", "4KiB", "--iterations", "2"]));
}

#[test]
fn a_job_without_slots_waits_for_them_and_says_so() {
    let Some(network) = Network::up("queue", TOPOLOGY) else { return };
    let _switches = network.start_switches();
    let mut quota = network.controller_command();
    quota.args(["--slots-per-creator", "4096", "--jobs-per-creator", "2"]);
    let controller = Daemon::start(quota);
    let create = |job: &str, options: &[&str]| {
        let all = ["jobs", "create", job, "--window", "4096", "--token-out", &network.token(job)];
        let mut command = network.command(CONTROLLER, &all);
        command.args(network.controller()).args(options).stdout(Stdio::piped());
        command
    };
    assert!(create("first", &[]).output().unwrap().status.success());
    assert_refused(
        &create("now", &["--wait", "0"]).output().unwrap(),
        &["no switch has slots", "leaf: 4096"],
    );
    let mut second = Daemon::spawn(create("second", &[]));
    second.wait_for_line(
        "job second waits for slots (leaf: 4096 slots needed in one block; 0 of 4096 are free",
    );
    let jobs = network.ask(&["jobs", "list"]);
    assert_eq!((&jobs["jobs"][1]["state"], &jobs["jobs"][1]["creator"]), (&"queued".into(), &"local".into()));
    assert!(jobs["jobs"][1]["waiting_for"][0].as_str().unwrap().starts_with("slots (leaf: "), "{jobs}");
    assert_refused(
        &create("third", &[]).output().unwrap(),
        &["\"local\" has 2 jobs", "end one of them first"],
    );
    network.ask(&["jobs", "end", "first", "--token-file", &network.token("first")]);
    let (status, log) = second.end();
    assert!(status.success(), "{log}");
    assert_eq!(network.job("second").0, "created");

    // When the controller stops, a waiting client reports the controller's address, and that the job stays
    // in the queue.
    let mut third = Daemon::spawn(create("third", &[]));
    third.wait_for_line("job third waits for slots");
    let (status, log) = controller.terminate();
    assert!(status.success(), "{log}");
    let (status, said) = third.end();
    let [_, address] = network.controller();
    let words = [&address, &network.token("third"), "in its queue"];
    assert!(status.code() == Some(1) && words.iter().all(|word| said.contains(*word)), "{said}");
    let _controller = Daemon::start(network.controller_command());
    assert_eq!(network.job("third").0, "queued");
}

#[test]
fn what_cannot_work_is_refused_clearly() {
    let Some(network) = Network::up("refuse", TOPOLOGY) else { return };
    let mut agent = Daemon::spawn(network.agent_command("w0"));
    agent.wait_for_line("waiting for the controller");
    fs::write(network.token("nobody"), "00").unwrap();
    let reduce = |job: &str| network.allreduce_command("w0", job, &[]).output().unwrap();
    assert_refused(&reduce("nobody"), &["no controller at"]);

    // Without its switch, the controller continues, and every view reports the unreachable switch.
    let _controller = Daemon::start(network.controller_command());
    network.wait_for_switch("leaf", "away");
    assert_eq!(network.ask(&["jobs", "list"])["switches_away"][0]["name"], "leaf");
    let jobs = network.command(CONTROLLER, &["jobs", "list"]).args(network.controller()).output().unwrap();
    let text = String::from_utf8(jobs.stdout).unwrap();
    assert!(text.contains("switch leaf has been unreachable for"), "{text}");
    let create = ["jobs", "create", "early", "--wait", "0", "--token-out", &network.token("early")];
    let create = network.command(CONTROLLER, &create).args(network.controller()).output().unwrap();
    assert_refused(&create, &["cannot reach", "dead at the moment: switch leaf"]);
    let _switches = network.start_switches();
    network.wait_for_switch("leaf", "up");
    assert_refused(&reduce("nobody"), &["nobody"]);
    assert_refused(&network.controller_command().output().unwrap(), &["cannot listen", "29810"]);
    network.create_job("real");
    let again = ["jobs", "create", "again", "--token-out", &network.token("real")];
    let again = network.command(CONTROLLER, &again).args(network.controller()).output().unwrap();
    assert_refused(&again, &["real.token exists already", "--overwrite"]);
    fs::write(network.token("real"), "00ff").unwrap();
    assert_refused(&reduce("real"), &["token", "real"]);
    fs::write(network.token("real"), "not hexadecimal").unwrap();
    assert_refused(&reduce("real"), &["real.token", "no token"]);

    assert_refused(&network.agent_command("w0").output().unwrap(), &["another agent listens on", "w0.sock"]);
    agent.kill();
    assert!(network.socket("w0").exists(), "a killed agent cannot clean up");
    assert_refused(&reduce("real"), &["no token"]);
    let again = Daemon::start(network.agent_command("w0"));
    assert_clean_end([again]);
    assert!(!network.socket("w0").exists());
    let no_agent = network.allreduce_command("w0", "nobody", &[]).output().unwrap();
    assert_refused(&no_agent, &["no agent at", "w0.sock"]);

    let mut no_interface = network.command("w0", &["agent", "--host", "w0", "--interface", "eth9"]);
    no_interface.args(network.controller()).arg("--socket").arg(network.socket("w0"));
    assert_refused(&no_interface.output().unwrap(), &["no network interface eth9"]);
}

#[test]
fn a_tree_of_seven_switches_sends_the_server_each_value_once() {
    let Some(network) = Network::up("tree", "three-tier-8.toml") else { return };
    let _switches = network.start_switches();
    let _controller = Daemon::start(network.controller_command());
    let _agents = network.start_agents();
    let plan = network.create_job("tree");
    assert_eq!(plan["plan"]["server_fan_in"], 1);
    let _server = Daemon::start(network.server_command("tree"));
    let reports = assert_all_right(&network.allreduce("tree", &["--size", "1MiB", "--iterations", "2"]));
    assert_eq!(reports.len(), 8);

    let counters = network.ask(&["counters", "--switch", "root"]);
    let root = &counters["switches"][0];
    let bytes = |kind: &str| root["ports"]["1"][kind]["bytes"].as_f64().unwrap() / f64::from(2 << 20);
    // The counts are lower bounds, because a slow machine retransmits slices. Each of the switch's two
    // children still counts once for each slice.
    assert!(bytes("egress") >= 1.0 && bytes("ingress") >= 1.0, "{counters}");
    let packets = |reason: &str| root["jobs"]["tree"][reason]["packets"].as_u64().unwrap();
    assert!(packets("completed") >= 2 * 1024, "{counters}");
    assert_eq!(packets("contributed"), 2 * packets("completed"), "{counters}");
}

#[test]
fn a_fabric_aggregates_quantised_gradients() {
    let Some(network) = Network::up("levels", TOPOLOGY) else { return };
    let _switches = network.start_switches();
    let _controller = Daemon::start(network.controller_command());
    let _agents = network.start_agents();
    network.create_job("levels");
    let server = Daemon::start(network.server_command("levels"));
    let size = ["--size", "1MiB", "--iterations", "3"];
    let plain = assert_all_right(&network.allreduce("levels", &size));
    for feedback in [&[][..], &["--feedback"]] {
        let codec = [&size[..], &["--codec", "casq-4-shared"], feedback].concat();
        let quantised = assert_all_right(&network.allreduce("levels", &codec));
        let number = |report: &Value, key: &str| report[key].as_f64().unwrap();
        for (plain, quantised) in plain.iter().zip(&quantised) {
            // The levels of two workers need 5 bits, so one integer carries six values. The sketch has 8 KiB.
            assert!(number(plain, "bytes_sent") > 5.5 * number(quantised, "bytes_sent"), "{quantised}");
            assert!(number(plain, "slices") > 5.0 * number(quantised, "slices"), "{plain} {quantised}");
            let error = number(quantised, "error_of_sum");
            assert!((0.001..0.2).contains(&error), "{quantised}");
            assert!(plain["error_of_sum"].is_null());
        }
    }
    let refused = network.allreduce("levels", &["--codec", "casq-4-shared", "--dtype", "i32"]);
    assert!(refused.iter().all(|output| output.status.code() == Some(2)), "{}", stderr(&refused[0]));
    end_job(&network, "levels", server);
}

#[test]
fn what_goes_on_can_be_watched() {
    let Some(network) = Network::up("watch", TOPOLOGY) else { return };
    let with_metrics = |mut command: Command| {
        command.args(METRICS);
        Daemon::start(command)
    };
    let _switch = with_metrics(network.switch_command("leaf"));
    let _controller = with_metrics(network.controller_command());
    let _agents: Vec<_> =
        network.workers().iter().map(|host| with_metrics(network.agent_command(host))).collect();
    network.create_job("seen");
    let _server = with_metrics(network.server_command("seen"));
    let mut watch = network.command(CONTROLLER, &["counters", "--watch", "--json", "--job", "seen"]);
    watch.args(network.controller()).stdout(Stdio::piped());
    let mut watch = watch.spawn().unwrap();
    let mut looks = BufReader::new(watch.stdout.take().unwrap()).lines();
    let mut look = || serde_json::from_str::<Value>(&looks.next().unwrap().unwrap()).unwrap();
    assert!(look().get("per_second").is_none());
    // The operation has 64 slices of 256 values, with one iteration of MAX and SUM slices.
    assert_all_right(&network.allreduce("seen", &["--size", "64KiB", "--iterations", "1"]));
    // Readings are one second apart, and one of them shows the growth.
    while look()["per_second"][0]["jobs"]["seen"]["completed"]["packets"].as_f64().unwrap() == 0.0 {}
    watch.kill().unwrap();
    watch.wait().unwrap();

    let at_least = |station: &str, sample: &str, least: f64| {
        let value = network.metric(station, sample);
        assert!(value >= least, "{sample} is {value} at {station}");
    };
    assert_eq!(network.metric(CONTROLLER, r#"tributary_jobs{state="running"}"#), 1.0);
    assert_eq!(network.metric(CONTROLLER, r#"tributary_switch_up{switch="leaf"}"#), 1.0);
    let taken = r#"tributary_switch_slots_taken{switch="leaf"}"#;
    at_least(CONTROLLER, taken, 1.0);
    at_least(CONTROLLER, r#"tributary_switch_slots{switch="leaf"}"#, network.metric(CONTROLLER, taken));
    let completed = r#"tributary_job_packets_total{switch="leaf",job="seen",reason="completed"}"#;
    at_least(CONTROLLER, completed, 65.0);
    at_least("w1", r#"tributary_agent_results_total{job="seen",rank="1"}"#, 65.0);
    at_least("ps", r#"tributary_server_slices_completed_total{job="seen"}"#, 65.0);
    let sent =
        r#"tributary_interface_frames_total{switch="leaf",port="1",interface="leaf-eth1",direction="sent"}"#;
    at_least("leaf", sent, 65.0);
    let jobs = network.ask(&["jobs", "list"]);
    assert!(jobs["jobs"][0]["slices_completed"].as_u64().unwrap() >= 65, "{jobs}");
}

/// Checks that the daemons have failed, and that the log of one of them contains `words`.
fn assert_failed(daemons: impl IntoIterator<Item = Daemon>, words: &str) {
    let mut said = String::new();
    for daemon in daemons {
        let (status, log) = daemon.end();
        assert_eq!(status.code(), Some(1), "{log}");
        said += &log;
    }
    assert!(said.contains(words), "{words:?} is not in: {said}");
}

#[test]
fn each_daemon_ends_cleanly_in_the_middle_of_all_reduces_and_works_again() {
    let Some(network) = Network::up("sigterm", TOPOLOGY) else { return };
    let mut switches = network.start_switches();
    let controller = Daemon::start(network.controller_command());
    let mut agents = network.start_agents();

    // Members of a job continue while the controller is down, and the next controller continues the job.
    let (server, clients) = network.start_endless_job("controller-ends");
    let before = network.progress("controller-ends");
    assert_clean_end([controller]);
    let controller = Daemon::start(network.controller_command());
    assert_eq!(network.job("controller-ends").0, "running");
    network.wait_for_progress("controller-ends", before + 1000);
    end_job(&network, "controller-ends", server);
    assert_failed(clients, "controller-ends");

    let (server, mut clients) = network.start_endless_job("agent-ends");
    assert_clean_end(agents.pop());
    assert!(!network.socket("w1").exists());
    network.wait_for_change("agent-ends", "w1 is gone");
    assert_failed(clients.pop(), "agent");
    agents.push(Daemon::start(network.agent_command("w1")));
    end_job(&network, "agent-ends", server);
    assert_failed(clients, "agent-ends");

    // A switch has no state that cannot be restored. The job waits for the next switch and continues.
    let (server, clients) = network.start_endless_job("switch-ends");
    assert_clean_end(switches.pop());
    switches.push(Daemon::start(network.switch_command("leaf")));
    let before = network.progress("switch-ends");
    network.wait_for_progress("switch-ends", before + 1000);
    end_job(&network, "switch-ends", server);
    assert_failed(clients, "switch-ends");

    network.create_job("last");
    let server = Daemon::start(network.server_command("last"));
    assert_all_right(&network.allreduce("last", &["--size", "64KiB", "--iterations", "2"]));
    end_job(&network, "last", server);
    assert_clean_end(agents.into_iter().chain([controller]).chain(switches));
    assert!(network.workers().iter().all(|host| !network.socket(host).exists()));
    assert_eq!(left_shared_memory(), Vec::<String>::new());
}

#[test]
fn no_member_notices_that_the_controller_crashes() {
    let Some(network) = Network::up("crash", TOPOLOGY) else { return };
    let switches = network.start_switches();
    let controller = Daemon::start(network.controller_command());
    let agents = network.start_agents();
    let (server, clients) = network.start_endless_job("survives");
    let before = network.job_id("survives");
    controller.kill();
    let controller = Daemon::start(network.controller_command());
    let progress = network.progress("survives");
    network.wait_for_progress("survives", progress + 1000);
    assert_eq!((network.job("survives").0.as_str(), network.job_id("survives")), ("running", before));
    end_job(&network, "survives", server);
    assert_failed(clients, "survives");

    network.create_job("next");
    let server = Daemon::start(network.server_command("next"));
    assert_all_right(&network.allreduce("next", &["--size", "64KiB", "--iterations", "2"]));
    end_job(&network, "next", server);
    assert_clean_end(agents.into_iter().chain([controller]).chain(switches));
}
