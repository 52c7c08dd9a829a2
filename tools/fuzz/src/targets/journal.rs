//! A controller's journal, with jobs that an earlier controller has written.
//!
//! The earlier controller may have had another version or another topology. The target checks that a record
//! is accepted or refused, and that an accepted plan does not change when it is written and read again.

use std::sync::LazyLock;

use tributary_planner::{FabricState, JobRequest, StoredPlan, plan};
use tributary_topology::Topology;

use crate::finding::sound;
use crate::{Seed, Target};

pub(super) const TARGET: Target = Target {
    name: "journal",
    about: "plans and jobs on disk (JSON)",
    max_len: 12_000,
    tries: 700,
    run,
    seeds,
};

static TOPOLOGY: LazyLock<Topology> = LazyLock::new(|| {
    sound(Topology::parse(include_str!("../../../../topologies/two-leaves-4.toml"), "two-leaves-4"))
});

fn run(bytes: &[u8]) {
    if let Ok(stored) = serde_json::from_slice::<StoredPlan>(bytes)
        && let Ok(plan) = stored.into_plan(&TOPOLOGY)
    {
        let kept = StoredPlan::from(&plan);
        let read = sound(serde_json::from_slice::<StoredPlan>(&sound(serde_json::to_vec(&kept))));
        assert_eq!(read, kept);
        assert_eq!(StoredPlan::from(&sound(read.into_plan(&TOPOLOGY))), kept);
    }
    if let Err(reason) = tributary_controller::check_record(bytes, &TOPOLOGY) {
        assert!(!reason.is_empty());
    }
}

fn seeds() -> Vec<Seed> {
    let job = sound(JobRequest::of(&TOPOLOGY, 64, 1024).ok_or("nobody to work"));
    let plan = sound(plan(&TOPOLOGY, &FabricState::of(&TOPOLOGY, 4096), &job));
    let plan = sound(serde_json::to_value(StoredPlan::from(&plan)));
    let server = &TOPOLOGY[job.server].name;
    let workers = job.workers.iter().map(|member| (member.rank, &TOPOLOGY[member.host].name));
    let record = serde_json::json!({
        "name": "job", "creator": "local", "token": vec![1; 32], "secret": vec![2; 32],
        "workers": workers.collect::<Vec<_>>(), "server": server,
        "aggregation": plan["aggregation"], "downlink": plan["downlink"],
        "window": 64, "gradient_bytes": 1024, "rigid": false, "server_reads": false, "confidential": false,
        "join_deadline_milliseconds": 1000, "degraded_auto": true, "theta": 0.5, "job_index": 1,
        "processes_per_host": 4, "processes": { "0": 4 },
        "has_started": true, "is_queued": false, "elastic": true, "last_change": "none", "issued": 2,
        "generation": {
            "number": 2, "job": 3, "plan": plan, "joined": [0], "first_seqs": [17], "begun": 1, "regroup": false,
            "detached": [], "mode": null, "slots": {}, "fallbacks": [],
        },
    });
    let record = record.to_string().into_bytes();
    // If a seed were refused, it would be useless.
    assert_eq!(tributary_controller::check_record(&record, &TOPOLOGY), Ok("job".to_owned()));
    vec![("plan".to_owned(), plan.to_string().into_bytes()), ("record".to_owned(), record)]
}
