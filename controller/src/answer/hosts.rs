//! Builds the API's answers about hosts.

use tokio::time::Instant;
use tributary_api::v1;
use tributary_topology::Role;

use super::cable_faults::CableFaults;
use crate::clock::milliseconds;
use crate::hosts::Daemon;
use crate::manager::Manager;

/// Returns the topology's hosts, in the order of the topology.
pub(crate) fn hosts(manager: &Manager) -> Vec<v1::Host> {
    let faults = CableFaults::of(manager);
    let (state, now) = (manager.state(), Instant::now());
    let of_host = |(key, node, host): (_, &tributary_topology::Node, &tributary_topology::Host)| {
        let refused = state.hosts.refused(&node.name);
        let link = manager.topology().neighbours(key).first().map(|via| via.link);
        v1::Host {
            name: node.name.clone(),
            node: node.id.get().into(),
            role: match host.role {
                Some(Role::Worker) => v1::MemberRole::Worker,
                Some(Role::Server) => v1::MemberRole::Server,
                None => v1::MemberRole::Unspecified,
            }
            .into(),
            daemons: state.hosts.heard_of(&node.name, now).map(daemon).collect(),
            last_refusal: refused.map(|(at, reason)| v1::DaemonRefusal {
                reason: reason.clone(),
                milliseconds_ago: milliseconds(at.elapsed()),
            }),
            cable_faults: faults.at(key),
            link_mtu_bytes: link.map_or(0, |link| manager.topology()[link].mtu.into()),
        }
    };
    manager.topology().hosts().map(of_host).collect()
}

fn daemon(daemon: &Daemon) -> v1::HostDaemon {
    v1::HostDaemon {
        version: daemon.version.clone(),
        serves: daemon.serves,
        works: daemon.works,
        condition: daemon.condition.clone(),
        clock_ahead_milliseconds: daemon.clock.ahead(),
    }
}
