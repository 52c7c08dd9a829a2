//! What a job adds to the state of a switch.

use tributary_topology::NodeKey;

use super::record::JobRecord;
use crate::state::SwitchState;
use crate::tables::admission::{self, Admit, Kinds};
use crate::tables::{egress_guard, multicast, result_group};

/// Adds the job's entries and its group to the state of `switch`. A switch that is not on the job's tree,
/// or that does not run our program, gets nothing.
pub(crate) fn add_job(state: &mut SwitchState, switch: NodeKey, job: &JobRecord) {
    let on_tree = job.plan.switches.iter().filter(|role| role.key == switch && role.programmable);
    for role in on_tree {
        let slots = job.resources.switches.get(&switch).copied().flatten();
        for port in &role.admission {
            let key = admission::Key { job: job.job, ingress_port: port.ingress_port };
            let admit = Admit {
                job_index: job.job_index,
                slots,
                children: port.children,
                kinds: Kinds { gradients: port.gradient, results: port.result },
                aggregate: port.aggregate,
                fan_in: port.fan_in,
            };
            state.put(admission::entry(key, &admit));
        }
        for port in &role.egress_ports {
            state.put(egress_guard::entry(job.job, *port));
        }
        if let Some(results) = &role.result_group {
            let group = multicast::job_group(job.job_index);
            state.put_group(group, results.ports.iter().copied());
            state.put(result_group::entry(job.job, group, results.release));
        }
    }
}
