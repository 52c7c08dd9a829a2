//! Who a disturbance hits: members that it kills something of, and those that it cuts off.

use std::collections::BTreeSet;

use petgraph::unionfind::UnionFind;
use tributary_topology::{NodeKey, Topology};

use super::targets::{Kind, Target, What};

/// The members that go on while all of `away` is: of each part of the network that the job may go on in, their ranks.
/// Where there is more than one, these have as many members as each other, and more than every other part.
///
/// A part that the job can go on in has a member, and another host whose daemon runs: one serves and one trains.
pub(super) fn spared(topology: &Topology, away: &[&Target]) -> Vec<BTreeSet<usize>> {
    let down = |kinds: &[Kind]| -> Vec<NodeKey> {
        let of_kind = away.iter().filter(|target| kinds.contains(&target.kind));
        of_kind.filter_map(|target| target.node()).collect()
    };
    let (switches, hosts) =
        (down(&[Kind::Leaf, Kind::Middle, Kind::Root]), down(&[Kind::Agent, Kind::Server]));
    let mut parts = UnionFind::new(topology.nodes().count());
    for (key, link) in topology.links() {
        let cut = away.iter().any(|target| matches!(target.what, What::Link { key: cut, .. } if cut == key));
        if !cut && !link.ends.iter().any(|end| switches.contains(&end.node)) {
            parts.union(link.ends[0].node.index(), link.ends[1].node.index());
        }
    }
    let alive = |host: &NodeKey| !hosts.contains(host);
    let killed = |rank: usize| {
        away.iter().any(|target| matches!(target.what, What::Process { rank: killed, .. } if killed == rank))
    };
    let workers = topology.workers();
    let of_part = |part: usize| -> BTreeSet<usize> {
        let inside = workers.iter().enumerate().filter(|(_, worker)| parts.find(worker.index()) == part);
        inside.filter(|(rank, worker)| alive(worker) && !killed(*rank)).map(|(rank, _)| rank).collect()
    };
    let servers = topology.servers();
    let hosts_of_part = |part: usize| {
        let hosts = workers.iter().chain(servers.first());
        hosts.filter(|host| alive(host) && parts.find(host.index()) == part).count()
    };
    let roots: BTreeSet<_> = workers.iter().map(|worker| parts.find(worker.index())).collect();
    let going_on = roots.into_iter().filter(|part| hosts_of_part(*part) >= 2).map(of_part);
    let mut going_on: Vec<_> = going_on.filter(|members| !members.is_empty()).collect();
    let most = going_on.iter().map(BTreeSet::len).max();
    going_on.retain(|members| Some(members.len()) == most);
    going_on.sort_unstable();
    going_on
}

impl Target {
    /// The node whose daemon it is.
    fn node(&self) -> Option<NodeKey> {
        match &self.what {
            What::Daemon { node, .. } => *node,
            What::Process { .. } | What::Link { .. } => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lab::chaos::targets;
    use crate::lab::chaos::tests::shipped;

    /// Who goes on while targets, as they are called, are away.
    fn going_on(topology: &str, away: &[&str]) -> Vec<Vec<usize>> {
        let topology = shipped(topology);
        let all = targets::all(&topology);
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
        assert_eq!(going_on("three-tier-8", &["root switch root", "the process at w0"]), [[4, 5, 6, 7]]);
    }

    #[test]
    fn nobody_goes_on_alone() {
        assert!(going_on("two-workers", &["leaf switch leaf"]).is_empty());
        assert!(going_on("two-workers", &["the server at ps", "the agent of w0"]).is_empty());
        assert_eq!(going_on("two-workers", &["the agent of w0"]), [[1]]);
        assert_eq!(going_on("two-workers", &["the server at ps"]), [[0, 1]]);
        assert_eq!(going_on("two-workers", &["link leaf-w0"]), [[1]]);
    }
}
