//! Parts that the agent and the aggregation server share, which are the daemons of member hosts.

use std::sync::Arc;
use std::time::Duration;

use anyhow::Result;
use clap::Args;
use serde::{Deserialize, Serialize};
use tokio::time::sleep;
use tributary_host_agent::{
    AgentError, Cable, ControllerSession, ControllerSessionConfig, HostPort, OpenPort, forbid_other_senders,
};
use tributary_link::{EtherTypePort, FramePort};
use tributary_transport::{ClientTls, Remote, ServerTls};
use tributary_wire::MacAddr;
use tributary_wire::probe::{DESTINATION, ETHER_TYPE};

use crate::daemons::service::{self, DaemonSettings, SettingsFile, Stop, required};
use crate::options::tls::ClientTlsArgs;

/// The time by which a daemon extends its start timeout each time it finds the controller still
/// unreachable.
const EXTENSION: Duration = Duration::from_secs(15);

/// All options of a member's daemon.
#[derive(Debug, Args)]
pub(crate) struct MemberSettings<Own: Args> {
    #[command(flatten)]
    pub(crate) member: MemberArgs,

    /// The options that only this daemon has.
    #[command(flatten)]
    pub(crate) own: Own,
}

impl<Own: DaemonSettings> DaemonSettings for MemberSettings<Own> {
    fn merge(&self, file: SettingsFile) -> Result<Self> {
        let (member, own) = file.split::<MemberArgs>();
        Ok(Self { member: self.member.merge(member)?, own: self.own.merge(own)? })
    }
}

/// The options that all members' daemons share.
#[derive(Debug, Args)]
pub(crate) struct MemberArgs {
    #[command(flatten)]
    host: HostArgs,

    #[command(flatten)]
    tls: ClientTlsArgs,
}

/// Which host this is, and where its controller is.
#[derive(Debug, Default, Args, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
struct HostArgs {
    /// Name of this host in the topology
    #[arg(long, value_name = "NAME")]
    host: Option<String>,

    /// The interface that leads to this host's switch
    #[arg(long, value_name = "INTERFACE")]
    interface: Option<String>,

    /// The controller's address
    #[arg(long, value_name = "HOST:PORT")]
    controller: Option<String>,

    /// Send neighbouring packets as one frame if the interface is a veth with its offloads on. The other
    /// end must be an embedded switch that was also started with this option
    #[arg(long)]
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    segmentation_offload: bool,
}

impl DaemonSettings for MemberArgs {
    fn merge(&self, file: SettingsFile) -> Result<Self> {
        let (tls, host) = file.split::<ClientTlsArgs>();
        Ok(Self { host: self.host.merge(host)?, tls: self.tls.merge(tls)? })
    }
}

/// A host that can take part in jobs, with the means to do so.
pub(crate) struct Member {
    /// The host's name in the topology.
    pub(crate) host: String,
    pub(crate) interface: String,
    pub(crate) open_port: OpenPort,
    pub(crate) cable: Cable,
    pub(crate) controller: Remote,
}

/// The role of a daemon on its host.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum DaemonRole {
    /// The daemon serves jobs.
    Server,
    /// The daemon works for training processes, and may also serve jobs.
    Agent,
}

impl Member {
    /// Returns the configuration of this host's session with the controller.
    pub(crate) fn session_config(&self, role: DaemonRole) -> ControllerSessionConfig {
        ControllerSessionConfig {
            host: self.host.clone(),
            controller: self.controller.clone(),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            serves: true,
            works: role == DaemonRole::Agent,
            interface: Some(self.interface.clone()),
            cable: Some(self.cable.clone()),
        }
    }
}

/// Reads the certificates that a host presents to its controller again, if it uses any.
pub(crate) fn reload_certificates(controller: &Remote) {
    if let Some(tls) = controller.tls() {
        service::note("certificates", tls.reload());
    }
}

/// Waits until the controller has accepted this host, even if the controller is unreachable for a long
/// time. Returns false if the daemon must stop instead.
///
/// # Errors
/// The controller refuses the host; the error contains its reason.
pub(crate) async fn be_welcomed(session: &ControllerSession, stop: &mut Stop) -> Result<bool> {
    loop {
        tokio::select! {
            welcomed = session.welcomed() => return Ok(welcomed.map(|()| true)?),
            () = stop.requested() => return Ok(false),
            () = sleep(EXTENSION / 3) => service::not_ready_yet("waiting for the controller", EXTENSION),
        }
    }
}

impl MemberArgs {
    /// Returns the TLS configuration of the daemon's own services; `None` for plain text.
    ///
    /// # Errors
    /// The errors of [`ClientTlsArgs::load_server`].
    pub(crate) fn server_tls(&self) -> Result<Option<ServerTls>> {
        self.tls.load_server()
    }

    /// Returns true if an option names the host, its interface or its controller.
    pub(crate) fn is_given(&self) -> bool {
        let HostArgs { host, interface, controller, .. } = &self.host;
        [host, interface, controller].into_iter().any(Option::is_some)
    }

    /// Opens the interface, and loads the certificates.
    ///
    /// # Errors
    /// A setting is missing, or an interface or a certificate cannot be used.
    pub(crate) fn member(self) -> Result<Member> {
        let HostArgs { host, interface, controller, segmentation_offload } = self.host;
        let interface = required(interface, "interface")?;
        let (host, controller) = (required(host, "host")?, required(controller, "controller")?);
        // The options are checked first, so that wrong use is reported before missing files and interfaces.
        let files = self.tls.files()?;
        let (open_port, cable) = (ports(&interface, segmentation_offload)?, cable(&interface)?);
        if let Err(error) = forbid_other_senders() {
            tracing::warn!(
                %error,
                "any process on this host can send packets in its name, and so stall or end its jobs (docs/deploying.md)"
            );
        }
        let tls = files.map(|files| ClientTls::load_of_host(files, &host)).transpose()?;
        let controller = Remote::controller(&controller, tls)?;
        Ok(Member { host, interface, open_port, cable, controller })
    }
}

/// Returns a function that opens the interface for a job. Opens the interface once now to detect errors
/// early.
fn ports(interface: &str, segmentation_offload: bool) -> Result<OpenPort> {
    HostPort::open(interface)?;
    let interface = interface.to_owned();
    Ok(Arc::new(move || {
        let port = HostPort::open(&interface)?;
        Ok(Box::new(port.with_segmentation_offload(segmentation_offload)))
    }))
}

/// Returns the port for probes of the interface's cable.
fn cable(interface: &str) -> Result<Cable> {
    let open = |interface: &str| EtherTypePort::open(interface, ETHER_TYPE, DESTINATION.octets());
    let address = MacAddr::from(open(interface).map_err(AgentError::from)?.address());
    let interface = interface.to_owned();
    Ok(Cable { address, open: Arc::new(move || Ok(Box::new(open(&interface)?) as Box<dyn FramePort>)) })
}
