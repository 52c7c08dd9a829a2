//! What a job adds to the state of a switch.

use tributary_topology::NodeKey;

use super::generation::Generation;
use super::record::JobRecord;
use crate::state::SwitchState;
use crate::tables::admission::{self, Admit, Kinds};
use crate::tables::{egress_guard, multicast, result_group};

/// Adds what the job's installed generations need to the state of `switch`. A switch that is not on a generation's
/// tree, or that does not run our program, gets nothing of it.
pub(crate) fn add_job(state: &mut SwitchState, switch: NodeKey, job: &JobRecord) {
    for generation in job.installed() {
        add_generation(state, switch, job.job_index, generation);
    }
}

fn add_generation(state: &mut SwitchState, switch: NodeKey, job_index: u16, generation: &Generation) {
    let job = generation.job;
    let on_tree = generation.plan.switches.iter().filter(|role| role.key == switch && role.programmable);
    for role in on_tree {
        let slots = generation.switches.get(&switch).copied().flatten();
        for port in &role.admission {
            let key = admission::Key { job, ingress_port: port.ingress_port };
            let admit = Admit {
                job_index,
                slots,
                children: port.children,
                kinds: Kinds { gradients: port.gradient, results: port.result },
                aggregate: port.aggregate,
                fan_in: port.fan_in,
            };
            state.put(admission::entry(key, &admit));
        }
        for port in &role.egress_ports {
            state.put(egress_guard::entry(job, *port));
        }
        if let Some(results) = &role.result_group {
            let group = multicast::job_group(job_index, generation.number);
            state.put_group(group, results.ports.iter().copied());
            state.put(result_group::entry(job, group, results.release));
        }
    }
}
