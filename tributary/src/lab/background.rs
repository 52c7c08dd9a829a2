//! A daemon that runs on when this process ends.

use std::fs::{self, OpenOptions};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use anyhow::{Context, Result, bail};
use tokio::net::UnixDatagram;
use tokio::process::Child;
use tokio::time::sleep;

/// A daemon that is not ready by then has a defect; the machine may be slow.
const PATIENCE: Duration = Duration::from_secs(60);
/// As many lines of a log as an error shows.
const SHOWN_LINES: usize = 5;

/// A daemon that was started and may not be ready yet.
#[derive(Debug)]
pub(super) struct Background {
    name: String,
    child: Child,
    log: PathBuf,
    /// Where it tells systemd, as it thinks, that it is ready.
    notify: Option<UnixDatagram>,
    notify_path: PathBuf,
}

impl Background {
    /// Starts it with a log in `folder`. Out of reach of the terminal: Ctrl-C is not for daemons.
    pub(super) fn start(folder: &Path, name: &str, mut command: Command) -> Result<Self> {
        let notify_path = folder.join(format!("{name}.notify"));
        let notify =
            UnixDatagram::bind(&notify_path).with_context(|| format!("{}", notify_path.display()))?;
        let log = log_file(folder, name);
        let file = OpenOptions::new().create(true).append(true).open(&log);
        let file = file.with_context(|| format!("cannot write the log {}", log.display()))?;
        command
            .env("NOTIFY_SOCKET", &notify_path)
            .process_group(0)
            .stdin(Stdio::null())
            .stdout(file.try_clone()?)
            .stderr(file);
        let child = tokio::process::Command::from(command).spawn();
        let child = child.with_context(|| format!("cannot start the daemon of {name}"))?;
        Ok(Self { name: name.to_owned(), child, log, notify: Some(notify), notify_path })
    }

    /// Waits until it says that it is ready. Gives back its process id.
    ///
    /// # Errors
    /// It ended, or takes too long; with the end of its log.
    pub(super) async fn ready(mut self) -> Result<u32> {
        let notify = self.notify.take().context("only waited for once")?;
        let says_so = async {
            let mut message = [0; 256];
            loop {
                let length = notify.recv(&mut message).await?;
                let message = message.get(..length).unwrap_or_default();
                if message.split(|&byte| byte == b'\n').any(|line| line == b"READY=1") {
                    return anyhow::Ok(());
                }
            }
        };
        self.ready_when(says_so).await
    }

    /// Waits until `ready` is over; else as [`ready`](Self::ready).
    pub(super) async fn ready_when(mut self, ready: impl Future<Output = Result<()>>) -> Result<u32> {
        // It has one as long as it has not been waited for.
        let id = self.child.id().unwrap_or_default();
        let problem = tokio::select! {
            done = ready => return done.map(|()| id),
            status = self.child.wait() => format!("ended ({})", status?),
            () = sleep(PATIENCE) => format!("is not ready after {PATIENCE:?}"),
        };
        bail!("the daemon of {} {problem}; its last words: {}", self.name, last_words(&self.log));
    }
}

impl Drop for Background {
    fn drop(&mut self) {
        // The next daemon of that name binds it anew.
        let _ = fs::remove_file(&self.notify_path);
    }
}

/// The log of the daemon at a station.
pub(super) fn log_file(folder: &Path, name: &str) -> PathBuf {
    folder.join(format!("{name}.log"))
}

fn last_words(log: &Path) -> String {
    let text = fs::read_to_string(log).unwrap_or_default();
    let lines: Vec<_> = text.lines().collect();
    lines.get(lines.len().saturating_sub(SHOWN_LINES)..).unwrap_or_default().join("\n")
}
