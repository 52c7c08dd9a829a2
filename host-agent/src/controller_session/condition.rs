//! The condition of this host. The agent reports it to the controller, which shows it to operators.

use std::time::{SystemTime, UNIX_EPOCH};

use tributary_api::v1;
use tributary_link::InterfaceCondition;
use tributary_transport::ClientTls;

use super::config::ControllerSessionConfig;

/// Returns the host's present condition.
pub(super) fn condition(config: &ControllerSessionConfig) -> v1::HostCondition {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    v1::HostCondition {
        clock_unix_milliseconds: u64::try_from(since.as_millis()).unwrap_or(u64::MAX),
        interface: config.interface.as_deref().and_then(interface),
        certificate_expires_unix_seconds: config.controller.tls().and_then(ClientTls::expires),
    }
}

fn interface(name: &str) -> Option<v1::InterfaceCondition> {
    let condition = InterfaceCondition::of(name);
    let condition = condition.inspect_err(|error| tracing::debug!(%error, "cannot tell how it is")).ok()?;
    Some(v1::InterfaceCondition {
        name: name.to_owned(),
        mtu_bytes: condition.mtu,
        driver: condition.driver,
        up: condition.is_up,
        offloads: condition.offloads.into_iter().map(str::to_owned).collect(),
    })
}
