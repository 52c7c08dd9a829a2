//! Tests of files that running daemons read again. They need root; without root, they print that they
//! are skipped.

use std::fs;

use serde_json::Value;
use tributary_lab::CONTROLLER;
use tributary_testkit::binary::stderr;
use tributary_testkit::certificates::{Certificates, with};
use tributary_testkit::network::{Daemon, Network};
use tributary_testkit::root;

const TOPOLOGY: &str = "two-workers.toml";

/// Starts a job whose workers reduce until a signal stops them, and waits for its first progress.
fn start_endless(network: &Network, job: &str) -> Vec<Daemon> {
    let options = ["--size", "64KiB", "--iterations", "1000000"];
    let client = |host: &String| Daemon::spawn(network.allreduce_command(host, job, &options));
    network.workers().iter().map(client).collect()
}

#[test]
fn a_controller_takes_what_it_can_of_another_topology_and_no_job_notices() {
    let Some(network) = Network::up("retopo", TOPOLOGY) else { return };
    let file = network.file("topology.toml");
    let text = fs::read_to_string(root().join("topologies").join(TOPOLOGY)).unwrap();
    fs::write(&file, &text).unwrap();
    let _switches = network.start_switches();
    let mut controller = Daemon::start(network.controller_command_with(&file));
    let _agents = network.start_agents();
    network.create_job("lives");
    let _server = Daemon::start(network.server_command("lives"));
    let _clients = start_endless(&network, "lives");
    network.wait_for_progress("lives", 1);
    let before = network.job_id("lives");

    let more = format!(
        "{text}\n[[host]]\nname = \"w2\"\nrole = \"worker\"\n[[link]]\nends = [\"leaf\", \"w2\"]\n\
         [[switch]]\nname = \"spine\"\nprogrammable = false\n[[link]]\nends = [\"leaf\", \"spine\"]\n"
    );
    fs::write(&file, more).unwrap();
    controller.signal("-HUP");
    controller.wait_for_line("host w2");
    controller.wait_for_line("switch spine is new");
    controller.wait_for_line("the topology was read again");
    // A new job has the new worker; the running job continues unchanged.
    let plan = network.create_job("larger");
    assert_eq!(plan["plan"]["workers"], Value::from(vec!["w0", "w1", "w2"]));
    let progress = network.progress("lives");
    network.wait_for_progress("lives", progress + 1000);
    assert_eq!((network.job("lives").0.as_str(), network.job_id("lives")), ("running", before));

    fs::write(&file, "name = 7").unwrap();
    controller.signal("-HUP");
    controller.wait_for_line("the topology is unchanged");
    network.wait_for_progress("lives", network.progress("lives") + 1000);
}

#[test]
fn renewed_certificates_hold_without_a_restart() {
    let Some(network) = Network::up("recert", TOPOLOGY) else { return };
    let certificates = Certificates::issue(&network, "certs");
    certificates.renew(&network, 3);
    let operator = certificates.of("operator");
    let ask = |arguments: &[&str]| {
        let mut command = network.command(CONTROLLER, arguments);
        command.args(network.controller()).args(&operator).arg("--json").output().unwrap()
    };
    let expiring = || {
        let output = ask(&["doctor", "--patience", "3600"]);
        let told: Value =
            serde_json::from_slice(&output.stdout).unwrap_or_else(|_| panic!("{}", stderr(&output)));
        let findings = told["findings"].as_array().unwrap().iter();
        findings.filter(|finding| finding["code"] == "certificate-expires").count()
    };
    let _switches = network.start_switches();
    let mut controller = Daemon::start(with(network.controller_command(), &certificates.controller()));
    let agent = |host: &String| Daemon::start(with(network.agent_command(host), &certificates.of(host)));
    let mut agents: Vec<_> = network.workers().iter().map(agent).collect();
    assert!(ask(&["jobs", "create", "job", "--token-out", &network.token("job")]).status.success());
    let mut server = Daemon::start(with(network.server_command("job"), &certificates.of("ps")));
    // These are the certificates of the operator, the controller, and the three hosts.
    while expiring() != 5 {}

    certificates.renew(&network, 100);
    let daemons = || agents.iter().chain([&controller, &server]);
    daemons().for_each(|daemon| daemon.signal("-HUP"));
    for daemon in agents.iter_mut().chain([&mut controller, &mut server]) {
        daemon.wait_for_line("certificates were read again");
    }
    while expiring() != 0 {}
    let reduced = network.allreduce("job", &["--size", "64KiB", "--iterations", "2"]);
    assert!(reduced.iter().all(|output| output.status.success()), "{}", stderr(&reduced[0]));

    // The log reports certificates that every peer would reject, and the daemons do not load them: another
    // host's certificate, and on the controller a host's certificate.
    let replace = |to: &[String; 6], from: &[String; 6]| {
        for file in [3, 5] {
            fs::copy(&from[file], &to[file]).unwrap();
        }
    };
    replace(&certificates.of("w0"), &certificates.of("w1"));
    agents[0].signal("-HUP");
    agents[0].wait_for_line(r#"is for "w1", not for host "w0""#);
    let [cert, cert_file, key, key_file, ..] = certificates.controller();
    replace(&["".into(), "".into(), cert, cert_file, key, key_file], &certificates.of("w1"));
    controller.signal("-HUP");
    controller.wait_for_line("controller.crt is not for servers");
    assert!(ask(&["jobs", "list"]).status.success());

    // Files that cannot be used are reported, and change nothing.
    fs::write(&operator[5], "no key").unwrap();
    fs::write(&certificates.controller()[3], "no key").unwrap();
    controller.signal("-HUP");
    controller.wait_for_line("certificates are unchanged");
    let worker = with(network.command(CONTROLLER, &["jobs", "list"]), &certificates.of("w0"));
    let listed = with(worker, &network.controller()).output().unwrap();
    assert!(listed.status.success(), "{}", stderr(&listed));
}
