//! `tributary switch`.

use std::net::SocketAddr;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use clap::Args;
use serde::{Deserialize, Serialize};
use tributary_link::{FramePort, InterfacePort};
use tributary_softswitch::{ControlError, RunningSwitch, SoftSwitch, SwitchConfig};

use crate::daemon::{self, DaemonArgs, Stop, WrongUse, required};
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

    /// Its P4Runtime device id; controllers expect the node id of the topology [default: 1]
    #[arg(long, value_name = "ID")]
    device_id: Option<u64>,

    /// Address that its P4Runtime server listens on
    #[arg(long, value_name = "ADDR:PORT")]
    p4runtime: Option<SocketAddr>,

    /// An interface as a port of the switch; may be given often
    #[arg(long, value_name = "NUMBER=INTERFACE")]
    #[serde(skip_serializing_if = "Vec::is_empty")]
    port: Vec<PortAt>,
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
    let mut config = SwitchConfig::new(&name, listen, open(&settings.port)?);
    config.device_id = settings.device_id.unwrap_or(config.device_id);
    let switch = SoftSwitch::start(config).await.with_context(|| format!("switch {name} cannot start"))?;
    tracing::info!(name, ports = settings.port.len(), "switch is up");
    daemon::ready();
    tokio::select! {
        () = stop.requested() => Ok(switch.stop().await?),
        () = ended(&switch) => {
            switch.stop().await?;
            bail!("switch {name} has ended by itself: see the log")
        }
    }
}

fn open(ports: &[PortAt]) -> Result<Vec<(u16, Box<dyn FramePort>)>> {
    let open = |port: &PortAt| {
        let opened = InterfacePort::open(&port.interface).with_context(|| format!("port {}", port.number))?;
        Ok((port.number, Box::new(opened) as Box<dyn FramePort>))
    };
    ports.iter().map(open).collect()
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
