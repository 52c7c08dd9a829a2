//! No other process of the host sends INA packets.
//!
//! A switch takes what comes in by a host's cable for that host's gradient, and any process may send UDP datagrams. Tags tell
//! a sum with somebody else's numbers in it from a right one; but a user without any rights could stall the jobs of others
//! so, and end them. So the kernel is told to let none of its sockets send to the port of INA packets. The agents' own
//! frames do not come from there: a packet socket hands them to the interface itself.

use std::io;
use std::process::Command;

use thiserror::Error;
use tributary_wire::constants::INA_UDP_PORT;

/// The nftables table with the rule. It stays when the daemon ends, so that there is no gap before the next one begins.
const TABLE: &str = "tributary_host";

/// Why other processes may still send INA packets.
#[derive(Debug, Error)]
pub enum SoleSenderError {
    /// There is no nftables.
    #[error("there is no program `nft`: install nftables")]
    NoProgram,
    /// The rule is refused, with the program's reason.
    #[error("`nft` cannot add a rule, for which it needs the capability CAP_NET_ADMIN: {0}")]
    Refused(String),
    /// The program cannot be run.
    #[error("cannot run `nft`: {0}")]
    System(#[from] io::Error),
}

/// Lets the kernel of the calling thread's network namespace refuse INA packets of all sockets but packet sockets, from now
/// on. What it does to a sender is the error "operation not permitted".
///
/// # Errors
/// [`SoleSenderError`]: then everything works all the same, and whoever may run programs on this host can disturb its jobs.
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

/// The script, which is carried out as a whole, and leaves the same each time. Raw sockets are left alone: who may open one may
/// open a packet socket, too.
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
