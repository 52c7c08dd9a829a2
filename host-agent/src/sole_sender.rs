//! No other process of the host sends INA packets.
//!
//! A switch assigns every gradient that arrives on a host's cable to that host, and any process may send UDP datagrams.
//! Tags reveal a sum that contains foreign values; but an unprivileged user could still stall other users' jobs with
//! forged datagrams, and so end them. The agent therefore installs a firewall rule: the kernel lets no socket of this
//! host send to the port of INA packets. The rule does not affect the agents' own frames, because a packet socket hands
//! them directly to the interface.

use std::io;
use std::process::Command;

use thiserror::Error;
use tributary_wire::constants::INA_UDP_PORT;

/// The nftables table with the rule.
/// The table stays when the daemon ends, to leave no gap before the next daemon starts.
const TABLE: &str = "tributary_host";

/// Why other processes may still send INA packets.
#[derive(Debug, Error)]
pub enum SoleSenderError {
    /// nftables is not installed.
    #[error("there is no program `nft`: install nftables")]
    NoProgram,
    /// The rule is refused, with the program's reason.
    #[error("`nft` cannot add a rule, for which it needs the capability CAP_NET_ADMIN: {0}")]
    Refused(String),
    /// The program cannot be run.
    #[error("cannot run `nft`: {0}")]
    System(#[from] io::Error),
}

/// Lets the kernel of the calling thread's network namespace refuse INA packets of all sockets but
/// packet sockets, from now on. What it does to a sender is the error "operation not permitted".
///
/// # Errors
/// [`SoleSenderError`]: the agent works without the rule, but any program on this host can then disturb the host's
/// jobs.
pub fn forbid_other_senders() -> Result<(), SoleSenderError> {
    let output =
        Command::new("nft").arg(rules()).env("LC_ALL", "C").output().map_err(|error| match error.kind() {
            io::ErrorKind::NotFound => SoleSenderError::NoProgram,
            _ => error.into(),
        })?;
    match output.status.success() {
        true => Ok(()),
        false => Err(SoleSenderError::Refused(reason(&output.stderr))),
    }
}

/// The script, which is carried out as a whole, and leaves the same each time.
/// Raw sockets are left alone: who may open one may open a packet socket, too.
fn rules() -> String {
    format!(
        "add table inet {TABLE}\n\
         add chain inet {TABLE} output {{ type filter hook output priority filter; }}\n\
         flush chain inet {TABLE} output\n\
         add rule inet {TABLE} output udp dport {INA_UDP_PORT} counter drop\n"
    )
}

/// The first line of what the program says.
fn reason(said: &[u8]) -> String {
    String::from_utf8_lossy(said).lines().next().unwrap_or("it gives no reason").to_owned()
}
