//! Places where a job could be aggregated in the network but is not, with the reasons.

use std::fmt;

use serde::{Deserialize, Serialize};
use tributary_planner::{Aggregation, FabricState, Plan, SwitchRole};
use tributary_topology::NodeKey;

/// A place where gradients of several children meet without being aggregated. `Display` describes it
/// for users.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Fallback {
    /// The name of the switch where the gradients meet; empty for all switches.
    pub(crate) switch: String,
    pub(crate) cause: Cause,
}

/// Reasons why a switch does not aggregate.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Cause {
    /// The job's creator requested it.
    AskedFor,
    /// The switch does not run our program.
    Plain,
    /// The job needed more slots than the switch had free.
    Slots { needed: u32, free: u32 },
    /// More children meet at the switch than it can distinguish.
    Children,
}

impl fmt::Display for Fallback {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { switch, cause } = self;
        match cause {
            Cause::AskedFor => f.write_str("the job was created so"),
            Cause::Plain => write!(f, "{switch} is not programmable"),
            Cause::Slots { needed, free } => {
                write!(f, "{switch} had {free} free slots for it, and it needs {needed}")
            }
            Cause::Children => write!(f, "more streams meet at {switch} than it can tell apart"),
        }
    }
}

/// Returns the fallbacks of a plan, with causes from the fabric state for which it was made.
/// Returns none if each switch aggregates wherever gradients meet, or if gradients do not meet.
///
/// `asked` is the aggregation that the job's creator requested.
pub(crate) fn fallbacks(plan: &Plan, asked: Aggregation, state: &FabricState) -> Vec<Fallback> {
    let meet = |role: &&SwitchRole| role.down.len() > 1;
    let may = |role: &&SwitchRole| level(plan, role.key) <= asked.levels();
    match asked {
        Aggregation::None if plan.switches.iter().any(|role| meet(&role)) => {
            vec![Fallback { switch: String::new(), cause: Cause::AskedFor }]
        }
        Aggregation::None => Vec::new(),
        Aggregation::Tree | Aggregation::Leaf | Aggregation::TwoLevels => {
            let passed = plan.switches.iter().filter(meet).filter(may).filter(|role| !role.aggregate);
            passed
                .map(|role| Fallback { switch: role.name.clone(), cause: cause(plan, role, state) })
                .collect()
        }
    }
}

/// Returns the number of links between the switch and the nearest worker below it.
fn level(plan: &Plan, switch: NodeKey) -> usize {
    let places = plan.workers.iter().filter_map(|worker| worker.path.iter().position(|&node| node == switch));
    places.min().unwrap_or(usize::MAX)
}

fn cause(plan: &Plan, role: &SwitchRole, state: &FabricState) -> Cause {
    let free = state.free_slots.get(&role.key).copied().unwrap_or_default();
    match role.programmable {
        false => Cause::Plain,
        true if free < plan.window => Cause::Slots { needed: plan.window, free },
        true => Cause::Children,
    }
}

/// Describes a job's fallbacks as text for users; `None` if there are none.
pub(crate) fn summary(plan: &Plan, fallbacks: &[Fallback]) -> Option<String> {
    let whole = plan.switches.iter().any(|role| role.aggregate);
    let how = if whole { "with less aggregation than there could be" } else { "without aggregation" };
    let reasons: Vec<_> = fallbacks.iter().map(ToString::to_string).collect();
    (!reasons.is_empty()).then(|| format!("{how}: {}", reasons.join("; ")))
}

/// Logs the fallbacks of a job's generation, if there are any.
pub(crate) fn warn(job: &str, generation: u32, plan: &Plan, fallbacks: &[Fallback]) {
    if let Some(summary) = summary(plan, fallbacks) {
        tracing::warn!(job, generation, "runs {summary}");
    }
}

#[cfg(test)]
mod tests {
    use tributary_planner::{JobRequest, plan};
    use tributary_topology::Topology;

    use super::*;
    use crate::testing::{plain_topology, request, topology};

    fn of(topology: &Topology, state: &FabricState, request: &JobRequest) -> (Vec<Fallback>, Option<String>) {
        let plan = plan(topology, state, request).unwrap();
        let fallbacks = fallbacks(&plan, request.aggregation, state);
        let summary = summary(&plan, &fallbacks);
        (fallbacks, summary)
    }

    fn said(topology: &Topology, state: &FabricState, request: &JobRequest) -> Option<String> {
        of(topology, state, request).1
    }

    #[test]
    fn a_tree_that_aggregates_wherever_streams_meet_has_none() {
        let topology = topology();
        let state = FabricState::of(&topology, 64);
        for aggregation in [Aggregation::Tree, Aggregation::Leaf, Aggregation::TwoLevels] {
            assert_eq!(said(&topology, &state, &request(64, aggregation)), None);
        }
        let mut alone = request(64, Aggregation::None);
        alone.workers.truncate(1);
        assert_eq!(said(&topology, &state, &alone), None);
    }

    #[test]
    fn each_switch_that_passes_streams_on_is_named_with_its_reason() {
        let topology = topology();
        let mut state = FabricState::of(&topology, 64);
        let slots = |switch: &str| format!("{switch} had 32 free slots for it, and it needs 64");
        state.free_slots.insert(topology.find("root").unwrap(), 32);
        let less = format!("with less aggregation than there could be: {}", slots("root"));
        assert_eq!(said(&topology, &state, &request(64, Aggregation::Tree)), Some(less));
        assert_eq!(
            said(&topology, &state, &request(64, Aggregation::Leaf)),
            None,
            "nobody asked the root to"
        );
        for leaf in ["leaf0", "leaf1"] {
            state.free_slots.insert(topology.find(leaf).unwrap(), 32);
        }
        let all = ["root", "leaf0", "leaf1"].map(slots).join("; ");
        let none = format!("without aggregation: {all}");
        assert_eq!(said(&topology, &state, &request(64, Aggregation::Tree)), Some(none));
    }

    #[test]
    fn what_was_asked_for_and_what_cannot_be_programmed_is_said() {
        let topology = topology();
        let state = FabricState::of(&topology, 64);
        let asked = said(&topology, &state, &request(64, Aggregation::None));
        assert_eq!(asked.as_deref(), Some("without aggregation: the job was created so"));
        let plain = plain_topology();
        let state = FabricState::of(&plain, 64);
        let (fallbacks, _) = of(&plain, &state, &JobRequest::of(&plain, 64, 4).unwrap());
        let causes: Vec<_> = fallbacks.iter().map(|one| (one.switch.as_str(), one.cause)).collect();
        assert_eq!(causes, ["root", "leaf0", "leaf1"].map(|name| (name, Cause::Plain)));
    }
}
