//! Checks of hosts and their interfaces.

use tributary_api::v1;
use tributary_wire::SliceWidth;

use super::limits::seconds;
use crate::commands::doctor::finding::{Code, Finding};
use crate::commands::doctor::snapshot::Snapshot;

/// Time for which a refusal of a daemon is reported. systemd restarts such a daemon every few seconds.
const REFUSAL_MILLISECONDS: u64 = 10 * 60 * 1000;
/// Drivers of virtual interfaces. Their frames reach a switch on this machine unchanged, because no
/// hardware splits them or computes their checksums.
const VIRTUAL: [&str; 2] = ["veth", "virtio_net"];
/// The offload that obstructs frames: TCP segments longer than the MTU. Missing checksums cause no
/// harm, because an embedded switch's ports compute them.
const IN_THE_WAY: &str = "tso";

pub(super) fn check(snapshot: &Snapshot) -> Vec<Finding> {
    snapshot.hosts.iter().flat_map(|host| of_host(snapshot, host)).collect()
}

fn of_host(snapshot: &Snapshot, host: &v1::Host) -> Vec<Finding> {
    let daemon = refused(host).or_else(|| absent(snapshot, host)).or_else(|| doubled(host));
    // If a host has two daemons, both report the same interface.
    let interface = host.daemons.iter().find_map(|daemon| daemon.condition.as_ref()?.interface.as_ref());
    let of_interface =
        interface.into_iter().flat_map(|one| [down(host, one), mtu(host, one), offloads(host, one)]);
    daemon.into_iter().chain(of_interface.flatten()).collect()
}

fn place(host: &v1::Host) -> String {
    format!("host {}", host.name)
}

fn refused(host: &v1::Host) -> Option<Finding> {
    let refusal = host.last_refusal.as_ref();
    let v1::DaemonRefusal { reason, milliseconds_ago } =
        refusal.filter(|refusal| refusal.milliseconds_ago < REFUSAL_MILLISECONDS)?;
    let what = format!("the controller refused its daemon {} ago: {reason}", seconds(*milliseconds_ago));
    let fix = "correct the cause: the daemon's --host, --interface or certificate, or the host's address in the \
               topology file";
    Some(Finding::problem(Code::HostRefused, place(host), what, fix))
}

/// Finds a worker host without an agent. A server host needs a daemon only while a job uses it.
fn absent(snapshot: &Snapshot, host: &v1::Host) -> Option<Finding> {
    let works = host.daemons.iter().any(|daemon| daemon.works);
    if works || host.role() != v1::MemberRole::Worker {
        return None;
    }
    let fix = format!(
        "start it (`systemctl start tributary-agent` on {}); if it runs, its log shows why it does not reach the \
         controller: check its --controller and the management network",
        host.name
    );
    let is_of = |job: &&v1::Job| {
        job.state() == v1::JobState::Running && job.members.iter().any(|member| member.host == host.name)
    };
    let is_missed = snapshot.jobs.iter().find(is_of);
    Some(match is_missed {
        Some(job) => {
            let what = format!(
                "it is a worker of job {}, but the controller receives nothing from its agent",
                job.name
            );
            Finding::problem(Code::HostAbsent, place(host), what, fix)
        }
        None => {
            let what = "it is a worker, but the controller receives nothing from its agent";
            Finding::warning(Code::HostAbsent, place(host), what, fix)
        }
    })
}

/// Finds a host with two agents. The controller lists both only if both are running.
fn doubled(host: &v1::Host) -> Option<Finding> {
    let agents = host.daemons.iter().filter(|daemon| daemon.works).count();
    let what = format!("it has {agents} agents, which use the same interface and take each other's frames");
    let fix = "stop all but one of them";
    (agents > 1).then(|| Finding::problem(Code::HostDoubled, place(host), what, fix))
}

fn down(host: &v1::Host, interface: &v1::InterfaceCondition) -> Option<Finding> {
    let name = &interface.name;
    (!interface.up).then(|| {
        let what = format!("{name}, which leads to its switch, is down or has no carrier");
        let fix = format!(
            "run `ip link set {name} up` there; if it is up, plug the cable in, and check its other end"
        );
        Finding::problem(Code::InterfaceDown, place(host), what, fix)
    })
}

fn mtu(host: &v1::Host, interface: &v1::InterfaceCondition) -> Option<Finding> {
    let v1::InterfaceCondition { name, mtu_bytes, .. } = interface;
    // Jobs rely on the MTU that the topology gives the link, up to the length of a slice's packet.
    let widest = SliceWidth::widest_within(host.link_mtu_bytes as usize).unwrap_or(SliceWidth::NARROWEST);
    let needed = u32::try_from(widest.mtu()).unwrap_or(u32::MAX);
    let link = host.link_mtu_bytes.max(needed);
    (*mtu_bytes < needed).then(|| {
        Finding::problem(
            Code::MtuTooSmall,
            place(host),
            format!(
                "the MTU of {name} is {mtu_bytes} bytes, but gradients may need {needed} bytes: longer frames are \
                 lost"
            ),
            format!(
                "run `ip link set {name} mtu {link}` there, and at the other end of its cable; then restart its \
                 daemons"
            ),
        )
    })
}

fn offloads(host: &v1::Host, interface: &v1::InterfaceCondition) -> Option<Finding> {
    let v1::InterfaceCondition { name, driver, offloads, .. } = interface;
    if !offloads.iter().any(|on| on == IN_THE_WAY) || !VIRTUAL.contains(&driver.as_str()) {
        return None;
    }
    let what = format!(
        "offloads are on at the virtual interface {name} ({driver}): {IN_THE_WAY}. A switch on the same machine \
         receives frames that are longer than the MTU, so other traffic through the fabric stalls"
    );
    let fix = format!("run `ethtool -K {name} {IN_THE_WAY} off` there");
    Some(Finding::warning(Code::OffloadInTheWay, place(host), what, fix))
}

#[cfg(test)]
mod tests {
    use super::super::testing::healthy;
    use super::*;
    use crate::commands::doctor::finding::Severity;

    /// Returns the findings after `change` has modified the first host.
    fn found(change: impl FnOnce(&mut v1::Host)) -> Vec<Finding> {
        let mut snapshot = healthy();
        change(&mut snapshot.hosts[0]);
        check(&snapshot)
    }

    fn interface(host: &mut v1::Host) -> &mut v1::InterfaceCondition {
        host.daemons[0].condition.as_mut().unwrap().interface.as_mut().unwrap()
    }

    fn codes(found: &[Finding]) -> Vec<Code> {
        found.iter().map(|finding| finding.code).collect()
    }

    #[test]
    fn a_worker_without_an_agent_is_absent_and_one_that_was_refused_has_a_reason() {
        let gone = found(|host| host.daemons.clear());
        assert_eq!((codes(&gone), gone[0].place.as_str()), (vec![Code::HostAbsent], "host w0"));
        assert_eq!(gone[0].severity, Severity::Problem, "it is in a job that runs");
        let mut idle = healthy();
        (idle.hosts[0].daemons, idle.jobs) = (Vec::new(), Vec::new());
        assert_eq!(check(&idle)[0].severity, Severity::Warning);
        let server = found(|host| {
            host.daemons.clear();
            host.role = v1::MemberRole::Server.into();
        });
        assert_eq!(server, [], "a member's host serves where there is none");
        let refusal = |milliseconds_ago| {
            found(|host| {
                host.daemons.clear();
                host.last_refusal = Some(v1::DaemonRefusal { reason: "its MAC".into(), milliseconds_ago });
            })
        };
        assert_eq!(codes(&refusal(3000)), [Code::HostRefused]);
        assert_eq!(refusal(3000)[0].what, "the controller refused its daemon 3 s ago: its MAC");
        assert_eq!(codes(&refusal(REFUSAL_MILLISECONDS)), [Code::HostAbsent]);
    }

    #[test]
    fn a_host_has_one_agent() {
        let two = found(|host| host.daemons.push(host.daemons[0].clone()));
        assert_eq!(codes(&two), [Code::HostDoubled]);
    }

    #[test]
    fn an_interface_is_down() {
        let found = found(|host| interface(host).up = false);
        assert_eq!(codes(&found), [Code::InterfaceDown]);
        assert!(found[0].fix.contains("`ip link set eth0 up`"), "{}", found[0].fix);
    }

    #[test]
    fn an_mtu_is_too_small_below_the_longest_packet() {
        for (link, width) in [(1500, SliceWidth::ETHERNET), (9000, SliceWidth::WIDEST)] {
            let with = |mtu| {
                let change = |host: &mut v1::Host| {
                    host.link_mtu_bytes = link;
                    interface(host).mtu_bytes = mtu;
                };
                codes(&found(change))
            };
            let needed = u32::try_from(width.mtu()).unwrap();
            assert_eq!((with(needed), with(needed - 1)), (vec![], vec![Code::MtuTooSmall]));
        }
    }

    #[test]
    fn offloads_are_in_the_way_where_no_hardware_finishes_frames() {
        let with = |driver: &str, offloads: &[&str]| {
            found(|host| {
                interface(host).driver = driver.into();
                interface(host).offloads = offloads.iter().map(|&one| one.to_owned()).collect();
            })
        };
        let virtual_one = with("veth", &["tso", "gso", "tx"]);
        assert_eq!(codes(&virtual_one), [Code::OffloadInTheWay]);
        assert_eq!(virtual_one[0].fix, "run `ethtool -K eth0 tso off` there");
        assert_eq!(with("mlx5_core", &["tso", "tx", "lro"]), []);
        assert_eq!(with("veth", &["gso", "tx"]), []);
    }
}
