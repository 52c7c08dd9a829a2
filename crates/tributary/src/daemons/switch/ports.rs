//! The ports of a switch: interfaces and captures.

use std::collections::{HashMap, HashSet};
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use tokio::sync::oneshot;
use tributary_capture::{CaptureError, PortFiles, Recorded, replay};
use tributary_link::{FramePort, InterfaceMeter, InterfacePort};
use tributary_softswitch::DROP_PORT;

use super::condition;
use crate::daemons::metrics::{MetricsPage, labels};
use crate::daemons::service::WrongUse;
use crate::options::named::{LinkAt, PortAt};

/// The ports of a switch by number.
pub(super) type Ports = Vec<(u16, Box<dyn FramePort>)>;
/// The traffic counters of each port.
pub(super) type Meters = Vec<(PortAt, InterfaceMeter)>;

/// Ports that are ready for a switch.
pub(super) struct Opened {
    pub(super) ports: Ports,
    pub(super) meters: Meters,
    /// Notified when all captures were read, with the first error in them; `None` if no port is a capture.
    pub(super) captures_end: Option<oneshot::Receiver<Option<CaptureError>>>,
}

/// The options with which interfaces are opened.
#[derive(Debug, Clone, Copy)]
pub(super) struct Interfaces<'a> {
    /// The MTU of the links in the topology.
    pub(super) mtu: Option<u16>,
    pub(super) segmentation_offload: bool,
    pub(super) bypass_queues: bool,
    /// The folder for recordings of the interfaces; `None` if they are not recorded.
    pub(super) recordings: Option<&'a Path>,
}

/// Checks the ports and their numbers.
///
/// # Errors
/// [`WrongUse`] if no port is given, if a switch cannot have a port number, or if a port or an
/// interface is given twice.
pub(super) fn check(ports: &[PortAt], cpu_port: u16) -> Result<()> {
    if u64::from(cpu_port) >= DROP_PORT {
        let problem =
            format!("--cpu-port {cpu_port}: port numbers must be less than {DROP_PORT}, the port that drops");
        return Err(WrongUse(problem).into());
    }
    if ports.is_empty() {
        return Err(WrongUse("a switch without ports: give --port NUMBER=INTERFACE".into()).into());
    }
    let mut by_interface = HashMap::new();
    let mut numbers = HashSet::new();
    for PortAt { number, link } in ports {
        if u64::from(*number) >= DROP_PORT {
            let problem = format!(
                "--port: there is no port {number}: port numbers must be less than {DROP_PORT}, the port that \
                         drops"
            );
            return Err(WrongUse(problem).into());
        }
        if *number == cpu_port {
            let problem =
                format!("--port: {number} is the port to the controller: --cpu-port gives it another one");
            return Err(WrongUse(problem).into());
        }
        if !numbers.insert(number) {
            return Err(WrongUse(format!("--port: port {number} is given twice")).into());
        }
        let LinkAt::Interface(interface) = link else { continue };
        if let Some(other) = by_interface.insert(interface, number) {
            let problem = format!(
                "--port: {interface} cannot be port {other} and port {number}: an interface has one cable"
            );
            return Err(WrongUse(problem).into());
        }
    }
    Ok(())
}

/// Opens all ports. `read` are the files with which the switch was started; no capture may overwrite
/// them.
///
/// # Errors
/// An interface or a file cannot be opened.
pub(super) fn open(ports: &[PortAt], interfaces: Interfaces<'_>, read: &[PathBuf]) -> Result<Opened> {
    let mut opened = Opened { ports: Ports::new(), meters: Meters::new(), captures_end: None };
    if let Some(folder) = interfaces.recordings {
        fs::create_dir_all(folder).with_context(|| format!("--pcap: cannot make {}", folder.display()))?;
    }
    for port in ports {
        if let LinkAt::Interface(name) = &port.link {
            let (interface, meter) =
                open_interface(name, interfaces).with_context(|| format!("port {}", port.number))?;
            opened.add(port, interface, meter);
            condition::warn(port.number, name, interfaces.mtu);
        }
    }
    open_captures(ports, read, &mut opened)?;
    Ok(opened)
}

fn open_interface(
    name: &str,
    Interfaces { segmentation_offload, bypass_queues, recordings, .. }: Interfaces<'_>,
) -> Result<(Box<dyn FramePort>, InterfaceMeter)> {
    let port = InterfacePort::open(name)?
        .with_segmentation_offload(segmentation_offload)
        .with_queue_bypass(bypass_queues)?;
    let meter = port.meter().clone();
    Ok(match recordings {
        Some(folder) => (Box::new(Recorded::new(port, folder, name)?), meter),
        None => (Box::new(port), meter),
    })
}

/// Opens all captures together, so that their frames arrive in the order of their timestamps.
fn open_captures(ports: &[PortAt], read: &[PathBuf], opened: &mut Opened) -> Result<()> {
    let captures = ports.iter().filter_map(|port| match &port.link {
        LinkAt::Captures(files) => Some((port, files.clone())),
        LinkAt::Interface(_) => None,
    });
    let (captures, files): (Vec<_>, Vec<PortFiles>) = captures.unzip();
    if captures.is_empty() {
        return Ok(());
    }
    let (sender, end) = oneshot::channel();
    // An error means that the receiver does not wait for the end any more.
    let replayed = replay(&files, read, move |error| drop(sender.send(error)))?;
    for (port, replay) in captures.into_iter().zip(replayed) {
        let meter = replay.meter().clone();
        opened.add(port, Box::new(replay), meter);
    }
    opened.captures_end = Some(end);
    Ok(())
}

impl Opened {
    fn add(&mut self, at: &PortAt, port: Box<dyn FramePort>, meter: InterfaceMeter) {
        self.ports.push((at.number, port));
        self.meters.push((at.clone(), meter));
    }
}

/// Collects the interfaces' traffic, including the time before the switch had a program.
pub(super) fn collect(switch: &str, meters: &Meters) -> MetricsPage {
    let (mut frames, mut bytes, mut dropped, mut repairs) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
    for (PortAt { number, link }, meter) in meters {
        let link = link.to_string();
        let port = number.to_string();
        let of_port = labels([("switch", switch), ("port", &port), ("interface", &link)]);
        repairs.push((of_port, meter.repairs.read()));
        for (direction, meter) in [("received", &meter.received), ("sent", &meter.sent)] {
            let of_port =
                labels([("switch", switch), ("port", &port), ("interface", &link), ("direction", direction)]);
            let carried = meter.read();
            frames.push((of_port.clone(), carried.frames));
            bytes.push((of_port.clone(), carried.bytes));
            dropped.push((of_port, carried.dropped));
        }
    }
    let mut page = MetricsPage::default();
    page.counter("tributary_interface_frames", "Frames of a port's interface", frames);
    page.counter("tributary_interface_bytes", "Bytes of a port's interface", bytes);
    page.counter("tributary_interface_dropped_frames", "Frames that were dropped for lack of room", dropped);
    page.counter(
        "tributary_interface_repairs",
        "Repairs of a port's queues of received frames after they were out of step, with loss of frames",
        repairs,
    );
    page
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_port_has_one_interface_and_an_interface_one_port() {
        let ports = |texts: &[&str]| texts.iter().map(|text| text.parse().unwrap()).collect::<Vec<PortAt>>();
        assert!(check(&ports(&["1=va", "2=vb"]), 510).is_ok());
        // Two ports may read the same capture.
        assert!(check(&ports(&["1=pcap:a.pcap", "2=pcap:a.pcap"]), 510).is_ok());
        let twice = check(&ports(&["1=va", "2=va"]), 510).unwrap_err();
        assert!(
            twice.is::<WrongUse>() && twice.to_string().contains("va cannot be port 1 and port 2"),
            "{twice}"
        );
        assert!(
            check(&ports(&["1=va", "1=vb"]), 510).unwrap_err().to_string().contains("port 1 is given twice")
        );
    }

    #[test]
    fn a_port_is_one_that_a_switch_has() {
        let port = |text: &str| vec![text.parse::<PortAt>().unwrap()];
        let refused = |text, cpu_port| check(&port(text), cpu_port).unwrap_err();
        assert!(refused("511=va", 510).is::<WrongUse>());
        assert!(refused("255=va", 255).to_string().contains("255 is the port to the controller"));
        assert!(refused("1=va", 511).to_string().contains("--cpu-port 511"));
    }
}
