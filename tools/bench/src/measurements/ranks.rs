//! Processes that reduce: one on each worker, or one for all workers.

use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail};
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader, Lines};
use tokio::process::{Child, ChildStdin, ChildStdout};
use tokio::task::JoinHandle;

/// Number of lines at the end of a process's output that an error shows.
const SHOWN_LINES: usize = 5;

/// A process whose output is read line by line. It is killed when this value is dropped.
#[derive(Debug)]
pub(super) struct Rank {
    name: String,
    child: Child,
    input: ChildStdin,
    lines: Lines<BufReader<ChildStdout>>,
    errors: JoinHandle<String>,
}

impl Rank {
    /// Starts the process. `name` is the name of the process in errors.
    pub(super) fn start(name: &str, mut command: Command) -> Result<Self> {
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let child = tokio::process::Command::from(command).kill_on_drop(true).spawn();
        let mut child = child.with_context(|| format!("cannot start {name}"))?;
        let (input, output) = (child.stdin.take(), child.stdout.take());
        let (Some(input), Some(output), Some(mut errors)) = (input, output, child.stderr.take()) else {
            bail!("{name} has no standard input or output");
        };
        let errors = tokio::spawn(async move {
            let mut text = Vec::new();
            // Incomplete output is better than none, so a read error is ignored.
            let _ = errors.read_to_end(&mut text).await;
            String::from_utf8_lossy(&text).into_owned()
        });
        Ok(Self { name: name.to_owned(), child, input, lines: BufReader::new(output).lines(), errors })
    }

    /// Writes a line to the process.
    pub(super) async fn tell(&mut self, line: &str) {
        // If the process has ended, reading its output reports the reason.
        let _ = self.input.write_all(format!("{line}\n").as_bytes()).await;
    }

    /// Returns the next line that the process prints.
    ///
    /// # Errors
    /// The process has ended instead. The error contains the end of its output.
    pub(super) async fn line(&mut self) -> Result<String> {
        if let Some(line) = self.lines.next_line().await? {
            return Ok(line);
        }
        let status = self.child.wait().await?;
        let said = (&mut self.errors).await.unwrap_or_default();
        let lines: Vec<_> = said.lines().collect();
        let last = lines.get(lines.len().saturating_sub(SHOWN_LINES)..).unwrap_or_default().join("\n");
        bail!("{} ended ({status}): {last}", self.name)
    }

    /// Returns the process's only line, after the process has ended successfully.
    ///
    /// # Errors
    /// The errors of [`line`](Self::line), or an exit status other than success.
    pub(super) async fn only_line(mut self) -> Result<String> {
        let line = self.line().await?;
        let status = self.child.wait().await?;
        if !status.success() {
            let said = (&mut self.errors).await.unwrap_or_default();
            bail!("{} ended ({status}): {}", self.name, said.trim());
        }
        Ok(line)
    }
}
