//! Detects settings of an interface that obstruct frames.

use std::convert::Infallible;
use std::time::Duration;

use tokio::time::interval;
use tributary_link::{InterfaceCondition, Merging};
use tributary_wire::SliceWidth;

use crate::options::named::{LinkAt, PortAt};

/// The usual MTU of Ethernet.
const ETHERNET_MTU: u16 = 1500;

/// Warns if a port's interface has settings that obstruct frames. The controller cannot see these
/// settings, so this process checks them.
pub(super) fn warn(port: u16, interface: &str, mtu: Option<u16>) {
    let Ok(condition) = InterfaceCondition::of(interface) else { return };
    for problem in problems(interface, &condition, mtu) {
        tracing::warn!(port, interface, "{problem}");
    }
}

/// The interval of checks for offloads that another program has enabled meanwhile.
const CHECK_INTERVAL: Duration = Duration::from_secs(5);

/// Keeps offloads that merge frames disabled at a switch's interfaces, because a switch must forward
/// frames unchanged.
pub(super) struct MergingWatch {
    interfaces: Vec<Watched>,
}

/// An interface of a switch.
struct Watched {
    port: u16,
    name: String,
    /// Merging offloads that the switch cannot disable.
    still_on: Vec<&'static str>,
}

impl MergingWatch {
    /// Creates a watch over the ports that are interfaces.
    pub(super) fn new(ports: &[PortAt]) -> Self {
        let watched = ports.iter().filter_map(|port| match &port.link {
            LinkAt::Interface(name) => {
                Some(Watched { port: port.number, name: name.clone(), still_on: Vec::new() })
            }
            LinkAt::Captures(_) => None,
        });
        Self { interfaces: watched.collect() }
    }

    /// Repeats [`look`](Self::look) every five seconds, and never returns.
    pub(super) async fn watch(mut self) -> Infallible {
        let mut checks = interval(CHECK_INTERVAL);
        loop {
            checks.tick().await;
            self.look();
        }
    }

    /// Disables offloads that merge frames, and warns once about each that cannot be disabled.
    pub(super) fn look(&mut self) {
        for Watched { port, name, still_on } in &mut self.interfaces {
            // If the interface does not exist any more, its port reports that.
            let Ok(merging) = Merging::switch_off(name) else { continue };
            if !merging.switched_off.is_empty() {
                let offloads = merging.switched_off.join(", ");
                tracing::info!(
                    port,
                    interface = name,
                    offloads,
                    "switched off the offloads that merge received frames"
                );
            }
            if !merging.still_on.is_empty() && merging.still_on != *still_on {
                tracing::warn!(port, interface = name, "{}", cannot_switch_off(name, &merging.still_on));
            }
            *still_on = merging.still_on;
        }
    }
}

fn cannot_switch_off(interface: &str, merging: &[&str]) -> String {
    let off: Vec<_> = merging.iter().map(|one| format!("{one} off")).collect();
    format!(
        "the kernel merges received frames ({}), so the switch loses TCP frames, and the switch cannot change this: \
         run `ethtool -K {interface} {}` as root",
        merging.join(", "),
        off.join(" ")
    )
}

/// Returns the problems of a port's interface, each with its remedy. `promised` is the MTU of the links
/// in the topology.
fn problems(interface: &str, condition: &InterfaceCondition, promised: Option<u16>) -> Vec<String> {
    let InterfaceCondition { mtu, is_up, has_address, .. } = condition;
    let needed = promised.map_or(SliceWidth::ETHERNET.mtu(), usize::from);
    let remedy = promised.unwrap_or(ETHERNET_MTU);
    let all = [
        (!is_up).then(|| format!("it is down, or has no carrier: `ip link set {interface} up`")),
        has_address.then(|| {
            format!("it has an IP address, so that this machine answers in the switch's place: `ip address flush dev {interface}`")
        }),
        ((*mtu as usize) < needed).then(|| {
            format!("its MTU is {mtu} bytes, but gradients may need {needed} and would be lost without an error: run \
                     `ip link set {interface} mtu {remedy}`, and restart the switch")
        }),
    ];
    all.into_iter().flatten().collect()
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
        let ill = InterfaceCondition { mtu: 1000, is_up: false, has_address: true, ..well };
        let mut said = problems("swp1", &ill, None);
        said.push(cannot_switch_off("swp1", &["gro", "lro"]));
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
}
