//! Tests of the parameter server over the fabric, where switches aggregate the synchronous group's
//! gradients. They need root; without root, they print that they are skipped.

use std::fs;
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;
use tributary_testkit::binary::stderr;
use tributary_testkit::certificates::{Certificates, with};
use tributary_testkit::network::{Daemon, Network};

const TOPOLOGY: &str = "plain-middle-4.toml";
const PATIENCE: Duration = Duration::from_secs(120);
const JOB: &str =
    "name = \"digits\"\nworkers = 3\npolicy = \"a2s\"\nepoch-iterations = 10\nlearning-rate = 0.1\n";
/// The workers: host, seconds per step, number of steps. Two fast workers are under the same leaf, and
/// the second of them hands in each layer separately. A slow worker is under another leaf.
const WORKERS: [(&str, &str, u64); 3] = [("w0", "0.02", 400), ("w1", "0.02", 400), ("w2", "0.1", 80)];
const ROUNDS: &str = "tributary_ps_fabric_rounds_total{job=\"digits\"}";
const FALLBACKS: &str = "tributary_ps_fabric_fallbacks_total{job=\"digits\"}";

fn start_worker(network: &Network, rank: usize, server: &str) -> Child {
    let (host, step_time, iterations) = WORKERS[rank];
    let mut command =
        network.command(host, &["ps", "worker", "--json", "--job", "digits", "--server", server]);
    command.args(["--worker", &rank.to_string(), "--workers", &WORKERS.len().to_string()]);
    command.args(["--iterations", &iterations.to_string(), "--step-time", step_time]);
    command.arg("--agent").arg(network.socket(host));
    if rank == 1 {
        command.arg("--by-layer");
    }
    command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
}

/// The connections' security: plain text, or certificates.
struct Trust(Option<Certificates>);

impl Trust {
    fn controller(&self) -> Vec<String> {
        self.0.iter().flat_map(Certificates::controller).collect()
    }

    fn of(&self, name: &str) -> Vec<String> {
        self.0.iter().flat_map(|certificates| certificates.of(name)).collect()
    }

    /// Runs a command at the controller with an operator's certificate.
    fn ask(&self, network: &Network, arguments: &[&str]) -> Value {
        let operator = self.of("operator");
        let options = operator.iter().map(String::as_str);
        network.ask(&arguments.iter().copied().chain(options).collect::<Vec<_>>())
    }

    /// Returns the number of complete sums of a group's job that leaf0 has counted.
    fn aggregated(&self, network: &Network) -> Option<u64> {
        let counters = self.ask(network, &["counters", "--switch", "leaf0"]);
        let jobs = counters["switches"][0]["jobs"].as_object()?;
        let (_, counts) = jobs.iter().find(|(name, _)| name.starts_with("digits."))?;
        counts["completed"]["packets"].as_u64()
    }
}

/// Trains with the switches, agents and a parameter server of `network`, and checks that switches
/// aggregate.
fn train(network: &Network, trust: &Trust) {
    let _switches = network.start_switches();
    let _controller = Daemon::start(with(network.controller_command(), &trust.controller()));
    let agent = |host: &String| Daemon::start(with(network.agent_command(host), &trust.of(host)));
    let _agents: Vec<_> = network.workers().iter().map(agent).collect();
    let job_file = network.file("digits.toml");
    fs::write(&job_file, JOB).unwrap();
    let (command, address) = network.parameter_server_command(&job_file);
    let server = Daemon::start(with(command, &trust.of("ps")));
    let workers: Vec<_> = (0..WORKERS.len()).map(|rank| start_worker(network, rank, &address)).collect();

    let deadline = Instant::now() + PATIENCE;
    while trust.aggregated(network).is_none_or(|completed| completed == 0) {
        assert!(Instant::now() < deadline, "no switch has aggregated anything");
    }
    for (worker, (.., iterations)) in workers.into_iter().zip(WORKERS) {
        let output = worker.wait_with_output().unwrap();
        assert!(output.status.success(), "{}", stderr(&output));
        let report: Value = serde_json::from_slice(&output.stdout).unwrap();
        assert_eq!(report["iterations"], iterations);
        // Guessing would reach 0.1. The order of gradients, and thus the accuracy, depends on the machine.
        assert!(report["accuracy"].as_f64().unwrap() > 0.3, "{report}");
    }
    let (rounds, fallbacks) = (network.metric("ps", ROUNDS), network.metric("ps", FALLBACKS));
    // On a very slow machine, all sums come too late for the server.
    assert!(rounds + fallbacks > 0.0, "no update was to come by the fabric");

    let (status, log) = server.terminate();
    assert_eq!(status.code(), Some(0), "{log}");
    let jobs = trust.ask(network, &["jobs", "list"]);
    let groups: Vec<_> = jobs["jobs"].as_array().unwrap().iter().collect();
    assert!(!groups.is_empty());
    for group in groups {
        assert!(group["job"].as_str().unwrap().starts_with("digits."), "{group}");
        assert_eq!(group["state"], "ended", "{group}");
    }
}

#[test]
fn switches_aggregate_the_synchronous_groups_gradients() {
    let Some(network) = Network::up("psfabric", TOPOLOGY) else { return };
    train(&network, &Trust(None));
}

#[test]
fn they_do_so_where_everyone_shows_certificates() {
    let Some(network) = Network::up("psfabtls", TOPOLOGY) else { return };
    let trust = Trust(Some(Certificates::issue(&network, "certs")));
    train(&network, &trust);
}
