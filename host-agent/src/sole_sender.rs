//! A firewall rule that prevents other processes of the host from sending INA packets.
//!
//! A switch attributes every gradient that arrives on a host's cable to that host, and any process may send UDP
//! datagrams. Tags reveal a sum that contains foreign values. But an unprivileged user could still stall other users'
//! jobs with forged datagrams, and so end the jobs. The agent therefore installs a firewall rule. With it, the kernel
//! drops datagrams from this host's sockets to the port of INA packets. The rule does not affect the agents' own
//! frames, because a packet socket passes them directly to the interface.

use std::io;
use std::process::Command;

use thiserror::Error;
use tributary_wire::constants::INA_UDP_PORT;

/// The nftables table with the rule. The table stays when the daemon ends, so that the rule also
/// applies until the next daemon starts.
const TABLE: &str = "tributary_host";

/// The reason why other processes may still send INA packets.
#[derive(Debug, Error)]
pub enum SoleSenderError {
    /// nftables is not installed.
    #[error("there is no program `nft`: install nftables")]
    NoProgram,
    /// `nft` refused the rule; the text is its reason.
    #[error("`nft` cannot add a rule, for which it needs the capability CAP_NET_ADMIN: {0}")]
    Refused(String),
    /// The operating system could not run `nft`.
    #[error("cannot run `nft`: {0}")]
    System(#[from] io::Error),
}

/// Installs the firewall rule in the calling thread's network namespace. The kernel then refuses INA
/// packets from all sockets except packet sockets. Their senders get the error "operation not permitted".
///
/// # Errors
/// [`SoleSenderError`] if the rule could not be installed. The agent works without the rule, but any program on this
/// host can then disturb the host's jobs.
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

/// Returns the script of rules. `nft` applies it as a whole, and each application gives the same
/// rules. Raw sockets are not restricted, because a user that may open a raw socket may also open a packet socket.
fn rules() -> String {
    format!(
        "add table inet {TABLE}\n\
         add chain inet {TABLE} output {{ type filter hook output priority filter; }}\n\
         flush chain inet {TABLE} output\n\
         add rule inet {TABLE} output udp dport {INA_UDP_PORT} counter drop\n"
    )
}

/// Returns the first line of the program's error output.
fn reason(said: &[u8]) -> String {
    String::from_utf8_lossy(said).lines().next().unwrap_or("it gives no reason").to_owned()
}
