//! Tests of the daemons with mutual TLS and certificates from `tributary certs`, as on real hosts. They
//! need root; without root, they print that they are skipped.

use std::fs;
use std::process::{Output, Stdio};

use serde_json::Value;
use tributary_lab::CONTROLLER;
use tributary_testkit::binary::{assert_refused, stderr};
use tributary_testkit::certificates::{Certificates, with};
use tributary_testkit::network::{Daemon, Network};

const TOPOLOGY: &str = "two-workers.toml";

/// Runs `tributary` at the controller's station with these options.
fn ask(network: &Network, arguments: &[&str], options: &[String]) -> Output {
    let mut command = network.command(CONTROLLER, arguments);
    command.args(network.controller()).args(options).output().unwrap()
}

fn succeeded(output: &Output) -> Value {
    assert!(output.status.success(), "{}", stderr(output));
    serde_json::from_slice(&output.stdout).unwrap()
}

#[test]
fn an_all_reduce_with_mutual_tls_is_right_and_strangers_stay_outside() {
    let Some(network) = Network::up("tls", TOPOLOGY) else { return };
    let (certificates, others) =
        (Certificates::issue(&network, "certs"), Certificates::issue(&network, "others"));
    let operator = certificates.of("operator");
    let _switches = network.start_switches();
    let mut controller = Daemon::start(with(network.controller_command(), &certificates.controller()));
    let token = network.token("job");
    let create = ["jobs", "create", "job", "--json", "--token-out", &token];
    let list = ["jobs", "list", "--json"];

    // Only operators can create jobs. Callers without a certificate from the CA cannot even connect.
    assert_refused(
        &ask(&network, &create, &certificates.of("w0")),
        &["for \"w0\"", "for \"operator\", \"ps\" only"],
    );
    let stranger = others.of("operator");
    assert_refused(&ask(&network, &list, &stranger), &["its certificate is not signed by", &stranger[1]]);
    // This client trusts the controller, but the controller does not trust it.
    let mut unknown = stranger.clone();
    unknown[1] = network.file("both.crt");
    let both = [&operator[1], &stranger[1]].map(|ca| fs::read_to_string(ca).unwrap());
    fs::write(&unknown[1], both.concat()).unwrap();
    assert_refused(&ask(&network, &list, &unknown), &["does not trust the certificate in", &unknown[3]]);
    controller.wait_for_line("turned a client away");
    assert_refused(&ask(&network, &list, &[]), &["it demands TLS", "--tls-ca"]);
    succeeded(&ask(&network, &create, &operator));

    // Hosts that use another host's name, with their agent or server, and a host with another CA's
    // certificate.
    let reduce = ["--size", "64KiB", "--iterations", "2"];
    let spawn = |host: &str, options: &[String]| Daemon::spawn(with(network.agent_command(host), options));
    let (status, log) = spawn("w0", &certificates.of("w1")).end();
    assert!(status.code() == Some(1) && log.contains("for \"w1\", not for host \"w0\""), "{log}");
    let mut stranger = spawn("w0", &others.of("w0"));
    stranger.wait_for_line("its certificate is not signed by");
    drop(stranger);
    let mut plain = spawn("w0", &[]);
    plain.wait_for_line("it demands TLS");
    drop(plain);
    let (status, log) = Daemon::spawn(with(network.server_command("job"), &certificates.of("w0"))).end();
    assert!(status.code() == Some(1) && log.contains("not for host \"ps\""), "{log}");

    // These attempts have not affected the job.
    let _server = Daemon::start(with(network.server_command("job"), &certificates.of("ps")));
    let agent = |host: &String| Daemon::start(with(network.agent_command(host), &certificates.of(host)));
    let _agents: Vec<_> = network.workers().iter().map(agent).collect();
    for output in network.allreduce("job", &reduce) {
        assert_eq!(succeeded(&output)["checked"], true);
    }
    let counters = succeeded(&ask(&network, &["counters", "--json", "--job", "job"], &certificates.of("ps")));
    assert!(counters["switches"][0]["jobs"]["job"]["completed"]["packets"].as_u64().unwrap() > 0);
    let end = ["jobs", "end", "job", "--json"];
    assert_refused(
        &ask(&network, &end, &certificates.of("ps")),
        &["no token was given for job \"job\"", "--token-file"],
    );
    succeeded(&ask(&network, &end, &operator));
}

#[test]
fn workers_train_through_their_agents_each_in_its_hosts_name() {
    let Some(network) = Network::up("tlsps", TOPOLOGY) else { return };
    let certificates = Certificates::issue(&network, "certs");
    let others = Certificates::issue(&network, "others");
    let (job, token) = (network.file("digits.toml"), network.token("digits"));
    fs::write(&token, "00ff17").unwrap();
    let text = format!(
        "name = \"digits\"\nworkers = 2\npolicy = \"bsp\"\nepoch-iterations = 10\nlearning-rate = 0.2\n\
         token-file = {token:?}\n"
    );
    fs::write(&job, text).unwrap();
    let listen = format!("{}:29812", network.address("ps"));
    let server = network.command("ps", &["server", "--ps-listen", &listen, "--ps-job", &job]);
    let _server = Daemon::start(with(server, &certificates.of("ps")));
    // The test has no controller and does not need one.
    let agent = |host: &str, options: &[String]| {
        let mut agent = Daemon::spawn(with(network.agent_command(host), options));
        agent.wait_for_line("agent is up");
        agent
    };
    let worker = |host: &str, rank: &str| {
        let common = ["ps", "worker", "--json", "--job", "digits", "--workers", "2", "--iterations", "5"];
        let mut command = network.command(host, &common);
        command.args(["--worker", rank, "--token-file", &token, "--server", &listen]);
        command.arg("--agent").arg(network.socket(host));
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        command
    };
    let stranger = agent("w0", &others.of("w0"));
    assert_refused(&worker("w0", "0").output().unwrap(), &["its certificate is not signed by"]);
    drop(stranger);
    let _agents: Vec<_> = network.workers().iter().map(|host| agent(host, &certificates.of(host))).collect();
    let workers = [("w0", "0"), ("w1", "1")].map(|(host, rank)| worker(host, rank).spawn().unwrap());
    let reports = workers.map(|worker| succeeded(&worker.wait_with_output().unwrap()));
    assert_eq!(reports[0]["parameters"], reports[1]["parameters"]);
    assert_eq!((&reports[0]["iterations"], &reports[0]["computed"]), (&5.into(), &5.into()));
}

#[test]
fn tls_files_can_come_from_the_environment_and_plain_text_is_said() {
    let Some(network) = Network::up("tlsenv", TOPOLOGY) else { return };
    let certificates = Certificates::issue(&network, "certs");
    let _switches = network.start_switches();
    let [_, ca, _, cert, _, key] = certificates.of("operator");
    let list = || {
        let mut command = network.command(CONTROLLER, &["jobs", "list", "--json"]);
        let [_, address] = network.controller();
        command.env("TRIBUTARY_CONTROLLER", address).env("TRIBUTARY_TLS_CA", &ca);
        command.env("TRIBUTARY_TLS_CERT", &cert).env("TRIBUTARY_TLS_KEY", &key).output().unwrap()
    };
    let mut plain = Daemon::spawn(network.controller_command());
    plain.wait_for_line("in plain text");
    plain.wait_for_line("ready");
    assert_refused(&list(), &["it does not speak TLS", "--tls-cert"]);
    let (status, log) = plain.terminate();
    assert_eq!(status.code(), Some(0), "{log}");
    let tls = Daemon::start(with(network.controller_command(), &certificates.controller()));
    assert_eq!(succeeded(&list())["jobs"], Value::Array(Vec::new()));
    let (status, log) = tls.terminate();
    assert!(status.code() == Some(0) && !log.contains("in plain text"), "{log}");
}
