//! The programs that set up the network.
//!
//! A lab uses programs instead of a netlink library for two reasons. The rtnetlink crate has no token
//! bucket and needs tokio, and nf_tables and ethtool would need two more crates. An operator who
//! inspects a lab needs the Debian packages anyway. `ip`, `tc` and `nft` accept a whole script, so a
//! lab needs few processes.

use std::io::{self, Write as _};
use std::process::{Command, Stdio};

use crate::error::LabError;

/// The variable that contains the lab's name in every process of a lab. `clean` uses it to find the
/// processes.
pub(crate) const LAB_VARIABLE: &str = "TRIBUTARY_LAB";

/// A program and its Debian package.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Tool {
    name: &'static str,
    package: &'static str,
}

/// Sets up namespaces, interfaces and addresses.
pub(crate) const IP: Tool = Tool { name: "ip", package: "iproute2" };
/// Sets the rates of links.
pub(crate) const TC: Tool = Tool { name: "tc", package: "iproute2" };
/// Drops frames at random, and cuts links.
pub(crate) const NFT: Tool = Tool { name: "nft", package: "nftables" };
/// Disables offloads.
pub(crate) const ETHTOOL: Tool = Tool { name: "ethtool", package: "ethtool" };
/// Starts programs on one processor.
pub(crate) const TASKSET: Tool = Tool { name: "taskset", package: "util-linux" };

/// Returns a command that runs `program` only on this processor.
pub(crate) fn on_processor(processor: usize, program: &str) -> Command {
    let mut command = Command::new(TASKSET.name);
    command.args(["--cpu-list", &processor.to_string(), program]);
    command
}

/// Runs tools for one lab.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Toolbox<'a> {
    pub(crate) lab: &'a str,
    /// The place that errors name: the station in whose namespace the calling thread is, or this machine.
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

    /// Runs `tool` in the calling thread's namespace.
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
        // If a tool fails, it stops reading, and writing to it fails. Its standard error gives the reason, so
        // it is checked first.
        let fed = child.stdin.take().map_or(Ok(()), |mut stdin| stdin.write_all(input.as_bytes()));
        let output = child.wait_with_output().map_err(|error| failed(error.to_string()))?;
        if !output.status.success() {
            let message = String::from_utf8_lossy(&output.stderr);
            return Err(failed(format!("{}, {}", message.trim().replace('\n', "; "), output.status)));
        }
        fed.map_err(|error| failed(error.to_string()))
    }
}
