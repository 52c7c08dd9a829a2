//! Tests of the parameter server through the binary: trainings continue after the server is killed, and
//! invalid input is refused.

use std::collections::BTreeSet;
use std::fs;
use std::io::{BufRead, BufReader};
use std::net::{SocketAddr, TcpListener};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;
use tempfile::TempDir;
use tributary_testkit::binary::{assert_refused, json, refused, stderr, tributary};
use tributary_testkit::network::Daemon;
use tributary_testkit::{metrics, root};

const WORKERS: u16 = 3;
const PATIENCE: Duration = Duration::from_secs(120);
const TOKEN: &str = "00ff17";

/// The addresses, job and checkpoints of a parameter server.
struct Place {
    folder: TempDir,
    listen: SocketAddr,
    metrics: SocketAddr,
}

impl Place {
    fn new(policy: &str) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let free = || TcpListener::bind("127.0.0.1:0").unwrap();
        // Both sockets are open at once, because they could otherwise get the same port.
        let (listen, metrics) = (free(), free());
        let place =
            Self { listen: listen.local_addr().unwrap(), metrics: metrics.local_addr().unwrap(), folder };
        fs::write(place.file("token"), TOKEN).unwrap();
        let job = format!(
            "name = \"digits\"\nworkers = {WORKERS}\npolicy = \"{policy}\"\nepoch-iterations = 10\n\
             learning-rate = 0.2\ncheckpoint-updates = 4\ntoken-file = {:?}\n",
            place.file("token")
        );
        fs::write(place.file("job.toml"), job).unwrap();
        place
    }

    fn file(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn serve(&self) -> Daemon {
        Daemon::start(self.server())
    }

    fn server(&self) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_tributary"));
        command.current_dir(root()).args(["server", "--ps-listen", &self.listen.to_string()]);
        command.arg("--ps-job").arg(self.file("job.toml"));
        command.arg("--ps-checkpoints").arg(self.file("checkpoints"));
        command.args(["--metrics", &self.metrics.to_string()]);
        command
    }

    /// Creates a CA, with certificates for the server's host and for a worker's host.
    fn certificates(&self, folder: &str) {
        let dir = self.file(folder);
        let dir = ["--json", "--dir", dir.to_str().unwrap()];
        json(&[&["certs", "init"], &dir[..]].concat());
        let whom = ["--parameter-server", "ps=127.0.0.1", "--host", "w0"];
        json(&[&["certs", "issue"], &dir[..], &whom].concat());
    }

    /// Adds the options of a client with the certificate of `name` from the CA in `folder`.
    fn with_tls(&self, mut command: Command, folder: &str, name: &str) -> Command {
        let file = |name: &str| self.file(folder).join(name);
        command.arg("--tls-ca").arg(file("ca.crt")).arg("--tls-cert").arg(file(&format!("{name}.crt")));
        command.arg("--tls-key").arg(file(&format!("{name}.key")));
        command
    }

    /// Returns the value of a metric.
    fn metric(&self, sample: &str) -> f64 {
        metrics::value(&metrics::page(self.metrics).unwrap(), sample)
    }

    /// Waits until a metric has at least this value.
    fn wait_for(&self, sample: &str, least: f64) {
        let deadline = Instant::now() + PATIENCE;
        while self.metric(sample) < least {
            assert!(Instant::now() < deadline, "{sample} does not come to {least}");
        }
    }

    fn worker(&self, worker: u16, iterations: u32, servers: &[SocketAddr]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_tributary"));
        command.args(["ps", "worker", "--json", "--job", "digits", "--workers", &WORKERS.to_string()]);
        command.args(["--worker", &worker.to_string(), "--iterations", &iterations.to_string()]);
        command.arg("--token-file").arg(self.file("token"));
        for server in servers {
            command.args(["--server", &server.to_string()]);
        }
        command
    }

    fn start_workers(&self, iterations: u32) -> Vec<Child> {
        let start = |worker| {
            let mut command = self.worker(worker, iterations, &[self.listen]);
            command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
        };
        (0..WORKERS).map(start).collect()
    }
}

fn reports(workers: Vec<Child>) -> Vec<Value> {
    let report = |worker: Child| {
        let output = worker.wait_with_output().unwrap();
        assert!(output.status.success(), "{}", stderr(&output));
        serde_json::from_slice(&output.stdout).unwrap()
    };
    workers.into_iter().map(report).collect()
}

const UPDATES: &str = "tributary_ps_updates_total{job=\"digits\"}";
const CHECKPOINTS: &str = "tributary_ps_checkpoints_total{job=\"digits\"}";

/// Trains, and returns the workers' reports. If `kill` is true, kills the server after two checkpoints
/// and restarts it.
fn train(place: &Place, iterations: u32, kill: bool) -> Vec<Value> {
    let mut server = place.serve();
    let workers = place.start_workers(iterations);
    if kill {
        place.wait_for(CHECKPOINTS, 2.0);
        server.kill();
        server = place.serve();
    }
    let reports = reports(workers);
    for report in &reports {
        assert_eq!(report["iterations"], iterations);
    }
    let (status, log) = server.terminate();
    assert_eq!(status.code(), Some(0), "{log}");
    assert_eq!(log.contains("goes on from its checkpoint"), kill, "{log}");
    reports
}

#[test]
fn synchronous_training_ends_with_the_same_bits_when_the_server_is_killed() {
    let parameters = |reports: &[Value]| -> BTreeSet<String> {
        reports.iter().map(|report| report["parameters"].as_str().unwrap().to_owned()).collect()
    };
    let whole = parameters(&train(&Place::new("bsp"), 60, false));
    let killed = parameters(&train(&Place::new("bsp"), 60, true));
    // The parameters would differ if a gradient were lost or used twice.
    assert_eq!(whole.len(), 1);
    assert_eq!(whole, killed);
}

/// Workers consider a server dead if it is silent for 20 seconds. The server cannot know which workers
/// have done so.
#[test]
fn a_server_that_has_stood_still_gathers_its_workers_again_and_ends_with_the_same_bits() {
    let train = |stop: bool| {
        let place = Place::new("bsp");
        let server = place.serve();
        let start = |worker| {
            let mut command = place.worker(worker, 40, &[place.listen]);
            command.args(["--step-time", "0.02"]).stdout(Stdio::piped()).stderr(Stdio::piped());
            command.spawn().unwrap()
        };
        let mut workers: Vec<Child> = (0..WORKERS).map(start).collect();
        place.wait_for(UPDATES, 3.0);
        if stop {
            server.signal("-STOP");
            let said = BufReader::new(workers[0].stderr.as_mut().unwrap()).lines().map(Result::unwrap);
            let seconds =
                |line: String| line.split_once("no step for ")?.1.split_once(' ')?.0.parse::<u64>().ok();
            // At this time, the worker has closed its session, or is about to do so.
            assert!(said.filter_map(seconds).any(|seconds| seconds >= 20));
            server.signal("-CONT");
        }
        let reports = reports(workers);
        let (_, log) = server.terminate();
        assert_eq!(log.contains("this server has stood still"), stop, "{log}");
        for report in &reports {
            assert_eq!((&report["iterations"], &report["updates"]), (&40.into(), &40.into()), "{log}");
        }
        reports[0]["parameters"].as_str().unwrap().to_owned()
    };
    assert_eq!(train(true), train(false));
}

#[test]
fn layers_by_themselves_change_nothing_but_what_a_codec_scales() {
    let train = |options: &[&str]| {
        let place = Place::new("bsp");
        let server = place.serve();
        let start = |number| {
            let mut command = place.worker(number, 10, &[place.listen]);
            command.args(options).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
        };
        let reports = reports((0..WORKERS).map(start).collect());
        server.terminate();
        reports[0]["parameters"].as_str().unwrap().to_owned()
    };
    assert_eq!(train(&["--by-layer"]), train(&[]));
    // Small layers lose less if the largest layer does not determine the distance of their levels.
    let coarse = ["--codec", "uniform-8"];
    assert_ne!(train(&[&coarse[..], &["--by-layer"]].concat()), train(&coarse));
}

#[test]
fn no_policy_hangs_or_updates_twice_when_the_server_is_killed() {
    for policy in ["asp", "ssp", "a2s"] {
        let place = Place::new(policy);
        let server = place.serve();
        let workers = place.start_workers(60);
        place.wait_for(CHECKPOINTS, 2.0);
        server.kill();
        let server = place.serve();
        let computed: u64 = reports(workers).iter().map(|report| report["computed"].as_u64().unwrap()).sum();
        let updates = place.metric(UPDATES);
        let most = f64::from(WORKERS) * 60.0;
        assert!(computed as f64 >= most);
        // The adaptive policy makes one update from several gradients; the other policies make one from each.
        assert!(if policy == "a2s" { updates <= most } else { updates == most }, "{policy}: {updates}");
        server.terminate();
        // The checkpoint contains the complete training, so workers that join again have nothing left to do.
        let server = place.serve();
        let again = place.start_workers(60);
        for report in reports(again) {
            assert_eq!((&report["iterations"], &report["computed"]), (&60.into(), &0.into()));
            assert_eq!(report["updates"].as_f64(), Some(updates), "{policy}");
        }
        server.terminate();
    }
}

#[test]
fn two_servers_hold_a_range_each() {
    let places = [Place::new("a2s"), Place::new("a2s")];
    let servers: Vec<_> = places.iter().map(Place::serve).collect();
    let addresses = [places[0].listen, places[1].listen];
    let start = |worker| {
        let mut command = places[0].worker(worker, 30, &addresses);
        command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
    };
    for report in reports((0..WORKERS).map(start).collect()) {
        assert_eq!(report["iterations"], 30);
        assert!(report["accuracy"].as_f64().unwrap() > 0.3, "{report}");
    }
    for server in servers {
        assert_eq!(server.terminate().0.code(), Some(0));
    }
}

#[test]
fn who_does_not_belong_is_refused_and_the_others_go_on() {
    let place = Place::new("bsp");
    let server = place.serve();
    let refuse = |mut command: Command, word: &str| {
        let output = command.output().unwrap();
        let said = stderr(&output);
        assert_eq!(output.status.code(), Some(1), "{said}");
        assert!(said.contains(word) && said.contains(&place.listen.to_string()), "{said}");
    };
    let worker = |number| place.worker(number, 5, &[place.listen]);
    fs::write(place.file("token"), "00ff18").unwrap();
    refuse(worker(0), "token");
    fs::write(place.file("token"), TOKEN).unwrap();
    let workers = place.start_workers(5);
    assert_eq!(reports(workers).len(), 3);
    server.terminate();
}

#[test]
fn a_worker_whose_server_is_not_there_says_so_while_it_waits() {
    let place = Place::new("bsp");
    let mut worker = place.worker(0, 5, &[place.listen]).stderr(Stdio::piped()).spawn().unwrap();
    let said = BufReader::new(worker.stderr.take().unwrap()).lines().map(Result::unwrap);
    // If the line is missing, this waits until the worker ends.
    let unreachable: Vec<_> =
        said.filter(|line| line.contains("a parameter server is unreachable")).take(1).collect();
    assert!(unreachable[0].contains(&place.listen.to_string()), "{unreachable:?}");
    worker.kill().unwrap();
    worker.wait().unwrap();
}

#[test]
fn a_worker_learns_for_whom_it_waits() {
    let place = Place::new("bsp");
    let mut server = place.serve();
    let mut worker = place.worker(1, 5, &[place.listen]).stderr(Stdio::piped()).spawn().unwrap();
    let mut said = BufReader::new(worker.stderr.take().unwrap()).lines().map(Result::unwrap);
    let waits = said.find(|line| line.contains("no step for")).unwrap();
    assert!(
        waits.contains("workers 0 and 2 have not joined") && waits.contains("starts without them in"),
        "{waits}"
    );
    server.wait_for_line("training has not started");
    worker.kill().unwrap();
    worker.wait().unwrap();
}

#[test]
fn workers_of_another_seed_are_refused() {
    let place = Place::new("bsp");
    let mut server = place.serve();
    let worker = |number| place.worker(number, 5, &[place.listen]);
    let mut first = worker(0).stderr(Stdio::null()).stdout(Stdio::null()).spawn().unwrap();
    server.wait_for_line("a worker has joined");
    let mut other = worker(1);
    other.args(["--seed", "7"]);
    assert_refused(&other.output().unwrap(), &["seed 7", "seed 1", "start all with the same"]);
    first.kill().unwrap();
    first.wait().unwrap();
    server.terminate();
}

#[test]
fn a_model_that_diverges_is_no_success() {
    let place = Place::new("asp");
    let job = fs::read_to_string(place.file("job.toml")).unwrap().replace("0.2", "1e38");
    fs::write(place.file("job.toml"), job).unwrap();
    let _server = place.serve();
    for worker in place.start_workers(4) {
        assert_refused(&worker.wait_with_output().unwrap(), &["the model has diverged", "learning-rate"]);
    }
}

#[test]
fn with_certificates_workers_train_and_strangers_are_not_listened_to() {
    let place = Place::new("bsp");
    place.certificates("certs");
    place.certificates("others");
    let mut server = Daemon::start(place.with_tls(place.server(), "certs", "ps"));
    let worker = |number| place.worker(number, 5, &[place.listen]);
    let refuse = |mut command: Command, words: &[&str]| {
        assert_refused(&command.output().unwrap(), &[&["parameter server at"], words].concat());
    };
    refuse(worker(0), &["it demands TLS", "--tls-ca"]);
    refuse(place.with_tls(worker(0), "others", "w0"), &["is not signed by", "others/ca.crt"]);
    let mut stranger = worker(0);
    stranger.arg("--tls-ca").arg(place.file("certs/ca.crt"));
    stranger.arg("--tls-cert").arg(place.file("others/w0.crt"));
    stranger.arg("--tls-key").arg(place.file("others/w0.key"));
    assert_refused(&stranger.output().unwrap(), &["others/w0.crt", "is not signed by", "certs/ca.crt"]);
    server.wait_for_line("turned a client away");
    let start = |number| {
        let mut command = place.with_tls(worker(number), "certs", "w0");
        command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
    };
    assert_eq!(reports((0..WORKERS).map(start).collect()).len(), usize::from(WORKERS));
    server.terminate();
    // A client's certificate is not sufficient for a server.
    let mut host = place.with_tls(place.server(), "certs", "w0");
    assert_refused(&host.output().unwrap(), &["certs/w0.crt", "is not for servers"]);
    let plain = place.serve();
    refuse(place.with_tls(worker(0), "certs", "w0"), &["does not speak TLS", "--tls-key and --tls-ca"]);
    plain.terminate();
}

#[test]
fn settings_that_make_no_sense_are_refused() {
    refused(&["server"], 2, &["--host", "--ps-listen"]);
    refused(&["server", "--ps-job", "a.toml"], 2, &["--ps-listen"]);
    refused(&["server", "--ps-listen", "127.0.0.1:0"], 2, &["--ps-job"]);
    let place = Place::new("bsp");
    let job = place.file("job.toml");
    let serve = |status, words: &[&str]| {
        let arguments = ["server", "--ps-listen", "127.0.0.1:0", "--ps-job", job.to_str().unwrap()];
        refused(&arguments, status, words);
    };
    let good = fs::read_to_string(&job).unwrap();
    fs::write(&job, good.replace("\"bsp\"", "\"bps\"")).unwrap();
    serve(2, &["job.toml", "bps"]);
    fs::write(&job, good.replace("0.2", "-1")).unwrap();
    serve(2, &["job.toml", "learning-rate"]);
    fs::write(&job, format!("{good}lerning = 1\n")).unwrap();
    serve(2, &["job.toml", "lerning"]);
    fs::remove_file(place.file("token")).unwrap();
    fs::write(&job, good).unwrap();
    serve(1, &["token"]);
    // A server would wait forever for a pipe's other end, and would read a device until the memory is
    // full.
    let pipe = |path| assert!(Command::new("mkfifo").arg(path).status().unwrap().success());
    pipe(place.file("token"));
    serve(1, &["token", "not a regular file"]);
    fs::remove_file(place.file("token")).unwrap();
    fs::write(place.file("token"), TOKEN).unwrap();
    fs::create_dir(place.file("checkpoints")).unwrap();
    pipe(place.file("checkpoints/digits.checkpoint"));
    assert_refused(&place.server().output().unwrap(), &["digits.checkpoint", "not a regular file"]);
    refused(&["ps", "run", "--policy", "bulk"], 2, &["bsp", "a2s"]);
    refused(&["ps", "run", "--codec", "zip"], 2, &["casq-4"]);
    refused(&["ps", "run", "--codec", "casq-4-shared"], 2, &["codebook"]);
    refused(&["ps", "run", "--seconds", "0"], 2, &["seconds"]);
}

#[test]
fn an_experiment_reports_its_figures_and_draws_them() {
    let folder = tempfile::tempdir().unwrap();
    let picture = folder.path().join("timeline.svg");
    let mut arguments = vec!["ps", "run", "--json", "--policy", "bsp", "--seconds", "1", "--speeds", "1,2"];
    arguments.extend(["--step-time", "0.02", "--codec", "casq-4", "--plot", picture.to_str().unwrap()]);
    let report = json(&arguments);
    assert_eq!((&report["policy"], &report["codec"]), (&"bsp".into(), &"casq-4".into()));
    assert_eq!(report["staleness"], 0.0);
    assert_eq!(report["iterations"].as_u64().unwrap(), 2 * report["updates"].as_u64().unwrap());
    // The worker that waits, and the duration of the wait, depend on chance.
    for worker in 0..2 {
        let idle = report["workers"][worker]["idle"].as_f64().unwrap();
        assert!((0.0..=1.0).contains(&idle), "{report}");
    }
    let drawing = fs::read_to_string(picture).unwrap();
    assert!(drawing.contains("worker 0") && drawing.contains("worker 1") && drawing.contains("</svg>"));
}

#[test]
fn a_comparison_has_every_policy_and_exits_as_its_gates_say() {
    let mut arguments = vec!["ps", "compare", "policies", "--json", "--seeds", "1", "--seconds", "1"];
    let folder = tempfile::tempdir().unwrap();
    let picture = folder.path().join("who-waits.svg");
    arguments.extend(["--step-time", "0.02", "--plot", picture.to_str().unwrap()]);
    let output = tributary(&arguments);
    let report: Value = serde_json::from_slice(&output.stdout).unwrap();
    let names: Vec<_> = report["policies"].as_array().unwrap().iter().map(|row| &row["policy"]).collect();
    assert_eq!(names, ["bsp", "asp", "ssp", "a2s"]);
    let picture = fs::read_to_string(picture).unwrap();
    for policy in names {
        assert!(picture.contains(&format!("{}, seed 1: accuracy", policy.as_str().unwrap())), "{policy}");
    }
    assert!(picture.contains("worker 7"), "a row for each worker");
    let gates = report["gates"].as_array().unwrap();
    assert_eq!(gates.len(), 4);
    let passed = gates.iter().all(|gate| gate["passed"] == true);
    assert_eq!(output.status.code(), Some(if passed { 0 } else { 1 }), "{}", stderr(&output));
}
