//! Daemons in a lab: the real binary in network namespaces, on veth interfaces.

use std::io::{self, BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Output, Stdio};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::thread;
use std::time::{Duration, Instant};

use serde_json::Value;
use tempfile::TempDir;
use tributary_lab::{CONTROLLER, Cut, Daemons, Lab, LabError, LabOptions};
use tributary_p4runtime::Target;
use tributary_topology::Topology;

use crate::binary::{self, stderr};
use crate::{metrics, root};

/// Time limit for any operation of a daemon. A daemon that takes longer has a defect.
const PATIENCE: Duration = Duration::from_secs(120);

const PARAMETER_SERVER_PORT: u16 = 29812;
const METRICS_PORT: u16 = 9100;
/// Flags for a daemon that serves metrics.
pub const METRICS: [&str; 2] = ["--metrics", "0.0.0.0:9100"];

/// A lab with a topology's network, and a folder for sockets and tokens.
pub struct Network {
    /// The topology.
    pub topology: Topology,
    folder: TempDir,
    lab: Lab,
}

impl Network {
    /// Brings up the network. Prints a message and returns `None` if this process may not make a lab.
    pub fn up(name: &str, topology: &str) -> Option<Self> {
        let topology = Topology::load(root().join("topologies").join(topology)).unwrap();
        let name = format!("{name}-{}", std::process::id());
        match Lab::up(&topology, &LabOptions::new(name.as_str())) {
            Ok(lab) => Some(Self { topology, folder: tempfile::tempdir().unwrap(), lab }),
            Err(error @ (LabError::NotPermitted | LabError::MissingTool { .. })) => {
                // Writes to standard error directly, because the test harness hides the output of a test that
                // passes.
                let note = format!("SKIPPED, for want of a network: {name}: {error}\n");
                io::stderr().write_all(note.as_bytes()).unwrap();
                None
            }
            Err(error) => panic!("{error}"),
        }
    }

    /// Returns the path of a file in this test's folder.
    pub fn file(&self, name: &str) -> String {
        self.folder.path().join(name).to_str().unwrap().to_owned()
    }

    /// Returns the socket of a host's agent.
    pub fn socket(&self, host: &str) -> PathBuf {
        self.daemons().socket(host)
    }

    fn daemons(&self) -> Daemons<'_> {
        Daemons::new(&self.lab, binary::path())
    }

    /// Returns the address at which other stations' daemons reach a station.
    pub fn address(&self, station: &str) -> String {
        self.lab.management_address(station).unwrap().to_string()
    }

    /// Returns the value of a metric of the daemon at `station`, which was started with [`METRICS`].
    ///
    /// `sample` is the metric's name and labels, in Prometheus's notation.
    pub fn metric(&self, station: &str, sample: &str) -> f64 {
        let address = self.lab.management_address(station).unwrap();
        let page = self.lab.inside(CONTROLLER, || metrics::page((address, METRICS_PORT)).unwrap()).unwrap();
        metrics::value(&page, sample)
    }

    /// Returns a command that runs `tributary` with these arguments at a station.
    pub fn command(&self, station: &str, arguments: &[&str]) -> Command {
        self.daemons().command(station, arguments).unwrap()
    }

    /// Returns a command that runs any program at a station.
    pub fn tool(&self, station: &str, program: &str) -> Command {
        self.lab.command(station, program).unwrap()
    }

    /// Runs `work` on a thread at a station. The thread's sockets are in the station's network namespace.
    pub fn inside<T: Send>(&self, station: &str, work: impl FnOnce() -> T + Send) -> T {
        self.lab.inside(station, work).unwrap()
    }

    /// Returns the name of a host's first interface.
    pub fn interface(&self, host: &str) -> String {
        self.lab.interfaces(host).unwrap()[0].name.clone()
    }

    /// Drops all frames of a link.
    pub fn cut(&self, link: &str) {
        self.lab.cut(link, Cut::Silent).unwrap();
    }

    /// Lets a link's frames pass again.
    pub fn repair(&self, link: &str) {
        self.lab.repair(link).unwrap();
    }

    /// Returns the controller's address, as flags.
    pub fn controller(&self) -> [String; 2] {
        ["--controller".to_owned(), self.daemons().controller_address().unwrap().to_string()]
    }

    /// Returns the command of a switch.
    pub fn switch_command(&self, name: &str) -> Command {
        let id = self.topology[self.topology.find(name).unwrap()].id.get();
        self.daemons().switch(name, id).unwrap()
    }

    /// Returns a switch in the form in which its controller addresses it.
    pub fn switch_target(&self, name: &str) -> Target {
        let id = self.topology[self.topology.find(name).unwrap()].id.get();
        let address = self.daemons().p4runtime_address(name).unwrap().to_string();
        Target { name: name.to_owned(), address, device_id: id.into() }
    }

    /// Starts all switches.
    pub fn start_switches(&self) -> Vec<Daemon> {
        let switches = self.topology.switches();
        switches.map(|(_, node, _)| Daemon::start(self.switch_command(&node.name))).collect()
    }

    /// Returns the command of the controller.
    pub fn controller_command(&self) -> Command {
        let file = root().join(format!("topologies/{}.toml", self.topology.name()));
        self.controller_command_with(file.to_str().unwrap())
    }

    /// Returns the command of the controller with another topology file.
    pub fn controller_command_with(&self, topology: &str) -> Command {
        self.daemons().controller(&self.topology, (Path::new(topology), None)).unwrap()
    }

    /// Returns the folder of the controller's journal.
    pub fn journal(&self) -> PathBuf {
        self.lab.folder().join("controller-state/jobs.redb")
    }

    /// Returns the command of a host's agent.
    pub fn agent_command(&self, host: &str) -> Command {
        self.daemons().agent(host).unwrap()
    }

    /// Returns the command of a second agent on a host, for other processes.
    pub fn other_agent_command(&self, host: &str) -> Command {
        let mut command = self.daemons().member("agent", host).unwrap();
        command.args(["--socket", &self.file(&format!("other-{host}.sock"))]);
        command
    }

    /// Starts the agents of all workers.
    pub fn start_agents(&self) -> Vec<Daemon> {
        self.workers().iter().map(|host| Daemon::start(self.agent_command(host))).collect()
    }

    /// Returns the hosts of the topology's workers.
    pub fn workers(&self) -> Vec<String> {
        self.topology.workers().iter().map(|key| self.topology[*key].name.clone()).collect()
    }

    /// Returns the command of a job's aggregation server.
    pub fn server_command(&self, job: &str) -> Command {
        let server = &self.topology[self.topology.servers()[0]].name;
        let mut command = self.daemons().server(server).unwrap();
        command.args(["--job", job, "--token-file", &self.token(job)]);
        command
    }

    /// Returns the command of the parameter server for a job file, and the address for its workers.
    ///
    /// It runs on the aggregation server's host.
    pub fn parameter_server_command(&self, job_file: &str) -> (Command, String) {
        let server = &self.topology[self.topology.servers()[0]].name;
        let address = format!("{}:{PARAMETER_SERVER_PORT}", self.lab.management_address(server).unwrap());
        let mut command = self.daemons().member("server", server).unwrap();
        command.args(["--ps-listen", &address, "--ps-job", job_file]).args(METRICS);
        (command, address)
    }

    /// Returns the path of the file with a job's token.
    pub fn token(&self, job: &str) -> String {
        self.file(&format!("{job}.token"))
    }

    /// Runs `tributary` at the controller's station. It must succeed and print one JSON object.
    pub fn ask(&self, arguments: &[&str]) -> Value {
        let mut command = self.command(CONTROLLER, arguments);
        let output = command.args(self.controller()).arg("--json").output().unwrap();
        assert!(output.status.success(), "{arguments:?}: {}", stderr(&output));
        serde_json::from_slice(&output.stdout).unwrap()
    }

    /// Creates a job, and writes its token to its file.
    pub fn create_job(&self, job: &str) -> Value {
        self.ask(&["jobs", "create", job, "--token-out", &self.token(job)])
    }

    /// Creates a job that fails when it loses a member.
    pub fn create_rigid_job(&self, job: &str) -> Value {
        self.ask(&["jobs", "create", job, "--rigid", "--token-out", &self.token(job)])
    }

    /// Returns the command of a worker that reduces, and checks the sums.
    pub fn allreduce_command(&self, host: &str, job: &str, options: &[&str]) -> Command {
        let mut command = self.command(host, &["allreduce", "--job", job, "--json", "--check"]);
        command.arg("--socket").arg(self.socket(host));
        command.args(["--token-file", &self.token(job)]).args(options);
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        command
    }

    /// Starts a job whose workers reduce until they are stopped, and waits for its first progress.
    ///
    /// Returns the job's server, and the workers' processes in the workers' order.
    pub fn start_endless_job(&self, job: &str) -> (Daemon, Vec<Daemon>) {
        self.create_job(job);
        self.start_endless(job)
    }

    /// Does the work of [`start_endless_job`](Self::start_endless_job) for an existing job.
    pub fn start_endless(&self, job: &str) -> (Daemon, Vec<Daemon>) {
        let server = Daemon::start(self.server_command(job));
        let options = ["--size", "64KiB", "--iterations", "1000000"];
        let client = |host: &String| Daemon::spawn(self.allreduce_command(host, job, &options));
        let clients = self.workers().iter().map(client).collect();
        self.wait_for_progress(job, 1);
        (server, clients)
    }

    /// Runs an all-reduce on all workers at once.
    pub fn allreduce(&self, job: &str, options: &[&str]) -> Vec<Output> {
        let start = |host: &String| self.allreduce_command(host, job, options).spawn().unwrap();
        let children: Vec<Child> = self.workers().iter().map(start).collect();
        children.into_iter().map(|child| child.wait_with_output().unwrap()).collect()
    }

    /// Returns the state of a job, and the reason if it failed.
    pub fn job(&self, job: &str) -> (String, String) {
        let jobs = self.ask(&["jobs", "list"]);
        let found = jobs["jobs"].as_array().unwrap().iter().rev().find(|listed| listed["job"] == job);
        let text = |key: &str| found.unwrap()[key].as_str().unwrap().to_owned();
        (text("state"), text("reason"))
    }

    /// Returns the data-plane id of a job's present generation.
    pub fn job_id(&self, job: &str) -> u64 {
        let jobs = self.ask(&["jobs", "list"]);
        let found = jobs["jobs"].as_array().unwrap().iter().rev().find(|listed| listed["job"] == job);
        found.unwrap()["job_id"].as_u64().unwrap()
    }

    /// Returns the number of slices that a job's server has finished, by the controller's count.
    pub fn progress(&self, job: &str) -> u64 {
        let jobs = self.ask(&["jobs", "list"]);
        let found = jobs["jobs"].as_array().unwrap().iter().rev().find(|listed| listed["job"] == job);
        found.unwrap()["slices_completed"].as_u64().unwrap()
    }

    /// Waits until a job has finished this many slices.
    pub fn wait_for_progress(&self, job: &str, slices: u64) {
        let deadline = Instant::now() + PATIENCE;
        loop {
            let now = self.progress(job);
            if now >= slices {
                return;
            }
            assert!(Instant::now() < deadline, "job {job} has finished {now} slices, not {slices}");
        }
    }

    /// Waits until a running job has changed its generation for this reason.
    pub fn wait_for_change(&self, job: &str, reason: &str) {
        let deadline = Instant::now() + PATIENCE;
        loop {
            let jobs = self.ask(&["jobs", "list"]);
            let found = jobs["jobs"].as_array().unwrap().iter().rev().find(|listed| listed["job"] == job);
            let found = found.unwrap();
            if found["last_change"].as_str().unwrap().contains(reason) {
                assert_eq!(found["state"], "running", "{found}");
                return;
            }
            assert!(Instant::now() < deadline, "{reason:?} has not changed the job: {found}");
        }
    }

    /// Waits until a job is in `state`, and returns the reason.
    pub fn wait_for_job(&self, job: &str, state: &str) -> String {
        let deadline = Instant::now() + PATIENCE;
        loop {
            let (now, reason) = self.job(job);
            if now == state {
                return reason;
            }
            assert!(Instant::now() < deadline, "job {job} is {now}, not {state}: {reason}");
        }
    }

    /// Waits until the controller reports a switch in this state.
    pub fn wait_for_switch(&self, switch: &str, state: &str) {
        let deadline = Instant::now() + PATIENCE;
        loop {
            let counters = self.ask(&["counters", "--switch", switch]);
            let now = &counters["switches"][0]["switch"];
            if now["state"] == state {
                return;
            }
            assert!(Instant::now() < deadline, "not {state}: {now}");
        }
    }
}

/// A running daemon, which is killed when this value is dropped.
pub struct Daemon {
    child: Child,
    lines: Receiver<String>,
    log: String,
}

impl Daemon {
    /// Starts a daemon, and waits until it is ready.
    pub fn start(command: Command) -> Self {
        let mut daemon = Self::spawn(command);
        daemon.wait_for_line("ready");
        daemon
    }

    /// Starts a daemon without waiting.
    pub fn spawn(mut command: Command) -> Self {
        let mut child = command.stderr(Stdio::piped()).spawn().unwrap();
        let errors = BufReader::new(child.stderr.take().unwrap());
        let (sender, lines) = mpsc::channel();
        thread::spawn(move || {
            for line in errors.lines() {
                if sender.send(line.unwrap()).is_err() {
                    return;
                }
            }
        });
        Self { child, lines, log: String::new() }
    }

    /// Waits until the daemon has logged a line with these words.
    pub fn wait_for_line(&mut self, words: &str) {
        let deadline = Instant::now() + PATIENCE;
        loop {
            match self.next_line(deadline) {
                Some(line) if line.contains(words) => return,
                Some(_) => {}
                None => panic!("it ended without {words:?}:\n{}", self.log),
            }
        }
    }

    /// Sends SIGTERM, and waits for the daemon's end. Returns its status and its log.
    pub fn terminate(self) -> (ExitStatus, String) {
        self.signal("-TERM");
        self.end()
    }

    /// Sends SIGKILL, and waits for the daemon's end.
    pub fn kill(self) {
        self.signal("-KILL");
        self.end();
    }

    /// Waits until the daemon has ended by itself. Returns its status and its log.
    pub fn end(mut self) -> (ExitStatus, String) {
        let deadline = Instant::now() + PATIENCE;
        // The daemon's standard error ends when the daemon ends.
        while self.next_line(deadline).is_some() {}
        (self.child.wait().unwrap(), std::mem::take(&mut self.log))
    }

    /// Sends a signal to the daemon. `signal` is its name for `kill`.
    pub fn signal(&self, signal: &str) {
        let sent = Command::new("kill").args([signal, &self.child.id().to_string()]).status();
        assert!(sent.unwrap().success());
    }

    fn next_line(&mut self, deadline: Instant) -> Option<String> {
        match self.lines.recv_timeout(deadline.saturating_duration_since(Instant::now())) {
            Ok(line) => {
                self.log += &line;
                self.log.push('\n');
                Some(line)
            }
            Err(RecvTimeoutError::Disconnected) => None,
            Err(RecvTimeoutError::Timeout) => panic!("still waiting after {PATIENCE:?}:\n{}", self.log),
        }
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        // An error is harmless: the daemon may have ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
