//! The training processes of a chaos run, the same number on each worker.

use std::fs::OpenOptions;
use std::ops::Range;
use std::process::Stdio;

use anyhow::{Context, Result};
use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::process::{Child, ChildStdout, Command};
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tributary_lab::Lab;

use super::event::MemberEvent;
use tributary::lab::{Record, log_file};

/// The training processes, and their events.
#[derive(Debug)]
pub(super) struct Members<'a> {
    lab: &'a Lab,
    record: &'a Record,
    /// The tensor's size, in bytes.
    size: u64,
    per_worker: usize,
    /// The process of each rank; `None` if it was killed.
    processes: Vec<Option<MemberProcess>>,
    /// Number of processes that have been started.
    started: u64,
    sender: UnboundedSender<ProcessReport>,
    receiver: UnboundedReceiver<ProcessReport>,
}

/// The process of a member.
#[derive(Debug)]
struct MemberProcess {
    child: Child,
    /// The number of the start. It distinguishes the process from earlier processes of the same rank.
    number: u64,
}

/// A report about a process.
#[derive(Debug)]
pub(super) struct ProcessReport {
    pub(super) rank: usize,
    pub(super) kind: ReportKind,
    number: u64,
}

/// The content of a report.
#[derive(Debug)]
pub(super) enum ReportKind {
    Event(MemberEvent),
    /// The process has ended without having been killed by this program.
    Ended,
}

impl<'a> Members<'a> {
    /// Creates the list of members without starting a process.
    pub(super) fn new(lab: &'a Lab, record: &'a Record, size: u64, per_worker: usize) -> Self {
        let (sender, receiver) = unbounded_channel();
        let processes = (0..record.workers.len() * per_worker).map(|_| None).collect();
        Self { lab, record, size, per_worker, processes, started: 0, sender, receiver }
    }

    /// Returns the ranks on a worker.
    pub(super) fn on_worker(&self, worker: usize) -> Range<usize> {
        worker * self.per_worker..(worker + 1) * self.per_worker
    }

    /// Returns the number of ranks.
    pub(super) fn ranks(&self) -> usize {
        self.processes.len()
    }

    /// Starts or restarts the process of every rank.
    pub(super) fn start_all(&mut self) -> Result<()> {
        (0..self.ranks()).try_for_each(|rank| self.start(rank))
    }

    /// Starts the process of a rank. If one is running, it is killed.
    pub(super) fn start(&mut self, rank: usize) -> Result<()> {
        let worker = self.record.workers.get(rank / self.per_worker).context("the job has no such rank")?;
        let host = &worker.host;
        let log = log_file(&self.lab.folder(), &format!("{host}.process"));
        let log = OpenOptions::new().create(true).append(true).open(&log);
        let mut command = self.lab.command(host, std::env::current_exe()?)?;
        command
            .args(["chaos-worker", "--size", &self.size.to_string()])
            .args(["--job", &self.record.job, "--ranks", &self.ranks().to_string()])
            .args(["--process", &(rank % self.per_worker).to_string()])
            .args(["--processes", &self.per_worker.to_string()])
            .arg("--token-file")
            .arg(&self.record.token_file)
            .arg("--socket")
            .arg(&worker.socket)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(log.with_context(|| format!("cannot write a log for {host}"))?);
        let mut child = Command::from(command).process_group(0).kill_on_drop(true).spawn()?;
        self.started += 1;
        let report = Speaker { rank, number: self.started, sender: self.sender.clone() };
        if let Some(stdout) = child.stdout.take() {
            tokio::spawn(report.forward(stdout));
        }
        // Dropping the old process kills it.
        self.processes[rank] = Some(MemberProcess { child, number: self.started });
        Ok(())
    }

    /// Kills the process of a rank with SIGKILL. The runner must start it again.
    pub(super) async fn kill(&mut self, rank: usize) -> Result<()> {
        if let Some(mut process) = self.processes.get_mut(rank).and_then(Option::take) {
            process.child.kill().await.context("cannot kill a training process")?;
        }
        Ok(())
    }

    /// Returns the next report about any process.
    pub(super) async fn next(&mut self) -> ProcessReport {
        loop {
            // `recv` never returns `None`, because `self` holds a sender.
            let Some(report) = self.receiver.recv().await else { return std::future::pending().await };
            let current = self.processes.get(report.rank).and_then(Option::as_ref);
            let is_news = current.is_some_and(|process| process.number == report.number);
            // The end of a process that was killed or replaced is expected, but the events before it still
            // count.
            if is_news || matches!(report.kind, ReportKind::Event(_)) {
                return report;
            }
        }
    }
}

/// Forwards the reports of one process to the runner.
struct Speaker {
    rank: usize,
    number: u64,
    sender: UnboundedSender<ProcessReport>,
}

impl Speaker {
    async fn forward(self, stdout: ChildStdout) {
        let mut lines = BufReader::new(stdout).lines();
        while let Ok(Some(line)) = lines.next_line().await {
            // The last line of a killed process can be incomplete.
            if let Ok(event) = serde_json::from_str(&line) {
                self.say(ReportKind::Event(event));
            }
        }
        self.say(ReportKind::Ended);
    }

    fn say(&self, kind: ReportKind) {
        // If the receiver is gone, the run is over.
        let _ = self.sender.send(ProcessReport { rank: self.rank, kind, number: self.number });
    }
}
