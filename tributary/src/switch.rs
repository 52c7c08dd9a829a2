//! `tributary switch`.

use std::net::SocketAddr;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use clap::Args;
use serde::{Deserialize, Serialize};
use tributary_link::{FramePort, InterfaceMeter, InterfacePort};
use tributary_softswitch::{ControlError, RunningSwitch, SoftSwitch, SwitchConfig};

use crate::daemon::{self, DaemonArgs, Stop, WrongUse, required};
use crate::metrics::{self, Page, labels};
use crate::named::PortAt;

/// How often the switch's thread is asked whether it is still there.
const CHECK_INTERVAL: Duration = Duration::from_secs(1);

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

    /// Address that Prometheus finds metrics at, under /metrics [default: none]
    #[arg(long, value_name = "ADDR:PORT")]
    metrics: Option<SocketAddr>,
}

/// Runs an embedded switch until it is stopped.
///
/// # Errors
/// Wrong settings, an interface that cannot be opened, a port that is taken.
pub(crate) fn run(args: &DaemonArgs<Settings>) -> Result<()> {
    daemon::run(args, work)
}

async fn work(settings: Settings, mut stop: Stop) -> Result<()> {
    let name = required(settings.name, "name")?;
    let listen = required(settings.p4runtime, "p4runtime")?;
    if settings.port.is_empty() {
        return Err(WrongUse("a switch without ports: give --port NUMBER=INTERFACE".into()).into());
    }
    let (ports, meters) = open(&settings.port)?;
    let mut config = SwitchConfig::new(&name, listen, ports);
    config.device_id = settings.device_id.unwrap_or(config.device_id);
    let switch = SoftSwitch::start(config).await.with_context(|| format!("switch {name} cannot start"))?;
    tracing::info!(name, ports = settings.port.len(), "switch is up");
    let collected = name.clone();
    let collect = move || std::future::ready(collect(&collected, &meters));
    let _metrics = metrics::serve(settings.metrics, collect).await?;
    daemon::ready();
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
/// What each port carries.
type Meters = Vec<(PortAt, InterfaceMeter)>;

fn open(ports: &[PortAt]) -> Result<(Ports, Meters)> {
    let (mut opened, mut meters) = (Ports::new(), Meters::new());
    for port in ports {
        let interface =
            InterfacePort::open(&port.interface).with_context(|| format!("port {}", port.number))?;
        meters.push((port.clone(), interface.meter().clone()));
        opened.push((port.number, Box::new(interface)));
    }
    Ok((opened, meters))
}

/// What the interfaces have carried, also before there was a program.
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

/// Waits until the switch's thread has come to an end.
async fn ended(switch: &RunningSwitch) {
    let mut checks = tokio::time::interval(CHECK_INTERVAL);
    loop {
        checks.tick().await;
        if matches!(switch.control().run(|_| ()).await, Err(ControlError::Stopped)) {
            return;
        }
    }
}
