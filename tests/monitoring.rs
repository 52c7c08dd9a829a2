//! Checks that the dashboard, the alert rules in `deploy/` and their page use only metrics, labels and
//! values that daemons export. Most tests need root for a lab; without root, they print that they are
//! skipped.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io::ErrorKind;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use futures_util::future;
use serde_json::Value;
use tokio::runtime;
use tributary_api::agent::v1::{CollectiveCount, CollectiveWay};
use tributary_client::Agent;
use tributary_lab::CONTROLLER;
use tributary_testkit::binary::stderr;
use tributary_testkit::network::{Daemon, METRICS, Network};
use tributary_testkit::{metrics, root};

const TOPOLOGY: &str = "two-workers.toml";
const FILES: [&str; 4] = [
    "deploy/grafana/tributary.json",
    "deploy/prometheus/alerts.yml",
    "deploy/prometheus/alerts-test.yml",
    PAGE,
];
/// The page that lists all metrics.
const PAGE: &str = "docs/monitoring.md";
const PATIENCE: Duration = Duration::from_secs(60);
/// The port in [`METRICS`].
const METRICS_PORT: u16 = 9100;
/// Labels that Prometheus adds to a metric to name its source.
const SCRAPED: [&str; 2] = ["instance", "job"];
/// Labels that the rules add to their alerts.
const OF_ALERTS: [&str; 4] = ["alertname", "alertstate", "severity", "finding"];

/// Labels with few values. A fabric exports all of their values as soon as it has a job.
const ENUMERATED: [&str; 5] = ["state", "cause", "reason", "kind", "way"];

/// The labels that are used with each metric, and the values with which each label is compared.
type Uses = BTreeMap<String, BTreeMap<String, BTreeSet<String>>>;

/// Returns the metrics in a text that contains PromQL. The text may be JSON.
fn uses(text: &str) -> Uses {
    let text = text.replace("\\\"", "\"");
    let mut uses = Uses::new();
    for (start, _) in text.match_indices("tributary_") {
        let is_of_name = |letter: char| letter.is_ascii_alphanumeric() || letter == '_';
        let (name, rest) = split_at_first(&text[start..], |letter| !is_of_name(letter));
        let labels = uses.entry(name.to_owned()).or_default();
        let Some(matchers) = rest.strip_prefix('{').and_then(|rest| rest.split_once('}')) else { continue };
        for matcher in matchers.0.split(',') {
            let (label, rest) = split_at_first(matcher.trim(), |letter| !is_of_name(letter));
            let values = rest.trim_start_matches(['=', '!', '~']).trim_matches('"');
            let values = values.split('|').filter(|value| !value.is_empty() && !value.contains(['$', '*']));
            labels.entry(label.to_owned()).or_default().extend(values.map(str::to_owned));
        }
    }
    uses
}

fn split_at_first(text: &str, is_end: impl Fn(char) -> bool) -> (&str, &str) {
    text.split_at(text.find(is_end).unwrap_or(text.len()))
}

/// Returns the labels that a text uses outside of a metric's matchers: `by (…)`, `on (…)`, `{{…}}` of
/// legends, `$labels.…`.
fn named_labels(text: &str) -> BTreeSet<String> {
    let between = |open: &'static str, close: char| {
        text.match_indices(open).filter_map(move |(at, _)| text[at + open.len()..].split_once(close))
    };
    let groups = between("by (", ')').chain(between("on (", ')'));
    let grouped = groups.flat_map(|(labels, _)| labels.split(',')).map(str::trim);
    let legends = between("{{", '}').map(|(label, _)| label.trim());
    let annotated = legends.clone().filter_map(|label| label.strip_prefix("$labels."));
    let plain = legends.filter(|label| !label.starts_with('$'));
    grouped.chain(annotated).chain(plain).map(str::to_owned).collect()
}

/// Returns all values of each label of each metric that daemons have exported.
fn exported(pages: &[String]) -> Uses {
    let mut all = Uses::new();
    for line in pages.iter().flat_map(|page| page.lines()).filter(|line| !line.starts_with('#')) {
        for (name, labels) in uses(line) {
            let known = all.entry(name).or_default();
            for (label, values) in labels {
                known.entry(label).or_default().extend(values);
            }
        }
    }
    all
}

#[test]
fn what_is_used_of_a_metric_is_found_in_both_notations() {
    let used =
        uses(r#"rate(tributary_a_total{state=~"x|y",job=~\"$job\"}[5m]) / sum by (job) (tributary_b)"#);
    let labels = &used["tributary_a_total"];
    assert_eq!(labels["state"], BTreeSet::from(["x".to_owned(), "y".to_owned()]));
    assert!(labels["job"].is_empty() && used["tributary_b"].is_empty(), "{used:?}");
    let named =
        named_labels("sum by (job, rank) (x) and on (a) y {{ $labels.switch }} {{port}} {{ $value }}");
    assert_eq!(named, ["job", "rank", "a", "switch", "port"].map(str::to_owned).into());
}

#[test]
fn the_dashboard_can_be_read_and_each_alert_says_what_to_do() {
    let dashboard = fs::read_to_string(root().join(FILES[0])).unwrap();
    let dashboard: Value = serde_json::from_str(&dashboard).unwrap();
    let mut ids = BTreeSet::new();
    for panel in dashboard["panels"].as_array().unwrap() {
        assert!(ids.insert(panel["id"].as_u64().unwrap()), "an id is there twice: {panel}");
        let is_row = panel["type"] == "row";
        let targets = panel["targets"].as_array().map_or(&[][..], Vec::as_slice);
        assert!(is_row || targets.iter().all(|target| target["expr"].is_string()), "{panel}");
        assert_eq!(is_row, targets.is_empty(), "{panel}");
    }
    let rules = fs::read_to_string(root().join(FILES[1])).unwrap();
    let count = |words: &str| rules.matches(words).count();
    let alerts = count("- alert: ");
    assert!(alerts > 0);
    for words in ["summary: ", "what_to_do: ", "severity: "] {
        assert_eq!(count(words), alerts, "{words:?}");
    }
}

#[test]
fn findings_and_pages_that_alerts_name_are_there() {
    let page = fs::read_to_string(root().join("docs/doctor.md")).unwrap();
    let codes: BTreeSet<_> = page.lines().filter_map(|line| line.strip_prefix("### ")).collect();
    for file in FILES {
        let text = fs::read_to_string(root().join(file)).unwrap();
        for words in ["finding: ", "docs/doctor.md#"] {
            for (at, _) in text.match_indices(words) {
                let is_of_code = |letter: char| letter.is_ascii_lowercase() || letter == '-';
                let (code, _) = split_at_first(&text[at + words.len()..], |letter| !is_of_code(letter));
                assert!(code.is_empty() || codes.contains(code), "{file}: {words}{code}");
            }
        }
        for (at, _) in text.match_indices("docs/") {
            let (page, _) =
                split_at_first(&text[at..], |letter| !letter.is_ascii_lowercase() && !"/-.".contains(letter));
            let page = page.trim_end_matches('.');
            assert!(root().join(page).is_file(), "{file}: there is no {page}");
        }
    }
}

/// Returns `/metrics` from a port of a station; an empty text if the port refuses connections.
fn page(network: &Network, station: &str, port: u16) -> String {
    let address = format!("{}:{port}", network.address(station));
    match network.inside(CONTROLLER, || metrics::page(address)) {
        Err(error) if error.kind() == ErrorKind::ConnectionRefused => String::new(),
        page => page.unwrap(),
    }
}

/// A doctor that serves metrics. Dropping this value kills it.
struct Doctor(Child);

impl Doctor {
    const PORT: u16 = 9101;

    /// Starts a doctor that reports waiting jobs at once.
    fn start(network: &Network) -> Self {
        let mut command = network.command(CONTROLLER, &["doctor", "--watch", "--interval", "1"]);
        command.args(["--patience", "0", "--metrics"]).arg(format!("0.0.0.0:{}", Self::PORT));
        Self(command.args(network.controller()).stdout(Stdio::null()).spawn().unwrap())
    }

    /// Waits for a finding with this code, and returns the doctor's page.
    fn page_with(&self, network: &Network, code: &str) -> String {
        let deadline = Instant::now() + PATIENCE;
        loop {
            let page = page(network, CONTROLLER, Self::PORT);
            if page.contains(&format!("code=\"{code}\"")) {
                return page;
            }
            assert!(Instant::now() < deadline, "no {code} in:\n{page}");
        }
    }
}

impl Drop for Doctor {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Lets one worker train with the parameter server at `address`.
fn train(network: &Network, address: &str) {
    let worker = ["ps", "worker", "--json", "--job", "digits", "--workers", "1", "--worker", "0"];
    let mut worker = network.command("w0", &worker);
    let output = worker.args(["--iterations", "5", "--server", address]).output().unwrap();
    assert!(output.status.success(), "{}", stderr(&output));
}

/// Joins a job on all hosts, reports one collective of each kind to the agents, and calls `look`.
///
/// PyTorch's backend joins and reports in the same way.
fn count_collectives(network: &Network, job: &str, look: impl FnOnce()) {
    let token = fs::read_to_string(network.token(job)).unwrap();
    let token = token.trim();
    let byte = |at| u8::from_str_radix(&token[at..at + 2], 16).unwrap();
    let token: Vec<u8> = (0..token.len()).step_by(2).map(byte).collect();
    let tell = async |host: &String| {
        let agent = Agent::connect(network.socket(host)).await.unwrap();
        let joined = agent.join(job, token.clone()).await.unwrap();
        let count = |way: CollectiveWay, reason: &str| CollectiveCount {
            way: way.into(),
            collective: "allreduce".into(),
            reason: reason.into(),
            calls: 1,
            bytes: 1,
        };
        let counts = vec![count(CollectiveWay::Fabric, ""), count(CollectiveWay::Gloo, "int64")];
        joined.count_collectives(counts).await.unwrap();
        joined
    };
    let runtime = runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let joined = future::join_all(network.workers().iter().map(tell)).await;
        look();
        for joined in joined {
            joined.close().await.unwrap();
        }
    });
}

/// Returns the metrics pages of all daemons of a fabric that has used everything that metrics count.
fn pages(network: &Network) -> Vec<String> {
    let with_metrics = |mut command: Command| {
        command.args(METRICS);
        Daemon::start(command)
    };
    let _switch = with_metrics(network.switch_command("leaf"));
    let _controller = with_metrics(network.controller_command());
    let _agents: Vec<_> =
        network.workers().iter().map(|host| with_metrics(network.agent_command(host))).collect();
    let file = network.file("digits.toml");
    fs::write(
        &file,
        "name = \"digits\"\nworkers = 1\npolicy = \"bsp\"\nepoch-iterations = 10\nlearning-rate = 0.1\n",
    )
    .unwrap();
    let (command, address) = network.parameter_server_command(&file);
    let _server = Daemon::start(command);
    train(network, &address);

    let doctor = Doctor::start(network);
    network.create_job("seen");
    let mut pages = vec![doctor.page_with(network, "job-waits")];
    for output in network.allreduce("seen", &["--size", "64KiB", "--iterations", "1"]) {
        assert!(output.status.success(), "{}", stderr(&output));
    }
    count_collectives(network, "seen", || {
        pages.extend([CONTROLLER, "leaf", "w0", "ps"].map(|station| page(network, station, METRICS_PORT)));
    });
    pages
}

#[test]
fn the_dashboard_and_the_alerts_use_what_daemons_export() {
    let Some(network) = Network::up("monitoring", TOPOLOGY) else { return };
    let exported = exported(&pages(&network));
    let every_label: BTreeSet<_> = exported.values().flat_map(BTreeMap::keys).map(String::as_str).collect();
    let mut missing = BTreeSet::new();
    for file in FILES {
        let text = fs::read_to_string(root().join(file)).unwrap();
        for (name, labels) in uses(&text) {
            let Some(known) = exported.get(&name) else {
                missing.insert(format!("{file}: there is no metric {name}"));
                continue;
            };
            for (label, values) in labels {
                if !known.contains_key(&label) && !SCRAPED.contains(&label.as_str()) {
                    missing.insert(format!("{file}: {name} has no label {label}"));
                }
                let there = known.get(&label).filter(|_| ENUMERATED.contains(&label.as_str()));
                for value in values.iter().filter(|value| there.is_some_and(|there| !there.contains(*value)))
                {
                    missing.insert(format!("{file}: {name} has no {label} {value}"));
                }
            }
        }
        for label in named_labels(&text) {
            let all = SCRAPED.iter().chain(&OF_ALERTS).copied().chain(every_label.iter().copied());
            if !all.clone().any(|known| known == label) {
                missing.insert(format!("{file}: nothing has a label {label}"));
            }
        }
    }
    let page = fs::read_to_string(root().join(PAGE)).unwrap();
    let unknown = exported.keys().filter(|name| !page.contains(&format!("`{name}`")));
    missing.extend(unknown.map(|name| format!("{PAGE} does not have {name}")));
    assert!(missing.is_empty(), "{missing:#?}");
}
