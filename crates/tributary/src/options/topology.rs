//! A topology file whose links may be given another MTU.

use std::path::Path;

use anyhow::Result;
use tributary_topology::Topology;

/// Loads a topology file; with `mtu`, all links have that MTU.
pub(crate) fn load(file: &Path, mtu: Option<u16>) -> Result<Topology> {
    with_mtu(Topology::load(file)?, mtu)
}

/// The topology; with `mtu`, all links have that MTU.
pub fn with_mtu(topology: Topology, mtu: Option<u16>) -> Result<Topology> {
    Ok(match mtu {
        Some(mtu) => topology.with_mtu(mtu)?,
        None => topology,
    })
}
