//! The training processes of a phase, one on each worker.

use std::fs::OpenOptions;
use std::process::Stdio;

use anyhow::{Context, Result, bail};
use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::process::{Child, ChildStdout};
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tributary_lab::Lab;

use super::event::WorkerEvent;
use tributary::lab::{Record, log_file, worker_command};

/// The training processes and their events. The processes are killed when this value is dropped.
pub(super) struct Processes {
    children: Vec<Child>,
    receiver: UnboundedReceiver<(usize, ProcessEvent)>,
    logs: String,
}

/// An event of a process, or the end of its output.
enum ProcessEvent {
    Event(WorkerEvent),
    Ended,
}

impl Processes {
    /// Starts this program with these arguments on every worker.
    ///
    /// # Errors
    /// A process cannot be started.
    pub(super) fn start(lab: &Lab, record: &Record, arguments: &[String]) -> Result<Self> {
        let (sender, receiver) = unbounded_channel();
        let mut children = Vec::new();
        for (rank, worker) in record.workers.iter().enumerate() {
            let log = log_file(&lab.folder(), &format!("{}.process", worker.host));
            let log = OpenOptions::new().create(true).append(true).open(&log);
            let mut command = worker_command(lab, record, (rank, worker), std::env::current_exe()?)?;
            command
                .args(arguments)
                .stdin(Stdio::null())
                .stdout(Stdio::piped())
                .stderr(log.with_context(|| format!("cannot write a log for {}", worker.host))?);
            let mut command = tokio::process::Command::from(command);
            let mut child = command.process_group(0).kill_on_drop(true).spawn()?;
            if let Some(stdout) = child.stdout.take() {
                tokio::spawn(forward(rank, stdout, sender.clone()));
            }
            children.push(child);
        }
        Ok(Self { children, receiver, logs: format!("{}/*.process.log", lab.folder().display()) })
    }

    /// Returns the next event of any process, with the process's rank.
    ///
    /// # Errors
    /// A process has ended, although none should.
    pub(super) async fn next(&mut self) -> Result<(usize, WorkerEvent)> {
        match self.receiver.recv().await {
            Some((rank, ProcessEvent::Event(event))) => Ok((rank, event)),
            Some((rank, ProcessEvent::Ended)) => {
                bail!("the process of rank {rank} has ended unexpectedly: see {}", self.logs)
            }
            None => bail!("all training processes have ended unexpectedly: see {}", self.logs),
        }
    }

    /// Kills all processes.
    ///
    /// # Errors
    /// A process cannot be killed.
    pub(super) async fn kill(mut self) -> Result<()> {
        for child in &mut self.children {
            child.kill().await.context("cannot kill a training process")?;
        }
        Ok(())
    }
}

async fn forward(rank: usize, stdout: ChildStdout, sender: UnboundedSender<(usize, ProcessEvent)>) {
    let mut lines = BufReader::new(stdout).lines();
    while let Ok(Some(line)) = lines.next_line().await {
        // The last line of a killed process can be incomplete.
        if let Ok(event) = serde_json::from_str(&line) {
            // If the receiver is gone, the phase is over.
            let _ = sender.send((rank, ProcessEvent::Event(event)));
        }
    }
    let _ = sender.send((rank, ProcessEvent::Ended));
}
