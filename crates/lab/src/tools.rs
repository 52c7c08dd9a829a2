//! The programs that set up the network.
//!
//! Programs and not a netlink library: rtnetlink has no token bucket and brings tokio, nf_tables would need another
//! crate and ethtool a third, while an operator inspects a lab with the three Debian packages anyway. `ip`, `tc` and
//! `nft` take a whole script at once, so that a lab needs few processes.

use std::io::{self, Write as _};
use std::process::{Command, Stdio};

use crate::error::LabError;

/// The variable that has the lab's name in every process of a lab; `clean` finds the processes by it.
pub(crate) const LAB_VARIABLE: &str = "TRIBUTARY_LAB";

/// A program and its Debian package.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Tool {
    name: &'static str,
    package: &'static str,
}

/// Namespaces, interfaces, addresses.
pub(crate) const IP: Tool = Tool { name: "ip", package: "iproute2" };
/// Rates.
pub(crate) const TC: Tool = Tool { name: "tc", package: "iproute2" };
/// Losses.
pub(crate) const NFT: Tool = Tool { name: "nft", package: "nftables" };
/// Offloads.
pub(crate) const ETHTOOL: Tool = Tool { name: "ethtool", package: "ethtool" };
/// Processors.
pub(crate) const TASKSET: Tool = Tool { name: "taskset", package: "util-linux" };

/// A command that runs `program` on this processor only.
pub(crate) fn on_processor(processor: usize, program: &str) -> Command {
    let mut command = Command::new(TASKSET.name);
    command.args(["--cpu-list", &processor.to_string(), program]);
    command
}

/// Runs tools for one lab.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Toolbox<'a> {
    pub(crate) lab: &'a str,
    /// For errors: the station whose namespace the calling thread is in, or this machine.
    pub(crate) place: &'a str,
}

impl Toolbox<'_> {
    /// Runs `tool` with `script` on its standard input; does nothing for an empty script.
    pub(crate) fn script(self, tool: Tool, args: &[&str], script: &str) -> Result<(), LabError> {
        if script.is_empty() {
            return Ok(());
        }
        self.run(tool, args, script)
    }

    /// Runs `tool` in the namespace that the calling thread is in.
    pub(crate) fn run(self, tool: Tool, args: &[&str], input: &str) -> Result<(), LabError> {
        let failed = |message: String| LabError::Tool { tool: tool.name, place: self.place.into(), message };
        let mut child = Command::new(tool.name)
            .args(args)
            .env(LAB_VARIABLE, self.lab)
            .env("LC_ALL", "C")
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .map_err(|error| match error.kind() {
                io::ErrorKind::NotFound => LabError::MissingTool { tool: tool.name, package: tool.package },
                _ => failed(error.to_string()),
            })?;
        // A tool that fails stops reading; its standard error has the reason, which the pipe has not.
        let fed = child.stdin.take().map_or(Ok(()), |mut stdin| stdin.write_all(input.as_bytes()));
        let output = child.wait_with_output().map_err(|error| failed(error.to_string()))?;
        if !output.status.success() {
            let message = String::from_utf8_lossy(&output.stderr);
            return Err(failed(format!("{}, {}", message.trim().replace('\n', "; "), output.status)));
        }
        fed.map_err(|error| failed(error.to_string()))
    }
}
