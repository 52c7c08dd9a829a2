//! Parts that several measurements share: options, and an orderly end when a signal arrives.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use tempfile::TempDir;
use tokio::runtime;
use tributary_topology::{MAX_RATE, format_rate, parse_rate};
use tributary_wire::SliceWidth;

use tributary::Stop;

/// Runs a measurement until it ends or a signal arrives.
/// When the measurement is dropped, its processes end and its networks are removed.
pub(super) fn until_stopped<T>(measurement: impl Future<Output = Result<T>>) -> Result<T> {
    let runtime = runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        let mut stop = Stop::new()?;
        tokio::select! {
            outcome = measurement => outcome,
            () = stop.requested() => bail!("interrupted; the networks are removed"),
        }
    })
}

/// Returns the topology file that the user named, or writes the built-in `topology` to `folder`.
pub(super) fn topology_file(named: Option<&Path>, topology: &str, folder: &TempDir) -> Result<PathBuf> {
    if let Some(file) = named {
        return Ok(file.to_owned());
    }
    let file = folder.path().join("topology.toml");
    fs::write(&file, topology).with_context(|| format!("cannot write {}", file.display()))?;
    Ok(file)
}

/// Parses the MTU of links. A slice must fit into it.
pub(super) fn mtu(text: &str) -> Result<u16, String> {
    let mtu = text.parse().ok().filter(|mtu: &u16| SliceWidth::widest_within((*mtu).into()).is_some());
    mtu.ok_or_else(|| {
        format!("a number of bytes is needed, such as 1500, at least {}", SliceWidth::NARROWEST.mtu())
    })
}

/// Parses a rate.
pub(super) fn rate(text: &str) -> Result<u64, String> {
    // `tc` writes rates without "/s".
    match parse_rate(text).or_else(|| parse_rate(&format!("{text}/s"))) {
        Some(rate) if rate > 0 => Ok(rate),
        _ => Err(format!(
            "a rate above 0 is needed, such as 50mbit or \"2.5 Gbit/s\", at most {}",
            format_rate(MAX_RATE)
        )),
    }
}
