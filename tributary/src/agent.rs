//! `tributary agent`.

use std::path::PathBuf;
use std::sync::Arc;

use anyhow::{Result, anyhow};
use clap::Args;
use serde::{Deserialize, Serialize};
use tributary_host_agent::{AgentConfig, AgentDaemon, HostPort, OpenPort};
use tributary_link::FramePort;
use tributary_protocol::Timers;

use crate::daemon::{self, DaemonArgs, Stop, required};
use crate::options::DEFAULT_SOCKET;
use crate::remote;

/// The agent's own options.
#[derive(Debug, Default, Args, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
pub(crate) struct Settings {
    /// This host, as the topology names it
    #[arg(long, value_name = "NAME")]
    host: Option<String>,

    /// The interface that leads to this host's switch
    #[arg(long, value_name = "INTERFACE")]
    interface: Option<String>,

    /// The controller's address
    #[arg(long, value_name = "HOST:PORT")]
    controller: Option<String>,

    /// The Unix socket that training processes connect to [default: /run/tributary/agent.sock]
    #[arg(long, value_name = "PATH")]
    socket: Option<PathBuf>,
}

/// Runs the agent of this host until it is stopped.
///
/// # Errors
/// Wrong settings, an interface that cannot be opened, a socket that another agent has.
pub(crate) fn run(args: &DaemonArgs<Settings>) -> Result<()> {
    daemon::run(args, work)
}

async fn work(settings: Settings, mut stop: Stop) -> Result<()> {
    let interface = required(settings.interface, "interface")?;
    let config = AgentConfig {
        host: required(settings.host, "host")?,
        controller: remote::endpoint(&required(settings.controller, "controller")?)?,
        open_port: ports(&interface)?,
        socket: settings.socket.unwrap_or_else(|| PathBuf::from(DEFAULT_SOCKET)),
        timers: Timers::default(),
    };
    let (host, socket) = (config.host.clone(), config.socket.clone());
    let agent = AgentDaemon::start(config)?;
    tracing::info!(host, interface, socket = %socket.display(), "agent is up");
    daemon::ready();
    tokio::select! {
        () = stop.requested() => {
            agent.shutdown().await;
            Ok(())
        }
        error = agent.failed() => Err(anyhow!("the agent cannot serve processes any more: {error}")),
    }
}

/// Opens the interface for each job. It is opened once at the start, to find out now whether it can be.
pub(crate) fn ports(interface: &str) -> Result<OpenPort> {
    HostPort::open(interface)?;
    let interface = interface.to_owned();
    Ok(Arc::new(move || Ok(Box::new(HostPort::open(&interface)?) as Box<dyn FramePort>)))
}
