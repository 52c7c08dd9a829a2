//! `tributary switch`.

use std::collections::{HashMap, HashSet};
use std::net::SocketAddr;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use clap::Args;
use serde::{Deserialize, Serialize};
use tributary_link::{FramePort, InterfaceCondition, InterfaceMeter, InterfacePort};
use tributary_softswitch::{ControlError, SoftSwitch, SwitchConfig};
use tributary_wire::SliceWidth;

use crate::daemons::metrics::{self, Page, labels};
use crate::daemons::service::{self, DaemonArgs, Stop, WrongUse, required};
use crate::options::named::PortAt;

/// How often to check that the switch's thread is still there.
const CHECK_INTERVAL: Duration = Duration::from_secs(1);

/// Offloads that merge received frames: a switch has to forward what was on the wire.
const MERGING: [&str; 2] = ["gro", "lro"];

/// The usual MTU.
const ETHERNET_MTU: u16 = 1500;

/// The switch's own options.
#[derive(Debug, Default, Args, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
pub(crate) struct Settings {
    /// The switch's name, for logs
    #[arg(long)]
    name: Option<String>,

    /// Its P4Runtime device id; controllers expect the node id of the topology [default: 0]
    #[arg(long, value_name = "ID")]
    device_id: Option<u64>,

    /// Address that its P4Runtime server listens on
    #[arg(long, value_name = "ADDR:PORT")]
    p4runtime: Option<SocketAddr>,

    /// An interface as a port of the switch; may be given often
    #[arg(long, value_name = "NUMBER=INTERFACE")]
    #[serde(skip_serializing_if = "Vec::is_empty")]
    port: Vec<PortAt>,

    /// Longest packet that its links carry by the topology, in bytes: it warns of interfaces that carry less [default:
    /// what a slice of 256 values needs]
    #[arg(long, value_name = "BYTES")]
    mtu: Option<u16>,

    /// Send neighbouring packets as one frame on ports that are a veth with its offloads on: only if the hosts and
    /// switches at their other ends were also started with this option
    #[arg(long)]
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    segmentation_offload: bool,

    /// Address that Prometheus finds metrics at, under /metrics [default: none]
    #[arg(long, value_name = "ADDR:PORT")]
    metrics: Option<SocketAddr>,
}

/// Runs an embedded switch until it is stopped.
///
/// # Errors
/// Wrong settings, an interface that cannot be opened, a port that is taken.
pub(crate) fn run(args: &DaemonArgs<Settings>) -> Result<()> {
    service::run(args, work)
}

async fn work(settings: Settings, mut stop: Stop) -> Result<()> {
    let name = required(settings.name, "name")?;
    let listen = required(settings.p4runtime, "p4runtime")?;
    if settings.port.is_empty() {
        return Err(WrongUse("a switch without ports: give --port NUMBER=INTERFACE".into()).into());
    }
    check(&settings.port)?;
    let (ports, meters) = open(&settings.port, settings.segmentation_offload)?;
    warn(&settings.port, settings.mtu);
    let mut config = SwitchConfig::new(&name, listen, ports);
    config.device_id = settings.device_id.unwrap_or(config.device_id);
    let switch = SoftSwitch::start(config).await.with_context(|| format!("switch {name} cannot start"))?;
    tracing::info!(name, ports = settings.port.len(), "switch is up");
    let collected = name.clone();
    let collect = move || std::future::ready(collect(&collected, &meters));
    let _metrics = metrics::serve(settings.metrics, collect).await?;
    service::ready();
    tokio::select! {
        () = stop.requested() => Ok(switch.stop().await?),
        () = ended(&switch) => {
            switch.stop().await?;
            bail!("switch {name} has ended by itself: see the log")
        }
    }
}

/// The ports of a switch by number.
type Ports = Vec<(u16, Box<dyn FramePort>)>;
/// The traffic counters of each port.
type Meters = Vec<(PortAt, InterfaceMeter)>;

/// # Errors
/// [`WrongUse`]: a port or an interface is given twice.
fn check(ports: &[PortAt]) -> Result<()> {
    let mut by_interface = HashMap::new();
    let mut numbers = HashSet::new();
    for PortAt { number, interface } in ports {
        if !numbers.insert(number) {
            return Err(WrongUse(format!("--port: port {number} is given twice")).into());
        }
        if let Some(other) = by_interface.insert(interface, number) {
            let problem =
                format!("--port: {interface} cannot be port {other} and port {number}: it has one cable");
            return Err(WrongUse(problem).into());
        }
    }
    Ok(())
}

/// Warns of settings that get in the way of frames: only this process sees these interfaces.
fn warn(ports: &[PortAt], mtu: Option<u16>) {
    for PortAt { number, interface } in ports {
        let Ok(condition) = InterfaceCondition::of(interface) else { continue };
        for problem in problems(interface, &condition, mtu) {
            tracing::warn!(port = number, interface, "{problem}");
        }
    }
}

/// What is wrong with a port's interface, and what to do. `promised`: what the topology says that links carry.
fn problems(interface: &str, condition: &InterfaceCondition, promised: Option<u16>) -> Vec<String> {
    let InterfaceCondition { mtu, is_up, has_address, offloads, .. } = condition;
    let needed = promised.map_or(SliceWidth::ETHERNET.mtu(), usize::from);
    let remedy = promised.unwrap_or(ETHERNET_MTU);
    let merging: Vec<_> = offloads.iter().filter(|one| MERGING.contains(one)).copied().collect();
    let off: Vec<_> = merging.iter().map(|one| format!("{one} off")).collect();
    let all = [
        (!is_up).then(|| format!("it is down, or has no carrier: `ip link set {interface} up`")),
        has_address.then(|| {
            format!("it has an IP address, so that this machine answers in the switch's place: `ip address flush dev {interface}`")
        }),
        ((*mtu as usize) < needed).then(|| {
            format!("its MTU is {mtu} bytes, and gradients may need {needed}: they would be lost without a word; `ip link set {interface} mtu {remedy}`, and start this again")
        }),
        (!merging.is_empty()).then(|| {
            format!("the kernel merges frames that come in ({}): `ethtool -K {interface} {}`", merging.join(", "), off.join(" "))
        }),
    ];
    all.into_iter().flatten().collect()
}

fn open(ports: &[PortAt], segmentation_offload: bool) -> Result<(Ports, Meters)> {
    let (mut opened, mut meters) = (Ports::new(), Meters::new());
    for port in ports {
        let interface = InterfacePort::open(&port.interface)
            .with_context(|| format!("port {}", port.number))?
            .with_segmentation_offload(segmentation_offload);
        meters.push((port.clone(), interface.meter().clone()));
        opened.push((port.number, Box::new(interface)));
    }
    Ok((opened, meters))
}

/// The interfaces' traffic, including the time before there was a program.
fn collect(switch: &str, meters: &Meters) -> Page {
    let (mut frames, mut bytes, mut dropped) = (Vec::new(), Vec::new(), Vec::new());
    for (PortAt { number, interface }, meter) in meters {
        for (direction, meter) in [("received", &meter.received), ("sent", &meter.sent)] {
            let number = number.to_string();
            let of_port = labels([
                ("switch", switch),
                ("port", &number),
                ("interface", interface),
                ("direction", direction),
            ]);
            let carried = meter.read();
            frames.push((of_port.clone(), carried.frames));
            bytes.push((of_port.clone(), carried.bytes));
            dropped.push((of_port, carried.dropped));
        }
    }
    let mut page = Page::default();
    page.counter("tributary_interface_frames", "Frames of a port's interface", frames);
    page.counter("tributary_interface_bytes", "Bytes of a port's interface", bytes);
    page.counter("tributary_interface_dropped_frames", "Frames that there was no room for", dropped);
    page
}

/// Waits until the switch's thread has ended.
async fn ended(switch: &SoftSwitch) {
    let mut checks = tokio::time::interval(CHECK_INTERVAL);
    loop {
        checks.tick().await;
        if matches!(switch.control().run(|_| ()).await, Err(ControlError::Stopped)) {
            return;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_in_the_way_of_frames_is_said_with_its_remedy() {
        let well = InterfaceCondition {
            mtu: 1500,
            is_up: true,
            has_address: false,
            driver: "veth".into(),
            offloads: vec!["tso", "gso", "tx"],
        };
        assert_eq!(problems("swp1", &well, None), Vec::<String>::new());
        let ill = InterfaceCondition {
            mtu: 1000,
            is_up: false,
            has_address: true,
            offloads: vec!["gro", "lro"],
            ..well
        };
        let said = problems("swp1", &ill, None);
        let remedies = ["link set swp1 up", "flush dev swp1", "mtu 1500", "ethtool -K swp1 gro off lro off"];
        assert_eq!(said.len(), remedies.len());
        assert!(said.iter().zip(remedies).all(|(said, remedy)| said.contains(remedy)), "{said:?}");
    }

    #[test]
    fn an_interface_that_carries_less_than_the_topology_says_is_named_with_what_it_needs() {
        let condition = |mtu| InterfaceCondition {
            mtu,
            is_up: true,
            has_address: false,
            driver: "veth".into(),
            offloads: Vec::new(),
        };
        assert_eq!(problems("swp1", &condition(9000), Some(9000)), Vec::<String>::new());
        assert_eq!(problems("swp1", &condition(1280), None), Vec::<String>::new());
        let said = problems("swp1", &condition(1500), Some(9000));
        assert!(
            matches!(&said[..], [one] if one.contains("1500") && one.contains("swp1 mtu 9000")),
            "{said:?}"
        );
    }

    #[test]
    fn a_port_has_one_interface_and_an_interface_one_port() {
        let ports = |texts: &[&str]| texts.iter().map(|text| text.parse().unwrap()).collect::<Vec<PortAt>>();
        assert!(check(&ports(&["1=va", "2=vb"])).is_ok());
        let twice = check(&ports(&["1=va", "2=va"])).unwrap_err();
        assert!(
            twice.is::<WrongUse>() && twice.to_string().contains("va cannot be port 1 and port 2"),
            "{twice}"
        );
        assert!(check(&ports(&["1=va", "1=vb"])).unwrap_err().to_string().contains("port 1 is given twice"));
    }
}
