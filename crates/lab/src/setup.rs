//! Creates a lab's network and removes it.

use std::fs;
use std::io;

use tributary_topology::Topology;

use crate::error::LabError;
use crate::links::{Cut, Link, LinkEnd};
use crate::namespace;
use crate::options::LabOptions;
use crate::processes;
use crate::record::Record;
use crate::script::{Scripts, Setup};
use crate::station::Station;
use crate::tools::{ETHTOOL, IP, NFT, TASKSET, TC, Toolbox};

/// The place that errors name for tools that run outside of the lab's namespaces.
const THIS_MACHINE: &str = "the machine's own namespace";
/// Settings of every namespace. IPv6 is disabled, because it would send router solicitations and
/// neighbour discoveries. Forwarding is disabled, because a node must not route between the data and
/// the management network.
const SYSCTLS: [(&str, &str); 3] = [
    ("/proc/sys/net/ipv6/conf/default/disable_ipv6", "1"),
    ("/proc/sys/net/ipv6/conf/all/disable_ipv6", "1"),
    ("/proc/sys/net/ipv4/ip_forward", "0"),
];

/// Creates the namespaces, the links between them and their content. Stops at the first error.
pub(crate) fn make(topology: &Topology, options: &LabOptions, stations: &[Station]) -> Result<(), LabError> {
    let Some(scripts) = Scripts::new(topology, options, stations) else { return Ok(()) };
    let outside = Toolbox { lab: &options.name, place: THIS_MACHINE };
    if stations.iter().any(|station| station.processor.is_some()) {
        // This check reports a missing `taskset` now, before the first program is started.
        outside.run(TASKSET, &["--version"], "")?;
    }
    outside.script(IP, &["-batch", "-"], &scripts.namespaces())?;
    for station in stations {
        namespace::inside(&station.namespace, || set_sysctls(station))??;
    }
    outside.script(IP, &["-batch", "-"], &scripts.cables())?;
    let controller = stations.iter().take(1).map(|station| (station, scripts.controller()));
    for (station, setup) in controller.chain(scripts.nodes()) {
        let tools = Toolbox { lab: &options.name, place: &station.name };
        namespace::inside(&station.namespace, || apply(tools, &setup))??;
    }
    Ok(())
}

/// Applies a setup in the calling thread's namespace. Offloads are disabled first, so that no frame is
/// ever sent with them.
fn apply(tools: Toolbox<'_>, setup: &Setup) -> Result<(), LabError> {
    let off: Vec<_> = setup.without.iter().flat_map(|offload| [*offload, "off"]).collect();
    if !off.is_empty() {
        for interface in &setup.data_interfaces {
            tools.run(ETHTOOL, &[&["-K", interface], &off[..]].concat(), "")?;
        }
    }
    tools.script(IP, &["-batch", "-"], &setup.ip)?;
    tools.script(TC, &["-batch", "-"], &setup.tc)?;
    tools.script(NFT, &["-f", "-"], &setup.nft)
}

/// Cuts a link at both of its ends.
pub(crate) fn cut(record: &Record, link: &Link, how: Cut) -> Result<(), LabError> {
    match how {
        Cut::Silent => at_both_ends(record, link, |tools, end| tools.script(NFT, &["-f", "-"], &end.cut())),
        Cut::Carrier => set_port(record, link, "down"),
    }
}

/// Undoes [`cut`], even if the cut was only half done.
pub(crate) fn repair(record: &Record, link: &Link, how: Cut) -> Result<(), LabError> {
    match how {
        Cut::Silent => {
            at_both_ends(record, link, |tools, end| tools.script(NFT, &["-f", "-"], &end.repair()))
        }
        Cut::Carrier => set_port(record, link, "up"),
    }
}

fn at_both_ends(
    record: &Record,
    link: &Link,
    work: impl Fn(Toolbox<'_>, &LinkEnd) -> Result<(), LabError> + Sync,
) -> Result<(), LabError> {
    let work = &work;
    link.ends.iter().try_for_each(|end| {
        let tools = Toolbox { lab: &record.name, place: &end.station };
        namespace::inside(&record.station(&end.station)?.namespace, || work(tools, end))?
    })
}

fn set_port(record: &Record, link: &Link, state: &str) -> Result<(), LabError> {
    let LinkEnd { station, interface, .. } = link.port();
    set_interface(record, station, interface, state)
}

/// Sets an interface "down" or "up".
pub(crate) fn set_interface(
    record: &Record,
    station: &str,
    interface: &str,
    state: &str,
) -> Result<(), LabError> {
    let tools = Toolbox { lab: &record.name, place: station };
    namespace::inside(&record.station(station)?.namespace, || {
        tools.run(IP, &["link", "set", "dev", interface, state], "")
    })?
}

/// Writes the kernel parameters of the calling thread's namespace; `/proc/sys/net` shows that
/// namespace.
fn set_sysctls(station: &Station) -> Result<(), LabError> {
    for (path, value) in SYSCTLS {
        match fs::write(path, value) {
            // The parameter is missing if the kernel has no IPv6.
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            result => {
                let step = "set a kernel parameter";
                let namespace = station.namespace.clone();
                result.map_err(|reason| LabError::Namespace { namespace, step, reason })?;
            }
        }
    }
    Ok(())
}

/// Ends the lab's processes and removes its namespaces with their interfaces, queues and rules. Returns
/// true if any existed.
pub(crate) fn remove(lab: &str) -> Result<bool, LabError> {
    let namespaces = namespace::of_lab(lab)?;
    processes::end(lab, &namespaces)?;
    // The list is read again, because a tool of a killed `up` may have created another namespace before it
    // was ended.
    let namespaces = namespace::of_lab(lab)?;
    let script: String = namespaces.iter().map(|name| format!("netns delete {name}\n")).collect();
    let outside = Toolbox { lab, place: THIS_MACHINE };
    outside.script(IP, &["-force", "-batch", "-"], &script)?;
    Ok(!namespaces.is_empty())
}
