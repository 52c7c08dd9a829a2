//! The members that a disturbance hits, by killing one of their processes or by cutting them off.

use std::collections::BTreeSet;

use petgraph::unionfind::UnionFind;
use tributary_topology::{NodeKey, Topology};

use super::targets::{DisturbanceKind, LabPart, Target};

/// Returns the sets of workers that may continue while all of the targets `away` are down.
///
/// `away` is in the order of the hits. Each set has the workers of one part of the network in which the job may
/// continue. A worker continues only with all of its training processes.
///
/// The job continues in the part with the most members. If several parts are largest, it may continue in any
/// of them. Each later hit then finds the job in that part. Members that were cut off before return only when
/// they can reach the members with which the job continued.
pub(super) fn spared(topology: &Topology, away: &[&Target]) -> Vec<BTreeSet<usize>> {
    let parts = parts(topology, away);
    let mut spared = largest(parts.clone());
    if let Some((_, before)) = away.split_last().filter(|(_, before)| !before.is_empty()) {
        for gone_on in self::spared(topology, before) {
            spared.extend(largest(parts.iter().filter(|part| part.is_subset(&gone_on)).cloned().collect()));
        }
    }
    spared.sort_unstable();
    spared.dedup();
    spared
}

fn largest(mut parts: Vec<BTreeSet<usize>>) -> Vec<BTreeSet<usize>> {
    let most = parts.iter().map(BTreeSet::len).max();
    parts.retain(|members| Some(members.len()) == most);
    parts
}

/// Returns the parts of the network in which the job could continue, each as a set of workers.
///
/// Each part has a member and another host whose daemon runs, because one host serves and another trains.
fn parts(topology: &Topology, away: &[&Target]) -> Vec<BTreeSet<usize>> {
    let down = |kinds: &[DisturbanceKind]| -> Vec<NodeKey> {
        let of_kind = away.iter().filter(|target| kinds.contains(&target.kind));
        of_kind.filter_map(|target| target.node()).collect()
    };
    let (switches, hosts) = (
        down(&[DisturbanceKind::Leaf, DisturbanceKind::Middle, DisturbanceKind::Root]),
        down(&[DisturbanceKind::Agent, DisturbanceKind::Server]),
    );
    let mut parts = UnionFind::new(topology.nodes().count());
    for (key, link) in topology.links() {
        let cut = away.iter().any(|target| match target.part {
            LabPart::Link { key: cut, .. } | LabPart::Interface { key: cut, .. } => cut == key,
            LabPart::Daemon { .. } | LabPart::Process { .. } => false,
        });
        if !cut && !link.ends.iter().any(|end| switches.contains(&end.node)) {
            parts.union(link.ends[0].node.index(), link.ends[1].node.index());
        }
    }
    let alive = |host: &NodeKey| !hosts.contains(host);
    let killed = |own: usize| {
        away.iter().any(|target| matches!(target.part, LabPart::Process { worker, .. } if worker == own))
    };
    let workers = topology.workers();
    let of_part = |part: usize| -> BTreeSet<usize> {
        let inside = workers.iter().enumerate().filter(|(_, worker)| parts.find(worker.index()) == part);
        inside.filter(|(own, worker)| alive(worker) && !killed(*own)).map(|(own, _)| own).collect()
    };
    let servers = topology.servers();
    let hosts_of_part = |part: usize| {
        let hosts = workers.iter().chain(servers.first());
        hosts.filter(|host| alive(host) && parts.find(host.index()) == part).count()
    };
    let roots: BTreeSet<_> = workers.iter().map(|worker| parts.find(worker.index())).collect();
    let going_on = roots.into_iter().filter(|part| hosts_of_part(*part) >= 2).map(of_part);
    going_on.filter(|members| !members.is_empty()).collect()
}

impl Target {
    /// Returns the node of the daemon; `None` for processes, links and interfaces.
    fn node(&self) -> Option<NodeKey> {
        match &self.part {
            LabPart::Daemon { node, .. } => *node,
            LabPart::Process { .. } | LabPart::Link { .. } | LabPart::Interface { .. } => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::chaos::targets;
    use crate::chaos::tests::shipped;

    /// Returns the sets of members that may continue while the named targets are down.
    fn going_on(topology: &str, away: &[&str]) -> Vec<Vec<usize>> {
        going_on_with(1, topology, away)
    }

    fn going_on_with(per_worker: usize, topology: &str, away: &[&str]) -> Vec<Vec<usize>> {
        let topology = shipped(topology);
        let all = targets::all(&topology, per_worker);
        let find = |name: &&str| all.iter().find(|target| target.to_string() == *name).unwrap();
        let away: Vec<_> = away.iter().map(find).collect();
        spared(&topology, &away).into_iter().map(|part| part.into_iter().collect()).collect()
    }

    #[test]
    fn a_member_is_hit_by_its_own_death_and_by_that_of_what_links_it_to_the_others() {
        let all: Vec<_> = (0..8).collect();
        assert_eq!(going_on("three-tier-8", &["the controller"]), std::slice::from_ref(&all));
        assert_eq!(going_on("three-tier-8", &["the server at ps"]), std::slice::from_ref(&all));
        assert_eq!(going_on("three-tier-8", &["the agent of w3"]), [[0, 1, 2, 4, 5, 6, 7]]);
        assert_eq!(going_on("three-tier-8", &["the process at w3"]), [[0, 1, 2, 4, 5, 6, 7]]);
        assert_eq!(going_on_with(4, "three-tier-8", &["process 2 at w3"]), [[0, 1, 2, 4, 5, 6, 7]]);
        assert_eq!(going_on("three-tier-8", &["leaf switch leaf1"]), [[0, 1, 4, 5, 6, 7]]);
        assert_eq!(going_on("three-tier-8", &["leaf switch leaf1", "link leaf0-w0"]), [[1, 4, 5, 6, 7]]);
        assert_eq!(going_on("three-tier-8", &["middle switch mid1"]), [[0, 1, 2, 3]]);
        assert_eq!(
            going_on("leaf-spine-8", &["root switch spine0"]),
            std::slice::from_ref(&all),
            "there is another way"
        );
        assert_eq!(going_on("leaf-spine-8", &["link spine0-leaf2", "link leaf0-ps"]), [all]);
        assert_eq!(
            going_on("leaf-spine-8", &["link spine0-leaf2", "link spine1-leaf2"]),
            [[0, 1, 2, 3, 6, 7]]
        );
    }

    #[test]
    fn where_the_network_falls_into_equal_parts_it_may_be_either() {
        assert_eq!(going_on("three-tier-8", &["root switch root"]), [[0, 1, 2, 3], [4, 5, 6, 7]]);
        assert_eq!(going_on("three-tier-8", &["link root-mid0"]), [[0, 1, 2, 3], [4, 5, 6, 7]]);
    }

    #[test]
    fn what_is_hit_later_hits_those_who_have_gone_on() {
        let half = vec![4, 5, 6, 7];
        assert_eq!(
            going_on("three-tier-8", &["root switch root", "the process at w0"]),
            [vec![1, 2, 3], half.clone()]
        );
        let halved = going_on("three-tier-8", &["root switch root", "middle switch mid0"]);
        assert_eq!(halved, [vec![0, 1], vec![2, 3], half.clone()]);
        assert_eq!(going_on("three-tier-8", &["middle switch mid0", "root switch root"]), [half]);
    }

    #[test]
    fn nobody_goes_on_alone() {
        assert!(going_on("two-workers", &["leaf switch leaf"]).is_empty());
        assert!(going_on("two-workers", &["the server at ps", "the agent of w0"]).is_empty());
        assert_eq!(going_on("two-workers", &["the agent of w0"]), [[1]]);
        assert_eq!(going_on("two-workers", &["the server at ps"]), [[0, 1]]);
        for cut in ["link leaf-w0", "interface leaf-eth2", "interface w0-eth1"] {
            assert_eq!(going_on("two-workers", &[cut]), [[1]], "{cut}");
        }
    }
}
