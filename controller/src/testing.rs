//! Fixtures for unit tests.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use tributary_planner::{Aggregation, JobRequest};
use tributary_topology::{NodeKey, Topology};
use tributary_wire::constants::MAX_CHILDREN;
use tributary_wire::{JobId, MacAddr, Rank, SliceWidth};

use crate::forwarding::base_state;
use crate::jobs::{DesiredGeneration, JobKey, OnDegraded, Terms};
use crate::pipeline::{Capacity, Pipeline, PipelineSource};
use crate::quotas::{Asking, LOCAL};
use crate::state::{ControllerState, CreateError};
use crate::switch_state::SwitchState;
use crate::tables::admission::{self, Admit, Kinds, SenderKey};
use crate::tables::result_group::{self, Deliver};
use crate::tables::{egress_guard, mac_forward};

/// A topology with two workers under each of two leaves, and a root with the server.
pub(crate) const TWO_LEAVES: &str = r#"
    name = "two-leaves"
    description = "Four workers under two leaves and a root"
    [defaults]
    rate = "50 Mbit/s"
    [[switch]]
    name = "root"
    [[switch]]
    name = "leaf0"
    [[switch]]
    name = "leaf1"
    [[host]]
    name = "ps"
    role = "server"
    [[host]]
    name = "w0"
    role = "worker"
    [[host]]
    name = "w1"
    role = "worker"
    [[host]]
    name = "w2"
    role = "worker"
    [[host]]
    name = "w3"
    role = "worker"
    [[link]]
    ends = ["root", "ps"]
    [[link]]
    ends = ["root", "leaf0"]
    [[link]]
    ends = ["root", "leaf1"]
    [[link]]
    ends = ["leaf0", "w0"]
    [[link]]
    ends = ["leaf0", "w1"]
    [[link]]
    ends = ["leaf1", "w2"]
    [[link]]
    ends = ["leaf1", "w3"]
"#;

pub(crate) fn topology() -> Arc<Topology> {
    Arc::new(Topology::parse(TWO_LEAVES, "two-leaves").unwrap())
}

/// Returns the topology [`TWO_LEAVES`] with switches that do not aggregate.
pub(crate) fn plain_topology() -> Arc<Topology> {
    let text = TWO_LEAVES.replace("[[switch]]", "[[switch]]\nprogrammable = false");
    Arc::new(Topology::parse(&text, "plain").unwrap())
}

pub(crate) fn pipeline() -> Pipeline {
    Pipeline::load(&PipelineSource::BuiltIn, SliceWidth::ETHERNET).unwrap()
}

/// Returns the state of each switch while no job uses it.
pub(crate) fn base(topology: &Topology) -> BTreeMap<NodeKey, SwitchState> {
    let tree = topology.forwarding();
    topology.switches().map(|(key, ..)| (key, base_state(topology, &tree, key))).collect()
}

/// The terms of most jobs in tests.
pub(crate) const TERMS: Terms = Terms {
    server_reads: false,
    confidential: false,
    processes_per_host: None,
    threads: 1,
    rigid: false,
    join_deadline: Duration::from_secs(60),
    on_degraded: OnDegraded { auto: false, theta: 0.1 },
};

/// Returns the first generation of a job, according to the plan from the creation of the job.
pub(crate) fn first_generation(state: &ControllerState, key: JobKey) -> DesiredGeneration {
    let record = &state.jobs.get(key).unwrap().record;
    DesiredGeneration { reason: "of a test".to_owned(), ..DesiredGeneration::first(record) }
}

/// Returns the capacity of switches that support all slice widths and distinguish all possible
/// children.
pub(crate) fn capacity(slots: u32, job_indices: u16) -> Capacity {
    Capacity { slots, job_indices, widest: SliceWidth::WIDEST, children: MAX_CHILDREN }
}

/// Returns the state of a new controller on a fabric with two spines, each of which can aggregate.
pub(crate) fn two_spines() -> ControllerState {
    const TEXT: &str = include_str!("../../topologies/leaf-spine-8.toml");
    let topology = Arc::new(Topology::parse(TEXT, "leaf-spine-8").unwrap());
    let base = base(&topology);
    ControllerState::new(topology, base, capacity(4096, 16))
}

/// Returns the state of a new controller whose switches have `slots` slots.
pub(crate) fn controller_state(slots: u32, job_indices: u16) -> ControllerState {
    let topology = topology();
    let base = base(&topology);
    ControllerState::new(topology, base, capacity(slots, job_indices))
}

impl ControllerState {
    /// Creates a job that does not wait for slots.
    pub(crate) fn create(
        &mut self,
        name: &str,
        request: &JobRequest,
        terms: Terms,
    ) -> Result<JobKey, CreateError> {
        self.create_for(&Asking { creator: LOCAL.into(), waits: false }, name, request, terms)
    }
}

/// Returns a request for a job of all workers.
pub(crate) fn request(window: u32, aggregation: Aggregation) -> JobRequest {
    JobRequest { aggregation, ..JobRequest::of(&topology(), window, 4_000_000).unwrap() }
}

/// Returns the state of a switch with an entry in each table except `identity`.
/// All keys depend on `key`, and the actions with parameters depend on `parameter`.
pub(crate) fn entries(key: u8, parameter: u8) -> SwitchState {
    let job = JobId::new(1 + u16::from(key)).unwrap();
    let (port, group) = (key.into(), parameter.into());
    let mac = MacAddr::new(2, 0, 0, 0, 0, key);
    let admit = Admit {
        job_index: 3,
        slot_base: 512,
        slot_mask: 255,
        children: 1 << 31 | 1,
        kinds: Kinds { gradients: true, results: false },
        aggregate: true,
        fan_in: parameter,
        rank: Rank::ALL,
    };
    let sender = SenderKey { job, ingress_port: port, source_mac: mac, source_ip: [10, 0, 0, key].into() };
    let mut state = SwitchState::default();
    state.put(mac_forward::Key { dst: mac }, mac_forward::Forward { port: group });
    state.put(result_group::Key { job }, Deliver { group, release: true });
    state.put(egress_guard::Key { job, egress_port: port }, egress_guard::Allow {});
    state.put(sender, admit);
    state.put(admission::Key { job, ingress_port: port }, admit);
    state
}
