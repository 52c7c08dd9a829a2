//! Loads a topology file, and can replace the MTU of its links.

use std::path::Path;

use anyhow::Result;
use tributary_topology::Topology;

/// Loads a topology file. With `mtu`, all links get this MTU.
pub(crate) fn load(file: &Path, mtu: Option<u16>) -> Result<Topology> {
    with_mtu(Topology::load(file)?, mtu)
}

/// Returns the topology. With `mtu`, all its links get this MTU.
pub fn with_mtu(topology: Topology, mtu: Option<u16>) -> Result<Topology> {
    Ok(match mtu {
        Some(mtu) => topology.with_mtu(mtu)?,
        None => topology,
    })
}
