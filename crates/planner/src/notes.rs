//! Notes on a plan, for users.
use tributary_wire::Downlink;

use crate::compare::Comparison;
use crate::costed_tree::CostedTree;
use crate::fabric::Fabric;
use crate::request::{Aggregation, JobRequest};
use crate::roles::AggregationObstacle;

/// The number of hosts that fit in a switch's table of MAC addresses.
/// Two entries of the table (MAC_ENTRIES in `p4/include/constants.p4`) do not belong to hosts.
const MOST_HOSTS: usize = 4094;

/// Returns notes on the fallbacks of the plan, and then on its gain.
pub(crate) fn notes(
    fabric: &Fabric<'_>,
    job: &JobRequest,
    choice: &CostedTree,
    comparison: &Comparison,
) -> Vec<String> {
    let mut notes = obstacles(fabric, job, choice);
    notes.extend(plain_downlink(fabric, job, choice));
    notes.extend(shared_host(fabric, job));
    notes.extend(worth(job, choice, comparison));
    notes.extend(too_many_hosts(fabric));
    notes
}

fn too_many_hosts(fabric: &Fabric<'_>) -> Option<String> {
    let hosts = fabric.topology.hosts().count();
    (hosts > MOST_HOSTS).then(|| {
        format!(
            "{hosts} hosts are more than the {MOST_HOSTS} MAC addresses that a switch has room for: switches would \
             refuse their tables, so leave out hosts that take part in no job"
        )
    })
}

fn obstacles(fabric: &Fabric<'_>, job: &JobRequest, choice: &CostedTree) -> Vec<String> {
    let all = choice.tree.branches().iter().zip(&choice.roles.merges);
    let mut refused: Vec<_> =
        all.filter_map(|(branch, merge)| Some((branch.switch, merge.obstacle?))).collect();
    refused.sort_unstable_by_key(|(switch, _)| *switch);
    refused
        .into_iter()
        .map(|(switch, obstacle)| {
            let name = fabric.name(switch);
            match obstacle {
                AggregationObstacle::Plain => format!("{name} is not programmable: it forwards gradients without \
                                                       aggregation"),
                AggregationObstacle::Slots(free) => format!(
                    "{name} has {free} free slots and the job's window needs {}: it forwards gradients without \
                     aggregation",
                    job.window
                ),
                AggregationObstacle::Children(count) => format!(
                    "{count} streams meet at {name}, which distinguishes at most {}: it forwards gradients without \
                     aggregation",
                    fabric.most_children()
                ),
            }
        })
        .collect()
}

fn plain_downlink(fabric: &Fabric<'_>, job: &JobRequest, choice: &CostedTree) -> Option<String> {
    if choice.downlink == job.downlink {
        return None;
    }
    let switches = choice.tree.branches().iter().map(|branch| branch.switch);
    let names: Vec<_> =
        switches.filter(|&node| fabric.is_plain(node)).map(|node| fabric.name(node)).collect();
    Some(format!(
        "results go down by unicast, one copy a worker: {} cannot multicast them",
        names.join(" and ")
    ))
}

fn shared_host(fabric: &Fabric<'_>, job: &JobRequest) -> Option<String> {
    let worker = job.workers.iter().find(|worker| worker.host == job.server)?;
    Some(format!(
        "{} is the server and rank {}: its link carries the sums and its own gradients, too",
        fabric.name(job.server),
        worker.rank
    ))
}

/// Returns notes on the gain of the tree, and on the baseline of the comparison.
fn worth(job: &JobRequest, choice: &CostedTree, comparison: &Comparison) -> Vec<String> {
    let mut notes = Vec::new();
    let aggregates = choice.roles.merges.iter().any(|merge| merge.aggregate);
    if job.workers.len() == 1 {
        notes.push(
            "all ranks are on one host, whose agent adds them: the switches have nothing to aggregate"
                .to_owned(),
        );
    } else if !aggregates && job.aggregation != Aggregation::None {
        notes.push("no switch can aggregate here: this is a plain parameter server".to_owned());
    }
    if let Some(speedup) = comparison.speedup_over_ring.filter(|speedup| *speedup <= 1.0) {
        let what = if aggregates { "in-network aggregation gains nothing here: " } else { "" };
        notes.push(format!("{what}a ring all-reduce would take {:.0} % of the time", 100.0 * speedup));
    }
    if aggregates && comparison.speedup_over_parameter_server <= 1.0 {
        notes.push("in-network aggregation gains nothing over a plain parameter server here".to_owned());
    }
    if job.downlink == Downlink::Unicast && job.workers.len() > 1 {
        notes.push(
            "unicast results leave the server once for each worker; multicast sends them once".to_owned(),
        );
    }
    notes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_p4_programs_table_has_room_for_so_many_hosts() {
        let source = include_str!("../../../p4/include/constants.p4");
        assert!(source.contains(&format!("const bit<32> MAC_ENTRIES = {};", MOST_HOSTS + 2)));
    }
}
