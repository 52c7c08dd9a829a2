//! The part that a job adds to the desired state of a switch.

use tributary_api::Endpoint;
use tributary_planner::SwitchRole;
use tributary_topology::{NodeKey, Topology};
use tributary_wire::{JobId, Rank};

use super::generation::Generation;
use super::member::endpoint;
use super::record::JobRecord;
use crate::slots::SlotBlock;
use crate::switch_state::SwitchState;
use crate::tables::admission::{self, Admit, AdmitBySender, Kinds, SenderKey};
use crate::tables::egress_guard::{self, Allow};
use crate::tables::multicast;
use crate::tables::result_group::{self, Deliver};

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
        for &egress_port in &role.egress_ports {
            state.put(egress_guard::Key { job, egress_port }, Allow {});
        }
        if let Some(results) = &role.result_group {
            let group = multicast::job_group(job_index, generation.number);
            state.put_group(group, results.ports.iter().copied());
            state.put(result_group::Key { job }, Deliver { group, release: results.release });
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
    let slots = slots.unwrap_or(SlotBlock { base: 0, size: 1 });
    for admitted in &role.admission {
        let ingress_port = admitted.ingress_port;
        let key = admission::Key { job, ingress_port };
        let admit = Admit {
            job_index,
            slot_base: slots.base,
            slot_mask: slots.size - 1,
            children: admitted.children,
            kinds: Kinds { gradients: admitted.gradient, results: admitted.result },
            aggregate: admitted.aggregate,
            fan_in: admitted.fan_in,
            rank: admitted.rank.map_or(Rank::ALL, Rank::new),
        };
        match &admitted.sender {
            None => state.put(key, admit),
            Some(sender) => {
                state.put(key, AdmitBySender {});
                // An address always exists, because every sender is a host of the topology.
                if let Some(Endpoint { mac: source_mac, ip: source_ip }) = endpoint(topology, sender.key) {
                    state.put(SenderKey { job, ingress_port, source_mac, source_ip }, admit);
                }
            }
        }
    }
}
