//! The part that a job adds to the desired state of a switch.

use tributary_planner::SwitchRole;
use tributary_topology::{NodeKey, Topology};
use tributary_wire::JobId;

use super::generation::Generation;
use super::member::endpoint;
use super::record::JobRecord;
use crate::switch_state::SwitchState;
use crate::tables::admission::{self, Admit, Kinds, SlotBlock};
use crate::tables::{egress_guard, multicast, result_group, sender_admission};

/// Adds the entries of the job's installed generations to the desired state of `switch`.
/// A switch gets no entries for a generation if it is not on the generation's tree or does not run our program.
pub(crate) fn add_job(state: &mut SwitchState, topology: &Topology, switch: NodeKey, job: &JobRecord) {
    for generation in job.installed() {
        add_generation(state, topology, switch, job.job_index, generation);
    }
}

fn add_generation(
    state: &mut SwitchState,
    topology: &Topology,
    switch: NodeKey,
    job_index: u16,
    generation: &Generation,
) {
    let job = generation.job;
    let on_tree = generation.plan.switches.iter().filter(|role| role.key == switch && role.programmable);
    for role in on_tree {
        let slots = generation.switches.get(&switch).copied().flatten();
        add_admission(state, topology, role, job, job_index, slots);
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

/// Admits the packets that the job's tree sends into each port of a switch.
/// If several hosts share a port, there is one entry for each sender's address, because an agent's packets carry the
/// address of its host. A sum carries the address of a host whose gradient it includes.
fn add_admission(
    state: &mut SwitchState,
    topology: &Topology,
    role: &SwitchRole,
    job: JobId,
    job_index: u16,
    slots: Option<SlotBlock>,
) {
    for admitted in &role.admission {
        let key = admission::Key { job, ingress_port: admitted.ingress_port };
        let admit = Admit {
            job_index,
            slots,
            children: admitted.children,
            kinds: Kinds { gradients: admitted.gradient, results: admitted.result },
            aggregate: admitted.aggregate,
            fan_in: admitted.fan_in,
            rank: admitted.rank,
        };
        match &admitted.sender {
            None => state.put(admission::entry(key, &admit)),
            Some(sender) => {
                state.put(admission::by_sender(key));
                // An address always exists, because every sender is a host of the topology.
                let address = endpoint(topology, sender.key);
                address
                    .into_iter()
                    .for_each(|address| state.put(sender_admission::entry(key, address, &admit)));
            }
        }
    }
}
