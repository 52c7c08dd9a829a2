//! Tests of plans that are written to disk and restored.

use proptest::prelude::*;
use proptest::sample::Index;
use serde_json::Value;
use tributary_planner::{FabricState, JobRequest, Plan, StoredPlan, StoredPlanError, plan};
use tributary_testkit::topologies::topologies;
use tributary_topology::Topology;

use crate::network::{variants, walk};

const THREE_TIER: &str = include_str!("../../../../topologies/three-tier-8.toml");

/// Returns the plan of a random job on the topology:
/// some of its workers, any host as the server, any variant.
fn planned(topology: &Topology, [server, variant]: [Index; 2], leave: &[Index]) -> Option<Plan> {
    let mut job = JobRequest::of(topology, 64, 1024).unwrap();
    for index in leave.iter().take(job.workers.len() - 1) {
        job.workers.remove(index.index(job.workers.len()));
    }
    let hosts: Vec<_> = topology.hosts().map(|(host, ..)| host).collect();
    job.server = *server.get(&hosts);
    plan(topology, &FabricState::of(topology, 4096), variant.get(&variants(&job))).ok()
}

fn to_json(plan: &Plan) -> Value {
    serde_json::to_value(StoredPlan::from(plan)).unwrap()
}

fn restored(json: Value, topology: &Topology) -> Option<Result<Plan, StoredPlanError>> {
    Some(serde_json::from_value::<StoredPlan>(json).ok()?.into_plan(topology))
}

/// The kinds of damage to a stored value.
#[derive(Debug, Clone)]
enum Damage {
    Number(u64),
    Flip,
    Text(String),
    /// A value of the same kind from another place in the plan.
    Copied(Index),
    Removed,
    Doubled,
}

fn damage() -> impl Strategy<Value = Damage> {
    prop_oneof![
        4 => prop_oneof![0u64..10, 60u64..70, any::<u64>()].prop_map(Damage::Number),
        2 => Just(Damage::Flip),
        1 => "[a-z0-9]{0,3}".prop_map(Damage::Text),
        6 => any::<Index>().prop_map(Damage::Copied),
        1 => Just(Damage::Removed),
        1 => Just(Damage::Doubled),
    ]
}

/// Collects pointers to all parts of the value.
fn places(value: &Value, here: &str, all: &mut Vec<String>) {
    all.push(here.to_owned());
    let below: Vec<(String, &Value)> = match value {
        Value::Object(fields) => fields.iter().map(|(name, value)| (name.clone(), value)).collect(),
        Value::Array(items) => items.iter().enumerate().map(|(n, value)| (n.to_string(), value)).collect(),
        _ => Vec::new(),
    };
    for (name, value) in below {
        places(value, &format!("{here}/{name}"), all);
    }
}

fn apply(plan: &mut Value, at: Index, damage: &Damage) {
    let mut all = Vec::new();
    places(plan, "", &mut all);
    let place = at.get(&all).clone();
    let like = |other: &Value| {
        std::mem::discriminant(other) == std::mem::discriminant(plan.pointer(&place).unwrap())
    };
    let same: Vec<Value> =
        all.iter().map(|other| plan.pointer(other).unwrap()).filter(|other| like(other)).cloned().collect();
    let value = plan.pointer_mut(&place).unwrap();
    match (damage, &mut *value) {
        (Damage::Number(number), Value::Number(_)) => *value = (*number).into(),
        (Damage::Flip, Value::Bool(flag)) => *flag = !*flag,
        (Damage::Text(text), Value::String(_)) => *value = text.as_str().into(),
        (Damage::Copied(from), _) => *value = from.get(&same).clone(),
        (Damage::Removed, Value::Array(items)) => drop(items.pop()),
        (Damage::Doubled, Value::Array(items)) => items.extend(items.first().cloned()),
        _ => {}
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(500))]

    #[test]
    fn a_plan_comes_back_as_it_was(
        topology in topologies(),
        kind in any::<[Index; 2]>(),
        leave in prop::collection::vec(any::<Index>(), 0..4),
    ) {
        if let Some(plan) = planned(&topology, kind, &leave) {
            let text = serde_json::to_string(&StoredPlan::from(&plan)).unwrap();
            let stored: StoredPlan = serde_json::from_str(&text).unwrap();
            prop_assert_eq!(stored.into_plan(&topology), Ok(plan));
        }
    }

    /// Any data on disk is either rejected, or is a plan whose packets arrive.
    #[test]
    fn damage_is_noticed_or_does_no_harm(
        topology in topologies(),
        kind in any::<[Index; 2]>(),
        damages in prop::collection::vec((any::<Index>(), damage()), 1..4),
        other in topologies(),
    ) {
        if let Some(plan) = planned(&topology, kind, &[]) {
            let mut json = to_json(&plan);
            let _ = restored(json.clone(), &other);
            damages.iter().for_each(|(at, damage)| apply(&mut json, *at, damage));
            if let Some(Ok(plan)) = restored(json, &topology)
                && plan.works(&topology, &FabricState::of(&topology, 4096))
            {
                walk(&topology, &plan);
            }
        }
    }
}

fn topology(text: &str) -> Topology {
    Topology::parse(text, "edited.toml").unwrap()
}

/// Returns the stored plan of all workers, one of which is the server.
fn stored() -> Value {
    let topology = topology(THREE_TIER);
    let job = JobRequest::of(&topology, 64, 1024).unwrap();
    let job = JobRequest { server: topology.find("w0").unwrap(), ..job };
    to_json(&plan(&topology, &FabricState::of(&topology, 4096), &job).unwrap())
}

/// Returns the error of restoring the plan after these edits of the topology file.
#[track_caller]
fn after(edits: &[(&str, &str)]) -> StoredPlanError {
    let text = edits.iter().fold(THREE_TIER.to_owned(), |text, (before, now)| {
        assert!(text.contains(before), "{before}");
        text.replace(before, now)
    });
    restored(stored(), &topology(&text)).unwrap().unwrap_err()
}

#[test]
fn plans_of_versions_that_knew_one_width_only_come_back() {
    let mut old = stored();
    assert_eq!(old.as_object_mut().unwrap().remove("values_per_slice"), Some(256.into()));
    let plan = restored(old, &topology(THREE_TIER)).unwrap().unwrap();
    assert_eq!(plan.width.values(), 256);
}

#[test]
fn what_an_edited_topology_does_not_have_any_more_is_named() {
    assert_eq!(after(&[("\"w3\"", "\"v3\"")]), StoredPlanError::NoNode("w3".into()));
    let no_link = |from_port, to: (&str, u16), now: &str| StoredPlanError::NoLink {
        from: "leaf2".into(),
        from_port,
        to: to.0.into(),
        to_port: to.1,
        now: now.into(),
    };
    let elsewhere = after(&[("[\"mid1\", \"leaf2\"]", "[\"mid0\", \"leaf2\"]")]);
    assert_eq!(elsewhere, no_link(1, ("mid1", 2), "that port leads to \"mid0\" port 4"));
    let other_port = after(&[("[\"mid1\", \"leaf2\"]", "[\"mid1\", \"leaf2:9\"]")]);
    assert!(
        matches!(&other_port, StoredPlanError::NoLink { from, now, .. }
        if from == "leaf2" && now.starts_with("that port leads to \"w4\"")),
        "{other_port}"
    );
    let gone =
        after(&[("\"leaf2\", \"w4\"", "\"leaf2:7\", \"w4\""), ("\"leaf2\", \"w5\"", "\"leaf2:8\", \"w5\"")]);
    assert!(gone.to_string().contains("a link from \"w4\" port 1 to \"leaf2\" port 2"), "{gone}");
    assert!(gone.to_string().contains("that port leads to \"leaf2\" port 7: put the link back"), "{gone}");
}

#[test]
fn a_switch_that_is_not_what_it_was_is_named() {
    let misfit =
        |worker: &str, node: &str| StoredPlanError::HopStack { worker: worker.into(), node: node.into() };
    assert_eq!(after(&[("name = \"leaf3\"", "name = \"leaf3\"\nid = 99")]), misfit("w6", "leaf3"));
    assert_eq!(after(&[("name = \"mid1\"", "name = \"mid1\"\nprogrammable = false")]), misfit("w4", "mid1"));
    assert_eq!(after(&[("name = \"w0\"", "name = \"w0\"\nid = 1500")]), misfit("w0", "w0"));
    let turned = after(&[("name = \"leaf0\"", "name = \"leaf0\"\nprogrammable = false")]);
    assert!(turned.to_string().contains("\"w0\" cannot serve a job in which it is a worker"), "{turned}");
}

#[test]
fn what_no_plan_uses_may_change() {
    let topology = topology(&THREE_TIER.replace("50 Mbit/s", "1 Gbit/s").replace("\"ps\"", "\"other\""));
    let plan = restored(stored(), &topology).unwrap().unwrap();
    assert!(plan.traffic.links.iter().all(|link| link.rate == 1_000_000_000));
    walk(&topology, &plan);
}

#[test]
fn a_plan_that_contradicts_itself_is_refused() {
    let topology = topology(THREE_TIER);
    let refused = |damage: &dyn Fn(&mut Value)| {
        let mut json = stored();
        damage(&mut json);
        restored(json, &topology).unwrap().unwrap_err().to_string()
    };
    let told = |damage: &dyn Fn(&mut Value), why: &str| {
        let refusal = refused(damage);
        assert!(refusal.starts_with("the stored plan") && refusal.contains(why), "{refusal}");
    };
    told(&|plan| plan["workers"][3]["up"][0]["child"] = 0.into(), "two streams are child 0");
    told(&|plan| plan["workers"][2]["up"][0]["node"] = 0.into(), "for node 0");
    told(&|plan| plan["workers"][2]["rank"] = 1.into(), "rank 1 comes after rank 1");
    told(&|plan| plan["window"] = 0.into(), "a window of 0 slices");
    told(&|plan| plan["ring"]["seconds"] = f64::NAN.to_bits().into(), "a time of NaN seconds");
    told(&|plan| plan["links"].as_array_mut().unwrap().truncate(9), "do not lead every worker");
    told(&|plan| plan["workers"].as_array_mut().unwrap().truncate(6), "links that no worker needs");
    told(
        &|plan| {
            let links = plan["links"].as_array_mut().unwrap();
            links.extend(links.first().cloned());
        },
        "two ways lead on from",
    );
}
