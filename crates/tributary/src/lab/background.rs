//! Daemons of a lab, which continue to run after this process ends.

use std::fs::{self, OpenOptions};
use std::net::{SocketAddrV4, TcpStream};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use anyhow::{Context, Result, bail};
use tokio::net::UnixDatagram;
use tokio::process::Child;
use tokio::time::{interval, sleep};
use tributary_lab::{CONTROLLER, Lab};

use super::launch::{Launch, Ready};

/// Time that a daemon may take to become ready, even on a slow machine. A daemon that needs longer is
/// defective.
const PATIENCE: Duration = Duration::from_secs(60);
/// The number of lines from the end of a log that an error shows.
const SHOWN_LINES: usize = 5;
/// The interval of checks for whether a daemon accepts connections, and the timeout of each check.
const LOOK_INTERVAL: Duration = Duration::from_millis(50);
const LOOK_TIMEOUT: Duration = Duration::from_secs(1);

/// A daemon that was started and may not be ready yet.
#[derive(Debug)]
pub(super) struct Background {
    name: String,
    child: Child,
    /// The daemon's process id.
    pub(crate) process: u32,
    log: PathBuf,
    /// The socket on which the daemon reports that it is ready, with systemd's protocol.
    notify: UnixDatagram,
    notify_path: PathBuf,
    ready: Ready,
}

impl Background {
    /// Starts the daemon at a station, with a log in `folder`.
    pub(crate) fn launch(folder: &Path, name: &str, launch: &Launch) -> Result<Self> {
        Self::start(folder, name, (launch.command(), Stdio::null()), launch.ready())
    }

    /// Starts a command with this standard input, and with a log in `folder`. The command has a separate
    /// process group, so that Ctrl-C does not reach it.
    pub(crate) fn start(
        folder: &Path,
        name: &str,
        (mut command, stdin): (Command, Stdio),
        ready: Ready,
    ) -> Result<Self> {
        let notify_path = folder.join(format!("{name}.notify"));
        // The file exists if an earlier process was killed while it waited for the daemon.
        let _ = fs::remove_file(&notify_path);
        let notify =
            UnixDatagram::bind(&notify_path).with_context(|| format!("{}", notify_path.display()))?;
        let log = log_file(folder, name);
        let file = OpenOptions::new().create(true).append(true).open(&log);
        let file = file.with_context(|| format!("cannot write the log {}", log.display()))?;
        command
            .env("NOTIFY_SOCKET", &notify_path)
            .process_group(0)
            .stdin(stdin)
            .stdout(file.try_clone()?)
            .stderr(file);
        let child = tokio::process::Command::from(command).spawn();
        let child = child.with_context(|| format!("cannot start the daemon of {name}"))?;
        // The child has not been waited for, so it has an id.
        let process = child.id().unwrap_or_default();
        Ok(Self { name: name.to_owned(), child, process, log, notify, notify_path, ready })
    }

    /// Waits until the daemon is ready.
    ///
    /// # Errors
    /// The daemon has ended or needs too long; the error contains the end of its log.
    pub(super) async fn ready(mut self, lab: &Lab) -> Result<()> {
        let ready = async {
            match self.ready {
                Ready::Notifies => notified(&self.notify).await,
                Ready::TakesConnections(address) => takes_connections(lab, address).await,
            }
        };
        let problem = tokio::select! {
            done = ready => return done,
            status = self.child.wait() => format!("ended ({})", status?),
            () = sleep(PATIENCE) => format!("is not ready after {PATIENCE:?}"),
        };
        bail!("the daemon of {} {problem}; its last log lines: {}", self.name, last_words(&self.log));
    }
}

impl Drop for Background {
    fn drop(&mut self) {
        // The path is removed, because the next daemon with this name binds it again.
        let _ = fs::remove_file(&self.notify_path);
    }
}

/// Waits until the daemon reports that it is ready.
async fn notified(notify: &UnixDatagram) -> Result<()> {
    let mut message = [0; 256];
    loop {
        let length = notify.recv(&mut message).await?;
        let message = message.get(..length).unwrap_or_default();
        if message.split(|&byte| byte == b'\n').any(|line| line == b"READY=1") {
            return Ok(());
        }
    }
}

/// Waits until an address of the management network accepts connections.
async fn takes_connections(lab: &Lab, address: SocketAddrV4) -> Result<()> {
    let mut looks = interval(LOOK_INTERVAL);
    loop {
        looks.tick().await;
        if lab.inside(CONTROLLER, || TcpStream::connect_timeout(&address.into(), LOOK_TIMEOUT).is_ok())? {
            return Ok(());
        }
    }
}

/// Returns the path of the log of the daemon at a station.
pub fn log_file(folder: &Path, name: &str) -> PathBuf {
    folder.join(format!("{name}.log"))
}

fn last_words(log: &Path) -> String {
    let text = fs::read_to_string(log).unwrap_or_default();
    let lines: Vec<_> = text.lines().collect();
    lines.get(lines.len().saturating_sub(SHOWN_LINES)..).unwrap_or_default().join("\n")
}
