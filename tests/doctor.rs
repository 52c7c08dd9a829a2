//! Tests of `tributary doctor` on daemons in a lab. It must find each fault that a test causes, give
//! advice, and find nothing in a healthy fabric. They need root; without root, they print that they are
//! skipped.

use std::fs;
use std::io::{BufRead, BufReader, Lines};
use std::process::{Child, ChildStdout, Command, Output, Stdio};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use futures_util::{StreamExt, stream};
use serde_json::Value;
use tokio::runtime::{self, Runtime};
use tokio::time::{Interval, interval};
use tonic::Streaming;
use tributary_api::v1;
use tributary_api::v1::controller_client::ControllerClient;
use tributary_api::v1::host_report::Report;
use tributary_lab::CONTROLLER;
use tributary_p4runtime::entry::Query;
use tributary_p4runtime::p4::v1 as p4;
use tributary_p4runtime::p4::v1::p4_runtime_client::P4RuntimeClient;
use tributary_p4runtime::session::Mastership;
use tributary_p4runtime::{P4Info, Session};
use tributary_testkit::binary::stderr;
use tributary_testkit::certificates::{Certificates, with};
use tributary_testkit::network::{Daemon, METRICS, Network};
use tributary_testkit::root;

const TOPOLOGY: &str = "two-workers.toml";
/// The longest wait for a finding.
const PATIENCE: Duration = Duration::from_secs(30);

/// A doctor that checks one fabric.
struct Doctor<'a> {
    network: &'a Network,
    options: Vec<String>,
}

impl<'a> Doctor<'a> {
    fn new(network: &'a Network) -> Self {
        Self { network, options: vec!["--patience".into(), "1".into()] }
    }

    fn command(&self) -> Command {
        let mut command = self.network.command(CONTROLLER, &["doctor"]);
        command.args(self.network.controller()).args(&self.options);
        command
    }

    fn look(&self) -> Output {
        self.command().arg("--json").output().unwrap()
    }

    fn findings(&self) -> Vec<Value> {
        let output = self.look();
        assert!(matches!(output.status.code(), Some(0 | 1)), "{}", stderr(&output));
        let told: Value = serde_json::from_slice(&output.stdout).unwrap();
        let findings = told["findings"].as_array().unwrap().clone();
        assert_eq!(told["healthy"], findings.is_empty());
        assert_eq!(output.status.success(), findings.is_empty());
        findings
    }

    /// Waits for a finding with this code and these words, and returns it. Its advice must contain `fix`.
    fn finds(&self, code: &str, words: &[&str], fix: &str) -> Value {
        let deadline = Instant::now() + PATIENCE;
        loop {
            let findings = self.findings();
            let is_it = |finding: &&Value| {
                let text = format!("{}: {}", finding["place"], finding["what"]);
                finding["code"] == code && words.iter().all(|words| text.contains(words))
            };
            if let Some(found) = findings.iter().find(is_it) {
                let said = found["fix"].as_str().unwrap();
                assert!(said.contains(fix), "{fix:?} is not in: {said}");
                return found.clone();
            }
            assert!(Instant::now() < deadline, "no {code} with {words:?} in {findings:#?}");
        }
    }

    /// Waits until the doctor finds nothing, except findings with the codes in `news`, which stay for some
    /// time.
    fn finds_nothing_but(&self, news: &[&str]) {
        let deadline = Instant::now() + PATIENCE;
        loop {
            let mut findings = self.findings();
            findings.retain(|finding| !news.contains(&finding["code"].as_str().unwrap()));
            if findings.is_empty() {
                return;
            }
            assert!(Instant::now() < deadline, "{findings:#?}");
        }
    }

    fn finds_nothing(&self) {
        self.finds_nothing_but(&[]);
    }
}

/// Runs a tool at a station.
fn at(network: &Network, station: &str, program: &str, arguments: &[&str]) {
    let output = network.tool(station, program).args(arguments).output().unwrap();
    assert!(output.status.success(), "{program} {arguments:?}: {}", stderr(&output));
}

/// A doctor that repeats its checks.
struct Watch {
    child: Child,
    lines: Lines<BufReader<ChildStdout>>,
}

impl Watch {
    fn start(doctor: &Doctor<'_>) -> Self {
        let mut command = doctor.command();
        command.args(["--watch", "--interval", "1", "--json"]).stdout(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap()).lines();
        Self { child, lines }
    }

    /// Returns the next report.
    fn next(&mut self) -> Value {
        serde_json::from_str(&self.lines.next().unwrap().unwrap()).unwrap()
    }

    /// Returns the next report in which `key` is not empty.
    fn next_with(&mut self, key: &str) -> Value {
        loop {
            let told = self.next();
            if !told[key].as_array().unwrap().is_empty() {
                return told;
            }
        }
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Runs `work` at a station. Its background tasks continue as long as the returned runtime exists.
fn inside<T: Send>(network: &Network, station: &str, work: impl AsyncFnOnce() -> T + Send) -> (T, Runtime) {
    network.inside(station, || {
        // The runtime's threads inherit this thread's namespace.
        let runtime = runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
        (runtime.block_on(work()), runtime)
    })
}

/// Another controller of a switch. It disconnects when this value is dropped.
struct Foreign {
    _session: Session,
    _runtime: Runtime,
}

impl Foreign {
    /// Connects as the switch's primary controller.
    fn take(network: &Network, switch: &str) -> Self {
        let target = network.switch_target(switch);
        let (session, runtime) = inside(network, CONTROLLER, async || {
            let session =
                Session::connect_once(target, u128::MAX, (Instant::now() + PATIENCE).into()).await.unwrap();
            session.primary().await.unwrap();
            session
        });
        Self { _session: session, _runtime: runtime }
    }
}

/// Deletes entries of a switch as its primary controller.
fn tamper(network: &Network, switch: &str) {
    let target = network.switch_target(switch);
    inside(network, CONTROLLER, async || {
        let (address, device_id) = (target.address.clone(), target.device_id);
        let session = Session::connect_once(target, 1, (Instant::now() + PATIENCE).into()).await.unwrap();
        let mut mastership = session.mastership();
        let known = mastership.wait_for(|state| matches!(state, Mastership::Backup { .. })).await.unwrap();
        let Mastership::Backup { primary } = *known else { panic!("{known:?}") };
        drop(known);
        let info = fs::read_to_string(root().join("p4/build/256/tributary.p4info.txtpb")).unwrap();
        let table = Query::Table("mac_forward".into()).to_proto(&P4Info::parse(&info).unwrap()).unwrap();
        let entries = session.read(vec![table]).await.unwrap();
        assert!(!entries.is_empty());
        let delete = |entity| p4::Update { r#type: p4::update::Type::Delete.into(), entity: Some(entity) };
        let half = |part: u128| u64::try_from(part & u128::from(u64::MAX)).unwrap();
        let request = p4::WriteRequest {
            device_id,
            election_id: Some(p4::Uint128 { high: half(primary >> 64), low: half(primary) }),
            updates: entries.into_iter().map(delete).collect(),
            ..p4::WriteRequest::default()
        };
        let mut client = P4RuntimeClient::connect(format!("http://{address}")).await.unwrap();
        client.write(request).await.unwrap();
    });
}

/// A daemon of another version, on a machine whose clock is a minute ahead.
struct Stranger {
    _orders: Streaming<v1::HostOrder>,
    _runtime: Runtime,
}

impl Stranger {
    fn connect(network: &Network, host: &str) -> Self {
        let [_, controller] = network.controller();
        let hello =
            v1::Hello { host: host.into(), version: "0.0.1".into(), works: true, ..v1::Hello::default() };
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap() + Duration::from_secs(60);
        let condition = v1::HostCondition {
            clock_unix_milliseconds: since.as_millis().try_into().unwrap(),
            ..v1::HostCondition::default()
        };
        let heartbeat = Report::Heartbeat(v1::Heartbeat { condition: Some(condition), ..Default::default() });
        let report = |report| v1::HostReport { report: Some(report) };
        let (orders, runtime) = inside(network, CONTROLLER, async || {
            let mut client = ControllerClient::connect(format!("http://{controller}")).await.unwrap();
            let beat = move |mut ticks: Interval| {
                let heartbeat = heartbeat.clone();
                async move {
                    ticks.tick().await;
                    Some((report(heartbeat), ticks))
                }
            };
            let heartbeats = stream::unfold(interval(Duration::from_secs(1)), beat);
            let reports = stream::iter([report(Report::Hello(hello))]).chain(heartbeats);
            client.open_session(reports).await.unwrap().into_inner()
        });
        Self { _orders: orders, _runtime: runtime }
    }
}

/// Returns the command of a switch with its second and third ports swapped.
fn swap_ports(command: &Command) -> Command {
    let mut arguments: Vec<_> =
        command.get_args().map(|argument| argument.to_str().unwrap().to_owned()).collect();
    for argument in &mut arguments {
        let interface = |argument: &str| argument.split_once('=').map(|(_, interface)| interface.to_owned());
        *argument = match argument.as_bytes() {
            [b'2', b'=', ..] => format!("3={}", interface(argument).unwrap()),
            [b'3', b'=', ..] => format!("2={}", interface(argument).unwrap()),
            _ => continue,
        };
    }
    let mut swapped = Command::new(command.get_program());
    swapped.args(arguments);
    for (name, value) in command.get_envs() {
        match value {
            Some(value) => swapped.env(name, value),
            None => swapped.env_remove(name),
        };
    }
    swapped
}

/// Returns the path of a copy of the network's topology in which a switch has 64 slots.
fn few_slots(network: &Network, switch: &str) -> String {
    let file = root().join(format!("topologies/{}.toml", network.topology.name()));
    let text = fs::read_to_string(file).unwrap();
    let name = format!("name = \"{switch}\"");
    assert!(text.contains(&name));
    let changed = network.file("few-slots.toml");
    fs::write(&changed, text.replacen(&name, &format!("{name}\nslots = 64"), 1)).unwrap();
    changed
}

#[test]
fn a_switch_that_is_away_rebooted_foreign_tampered_with_or_plugged_in_wrongly() {
    let Some(network) = Network::up("dr-switch", TOPOLOGY) else { return };
    let doctor = Doctor::new(&network);
    let unreachable = doctor.look();
    assert_eq!(unreachable.status.code(), Some(2), "nobody can be asked");
    assert!(stderr(&unreachable).contains("no controller at"), "{}", stderr(&unreachable));

    let mut switches = network.start_switches();
    let _controller = Daemon::start(network.controller_command());
    let _agents = network.start_agents();
    doctor.finds_nothing();

    switches.remove(0).kill();
    doctor.finds(
        "switch-away",
        &["switch leaf", "has been unreachable for"],
        "start it, or correct its address",
    );
    let switch = Daemon::start(network.switch_command("leaf"));
    doctor.finds("switch-reset", &["switch leaf", "it was rebooted"], "check the switch's log and its power");
    let news = ["switch-reset"];
    doctor.finds_nothing_but(&news);

    let foreign = Foreign::take(&network, "leaf");
    doctor.finds("switch-foreign", &["switch leaf", "another controller"], "stop one of the two controllers");
    drop(foreign);
    doctor.finds_nothing_but(&news);

    tamper(&network, "leaf");
    doctor.finds("tables-differ", &["switch leaf", "insert mac_forward"], "restart the controller");
    assert!(switch.terminate().0.success());
    let switch = Daemon::start(network.switch_command("leaf"));
    doctor.finds_nothing_but(&news);

    assert!(switch.terminate().0.success());
    let crossed = Daemon::start(swap_ports(&network.switch_command("leaf")));
    let words = ["port 3 of leaf leads to port 1 of w0, and not to port 1 of w1"];
    doctor.finds("cable-miswired", &words, "--port options");
    assert!(crossed.terminate().0.success());
    let _switch = Daemon::start(network.switch_command("leaf"));
    doctor.finds_nothing_but(&news);
}

#[test]
fn hosts_with_wrong_settings_and_a_cut_cable() {
    let Some(network) = Network::up("dr-host", TOPOLOGY) else { return };
    let doctor = Doctor::new(&network);
    let _switches = network.start_switches();
    let _controller = Daemon::start(network.controller_command());
    let mut agents = network.start_agents();
    doctor.finds_nothing();

    let mut watch = Watch::start(&doctor);
    assert_eq!(watch.next()["healthy"], true);
    network.cut("leaf-w0");
    let cut = "no frames get through the cable between leaf and w0";
    doctor.finds("cable-dead", &[cut], "check the cable");
    let told = watch.next();
    assert_eq!((&told["new"][0]["code"], &told["healthy"]), (&"cable-dead".into(), &false.into()));
    network.repair("leaf-w0");
    doctor.finds_nothing();
    let told = watch.next();
    assert_eq!((&told["cleared"][0]["code"], &told["healthy"]), (&"cable-dead".into(), &true.into()));

    let interface = network.interface("w0");
    at(&network, "w0", "ip", &["link", "set", &interface, "mtu", "1000"]);
    doctor.finds(
        "mtu-too-small",
        &["host w0", "is 1000 bytes"],
        &format!("`ip link set {interface} mtu 1500`"),
    );
    at(&network, "w0", "ip", &["link", "set", &interface, "mtu", "1500"]);
    at(&network, "w0", "ethtool", &["-K", &interface, "sg", "on", "tx", "on", "tso", "on"]);
    doctor.finds("offload-in-the-way", &["host w0", "tso"], &format!("`ethtool -K {interface} tso off`"));
    at(&network, "w0", "ethtool", &["-K", &interface, "tso", "off", "tx", "off", "sg", "off"]);
    at(&network, "w0", "ip", &["link", "set", &interface, "down"]);
    doctor.finds("interface-down", &["host w0", &interface], &format!("`ip link set {interface} up`"));
    at(&network, "w0", "ip", &["link", "set", &interface, "up"]);
    doctor.finds_nothing();

    // A stopped agent keeps its connection for 15 s.
    let stopped = Instant::now();
    agents[0].signal("-STOP");
    doctor.finds("host-absent", &["host w0", "the controller receives nothing"], "management network");
    assert!(stopped.elapsed() < Duration::from_secs(11), "{:?}", stopped.elapsed());
    agents[0].signal("-CONT");
    doctor.finds_nothing();

    agents.pop().unwrap().kill();
    doctor.finds("host-absent", &["host w1"], "systemctl start tributary-agent");
    // This agent runs at w1 but uses the host name w0.
    let mut wrong =
        network.command("w1", &["agent", "--host", "w0", "--interface", &network.interface("w1")]);
    wrong.args(network.controller()).arg("--socket").arg(network.file("wrong.sock"));
    assert!(!Daemon::spawn(wrong).end().0.success());
    doctor.finds("host-turned-away", &["host w0", "has the MAC address"], "the daemon's --host");
    agents.push(Daemon::start(network.agent_command("w1")));
    agents.push(Daemon::start(network.other_agent_command("w0")));
    doctor.finds_nothing();

    let stranger = Stranger::connect(&network, "ps");
    doctor.finds("clock-differs", &["host ps", "ahead of the controller's"], "NTP");
    doctor.finds("version-differs", &["agent of host ps", "0.0.1"], "install the same version");
    drop(stranger);
    doctor.finds_nothing();
}

#[test]
fn jobs_that_wait_and_processes_that_stand_still() {
    let Some(network) = Network::up("dr-job", TOPOLOGY) else { return };
    let doctor = Doctor::new(&network);
    let _switches = network.start_switches();
    let controller = Daemon::start(network.controller_command());
    let _agents = network.start_agents();
    network.create_job("waits");
    doctor.finds(
        "job-waits",
        &["job waits at w1", "training process has not joined"],
        "on w1, or end the job",
    );
    doctor.finds(
        "job-waits",
        &["job waits at ps", "whose daemon is not connected"],
        "start `tributary server` on ps",
    );

    let _server = Daemon::start(network.server_command("waits"));
    let options = ["--size", "64KiB", "--iterations", "1000000"];
    let start = |host: &String| Daemon::spawn(network.allreduce_command(host, "waits", &options));
    let mut clients: Vec<_> = network.workers().iter().map(start).collect();
    network.wait_for_progress("waits", 1);
    doctor.finds_nothing();
    clients[1].signal("-STOP");
    let words =
        ["job waits", "w0 has waited for a result", "the process on w1 has not begun the same all-reduce"];
    doctor.finds("job-stalled", &words, "check if the training process on w1");
    clients[1].signal("-CONT");
    doctor.finds_nothing();

    let mut watch = Watch::start(&doctor);
    assert_eq!(watch.next()["healthy"], true);
    controller.kill();
    assert_eq!(watch.next()["new"][0]["code"], "controller-away");
    let _controller = Daemon::start(network.controller_command());
    let told = watch.next_with("cleared");
    assert_eq!(told["cleared"][0]["code"], "controller-away", "{told}");

    clients.pop().unwrap().kill();
    let words = ["job waits at w1", "continues without rank 1", "training process", "w1 is gone"];
    doctor.finds("job-without-worker", &words, "check the training process on w1");
    network.ask(&["jobs", "end", "waits", "--token-file", &network.token("waits")]);
    doctor.finds_nothing();
}

#[test]
fn a_tree_is_healthy_and_a_switch_without_slots_is_told_everywhere() {
    let Some(network) = Network::up("dr-tree", "three-tier-8.toml") else { return };
    let doctor = Doctor::new(&network);
    let _switches = network.start_switches();
    let controller = Daemon::start(network.controller_command());
    let _agents = network.start_agents();
    network.create_job("whole");
    let server = Daemon::start(network.server_command("whole"));
    let options = ["--size", "64KiB", "--iterations", "2"];
    assert!(network.allreduce("whole", &options).iter().all(|output| output.status.success()));
    doctor.finds_nothing();
    let text = doctor.command().output().unwrap();
    assert_eq!(String::from_utf8(text.stdout).unwrap(), "nothing is wrong\n");
    network.ask(&["jobs", "end", "whole", "--token-file", &network.token("whole")]);
    assert!(server.end().0.success());
    assert!(controller.terminate().0.success());

    let mut few = network.controller_command_with(&few_slots(&network, "root"));
    few.args(METRICS);
    let mut controller = Daemon::start(few);
    network.create_job("less");
    let _server = Daemon::start(network.server_command("less"));
    assert!(network.allreduce("less", &options).iter().all(|output| output.status.success()));
    let reason = "root had 64 free slots for it, and it needs 256";
    doctor.finds("job-fallback", &["job less", "with less aggregation", reason], "a smaller --window");
    controller.wait_for_line("runs with less aggregation than there could be");
    assert_eq!(network.ask(&["jobs", "list"])["jobs"][0]["fallbacks"][0], reason);
    let sample = r#"tributary_job_fallback{job="less",cause="no-slots"}"#;
    assert_eq!(network.metric(CONTROLLER, sample), 1.0);
}

#[test]
fn certificates_that_end_soon_are_named() {
    let Some(network) = Network::up("dr-tls", TOPOLOGY) else { return };
    let certificates = Certificates::issue(&network, "certs");
    let _switches = network.start_switches();
    let mut doctor = Doctor::new(&network);
    doctor.options.extend(certificates.of("operator"));
    let start = || {
        let agent = |host: &String| Daemon::start(with(network.agent_command(host), &certificates.of(host)));
        let controller = Daemon::start(with(network.controller_command(), &certificates.controller()));
        let agents: Vec<_> = network.workers().iter().map(agent).collect();
        (controller, agents)
    };
    let daemons = start();
    doctor.finds_nothing();
    drop(daemons);
    certificates.renew(&network, 5);
    let _daemons = start();
    for place in
        ["operator.crt", "controller's certificate", "certificate of host w0", "certificate of host w1"]
    {
        doctor.finds("certificate-expires", &[place, "ends in"], "tributary certs issue --replace");
    }
}
