//! Runs one command on every worker.

use std::ffi::{OsStr, OsString};
use std::io::{self, Write};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{ExitStatus, Stdio};
use std::time::Duration;

use anyhow::{Context, Result, bail};
use rustix::process::{Pid, Signal, kill_process_group};
use tokio::io::{AsyncBufReadExt, AsyncRead, BufReader};
use tokio::process::{Child, Command};
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep_until};
use tributary_lab::{Daemons, Lab};

use super::record::{Record, Worker};
use super::{interrupted, program, tributary_program};
use crate::daemons::service::Stop;

/// The port through which the ranks of a program find each other, as with torchrun.
const MASTER_PORT: u16 = 29500;
/// Time that commands have to end after another command has failed, and after each signal.
const GRACE: Duration = Duration::from_secs(5);

/// The prefix of each line that a worker's command prints.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Prefix {
    /// The name of the worker's host, as in `w0: `.
    Host,
    /// No prefix, for programs that read the output of the commands.
    None,
}

/// The place of a process among the processes of its host.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Place {
    process: u16,
    processes: u16,
}

impl Place {
    /// The place of a process that is alone on its host.
    const ALONE: Self = Self { process: 0, processes: 1 };
}

/// Returns the workers, each with the places of its processes, in the order of the processes' ranks.
fn places(record: &Record, processes: u16) -> impl Iterator<Item = (&Worker, Place)> {
    let of_worker = move |worker| (0..processes).map(move |process| (worker, Place { process, processes }));
    record.workers.iter().flat_map(of_worker)
}

/// Runs a command on all workers, in `ranks_per_host` processes on each, and waits for all.
///
/// # Errors
/// The command failed on a worker, or a signal stopped it. All its processes have then ended.
pub(crate) async fn run(
    lab: &Lab,
    (record, ranks_per_host): (&Record, u16),
    (command, prefix): (&[OsString], Prefix),
    stop: &mut Stop,
) -> Result<()> {
    let mut running = JoinSet::new();
    let mut groups = Groups::default();
    for (rank, (worker, place)) in places(record, ranks_per_host).enumerate() {
        let child = start(lab, record, &worker.host, place, command)?;
        groups.add(rank, &child);
        let name = match ranks_per_host {
            1 => worker.host.clone(),
            _ => format!("{}/{}", worker.host, place.process),
        };
        running.spawn(supervise((rank, name), prefix, child));
    }
    let mut failed = Vec::new();
    let mut stopped = false;
    let mut next_signal: Option<Instant> = None;
    loop {
        let at = next_signal.unwrap_or_else(Instant::now);
        tokio::select! {
            ended = running.join_next() => {
                let Some(ended) = ended else { break };
                let (rank, host, status) = ended?;
                groups.remove(rank);
                let status = status.with_context(|| format!("on {host}"))?;
                if !status.success() {
                    failed.push(format!("{host} ({status})"));
                    next_signal.get_or_insert_with(|| Instant::now() + GRACE);
                }
            }
            () = stop.requested(), if !stopped => {
                stopped = true;
                next_signal = Some(Instant::now());
            }
            () = sleep_until(at), if next_signal.is_some() => {
                groups.signal();
                next_signal = Some(Instant::now() + GRACE);
            }
        }
    }
    match (stopped, failed.is_empty()) {
        (true, _) => Err(interrupted()),
        (false, false) => bail!("the command failed on {}", failed.join(", ")),
        (false, true) => Ok(()),
    }
}

/// Returns the command that runs a user's program at a station. At a worker, it runs as the worker's
/// rank of the job. `tributary` is on the program's PATH and finds the lab's controller.
///
/// # Errors
/// The lab does not have this station; [`NoProgram`](super::NoProgram).
pub(crate) fn command_at(
    lab: &Lab,
    record: &Record,
    station: &str,
    program: impl AsRef<OsStr>,
) -> Result<std::process::Command> {
    command_in(lab, record, (station, Place::ALONE), program)
}

fn command_in(
    lab: &Lab,
    record: &Record,
    (station, place): (&str, Place),
    program: impl AsRef<OsStr>,
) -> Result<std::process::Command> {
    let (program, path) = (program.as_ref(), path_with_tributary()?);
    program::check(program, &path)?;
    let worker = record.workers.iter().enumerate().find(|(_, worker)| worker.host == station);
    let mut command = match worker {
        Some(worker) => process_command(lab, record, (worker, place), program)?,
        None => lab.command(station, program)?,
    };
    command.env("PATH", path).env("TRIBUTARY_CONTROLLER", record.controller.to_string());
    Daemons::without_certificates(&mut command);
    Ok(command)
}

/// Starts a user's command at a worker, in a separate process group, so that its children can be ended
/// with it.
fn start(lab: &Lab, record: &Record, host: &str, place: Place, command: &[OsString]) -> Result<Child> {
    let (program, arguments) = command.split_first().context("no command")?;
    let mut command = command_in(lab, record, (host, place), program)?;
    command
        .args(arguments)
        .process_group(0)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    // If this process fails before the wait, the child is killed.
    let child = Command::from(command).kill_on_drop(true).spawn();
    child.with_context(|| format!("cannot run anything on {host}"))
}

/// Returns the command that runs a program on a worker, as a rank of the job.
///
/// # Errors
/// The lab does not have this host.
pub fn worker_command(
    lab: &Lab,
    record: &Record,
    worker: (usize, &Worker),
    program: impl AsRef<OsStr>,
) -> Result<std::process::Command> {
    process_command(lab, record, (worker, Place::ALONE), program)
}

fn process_command(
    lab: &Lab,
    record: &Record,
    ((number, worker), place): ((usize, &Worker), Place),
    program: impl AsRef<OsStr>,
) -> Result<std::process::Command> {
    let Place { process, processes } = place;
    let mut command = lab.command(&worker.host, program)?;
    let per_host = usize::from(processes);
    let (rank, ranks) = (number * per_host + usize::from(process), record.workers.len() * per_host);
    command
        .env("TRIBUTARY_RANK", rank.to_string())
        .env("TRIBUTARY_WORLD_SIZE", ranks.to_string())
        .env("TRIBUTARY_PROCESS", process.to_string())
        .env("TRIBUTARY_PROCESSES", processes.to_string())
        .env("TRIBUTARY_JOB", &record.job)
        .env("TRIBUTARY_TOKEN_FILE", &record.token_file)
        .env("TRIBUTARY_SOCKET", &worker.socket);
    // The variables that torchrun would set, for programs that need them. The ranks find each other on the data
    // network, and each host counts as a machine.
    let master = record.workers.first().context("the lab has no workers")?;
    command
        .env("RANK", rank.to_string())
        .env("GROUP_RANK", number.to_string())
        .env("LOCAL_RANK", process.to_string())
        .env("WORLD_SIZE", ranks.to_string())
        .env("GROUP_WORLD_SIZE", record.workers.len().to_string())
        .env("LOCAL_WORLD_SIZE", processes.to_string())
        .env("MASTER_ADDR", master.address.to_string())
        .env("MASTER_PORT", MASTER_PORT.to_string());
    // Without this variable, gloo would look up its interface by the host's name.
    let interfaces = lab.interfaces(&worker.host)?;
    command.envs(interfaces.first().map(|interface| ("GLOO_SOCKET_IFNAME", interface.name.clone())));
    command.envs(threads_of_a_rank());
    Ok(command)
}

/// Returns the variable that sets the number of a rank's computing threads to one, unless the user has
/// set it.
///
/// All ranks share the processors of this machine. OpenMP threads, of which PyTorch starts one for each
/// processor, spin while they wait for each other, and slow down the other ranks. torchrun also sets
/// one thread if a machine has several ranks.
pub fn threads_of_a_rank() -> Option<(&'static str, String)> {
    const THREADS: &str = "OMP_NUM_THREADS";
    std::env::var_os(THREADS).is_none().then(|| (THREADS, "1".to_owned()))
}

/// Returns a PATH that begins with the folder of `tributary`, which may not be installed.
fn path_with_tributary() -> Result<OsString> {
    let program = tributary_program()?;
    let own = program.parent().unwrap_or(Path::new("/")).to_owned();
    let path = std::env::var_os("PATH").unwrap_or_default();
    Ok(std::env::join_paths(std::iter::once(own).chain(std::env::split_paths(&path)))?)
}

/// Forwards the output of a worker's command until the command has ended.
async fn supervise(
    (rank, host): (usize, String),
    prefix: Prefix,
    mut child: Child,
) -> (usize, String, io::Result<ExitStatus>) {
    let (stdout, stderr) = (child.stdout.take(), child.stderr.take());
    let prefix = if prefix == Prefix::Host { format!("{host}: ") } else { String::new() };
    let said =
        tokio::try_join!(forward(&prefix, stdout, io::stdout()), forward(&prefix, stderr, io::stderr()));
    let status = child.wait().await;
    (rank, host, said.and(status))
}

/// Forwards output line by line, with the prefix before each line.
async fn forward(prefix: &str, from: Option<impl AsyncRead + Unpin>, mut to: impl Write) -> io::Result<()> {
    let Some(from) = from else { return Ok(()) };
    let mut from = BufReader::new(from);
    let mut line = Vec::new();
    while from.read_until(b'\n', &mut line).await? > 0 {
        let text = String::from_utf8_lossy(&line);
        // One write for each line, so that lines of two workers do not mix.
        to.write_all(format!("{prefix}{}\n", text.trim_end_matches('\n')).as_bytes())?;
        line.clear();
    }
    Ok(())
}

/// The process groups of the running commands.
#[derive(Debug, Default)]
struct Groups {
    running: Vec<(usize, Pid)>,
    /// True if SIGTERM was sent already.
    asked: bool,
}

impl Groups {
    fn add(&mut self, rank: usize, child: &Child) {
        let pid = child.id().and_then(|id| Pid::from_raw(id.try_into().ok()?));
        self.running.extend(pid.map(|pid| (rank, pid)));
    }

    fn remove(&mut self, rank: usize) {
        self.running.retain(|(other, _)| *other != rank);
    }

    /// Sends SIGTERM on the first call, and SIGKILL on later calls.
    fn signal(&mut self) {
        let signal = if self.asked { Signal::KILL } else { Signal::TERM };
        self.asked = true;
        for (_, group) in &self.running {
            // The call fails only if the group has ended.
            let _ = kill_process_group(*group, signal);
        }
    }
}
