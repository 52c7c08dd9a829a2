//! Builds the API's answers about switches.

use tributary_api::v1;
use tributary_topology::{NodeKey, Topology};

use super::cable_faults::CableFaults;
use crate::clock::milliseconds;
use crate::manager::Manager;
use crate::slots::SlotMap;
use crate::switch::{Comparison, Switch, SwitchHealth, UnreachableCause};

/// Returns the managed switches, in the order of the topology.
pub(crate) fn switches(manager: &Manager) -> Vec<v1::Switch> {
    let (faults, topology, state) = (CableFaults::of(manager), manager.topology(), manager.state());
    let of_switch = |(key, one): (&NodeKey, &Switch)| {
        let slots = state.slots(*key);
        v1::Switch {
            cable_faults: faults.at(*key),
            slots: slots.map(SlotMap::capacity).unwrap_or_default(),
            slots_taken: slots.map(|slots| slots.capacity().saturating_sub(slots.free())).unwrap_or_default(),
            ..switch(&topology, *key, one)
        }
    };
    manager.switches.iter().map(of_switch).collect()
}

/// Returns a switch and its health, without the fields that come from the controller's state.
fn switch(topology: &Topology, key: NodeKey, switch: &Switch) -> v1::Switch {
    let health = switch.health().borrow().clone();
    let (state, reason, cause) = match &health {
        SwitchHealth::Connecting { .. } => {
            (v1::SwitchState::Connecting, "", v1::UnreachableCause::Unspecified)
        }
        SwitchHealth::Up { .. } => (v1::SwitchState::Up, "", v1::UnreachableCause::Unspecified),
        SwitchHealth::Unreachable { reason, cause, .. } => {
            (v1::SwitchState::Unreachable, reason.as_str(), unreachable_cause(*cause))
        }
    };
    let program = switch.program();
    v1::Switch {
        name: switch.name().to_owned(),
        node: topology.get(key).map(|node| node.id.get().into()).unwrap_or_default(),
        address: switch.address().to_owned(),
        state: state.into(),
        state_milliseconds: milliseconds(health.since().elapsed()),
        reason: reason.to_owned(),
        unreachable_cause: cause.into(),
        runs_our_program: program.ours,
        wanted_entries: switch.wanted_entries().try_into().unwrap_or(u32::MAX),
        last_reset: program.reset.map(|reset| v1::SwitchReset {
            count: reset.count,
            milliseconds_ago: milliseconds(reset.at.elapsed()),
            other_program: reset.other_program,
        }),
        refusal: switch.refusal().filter(|_| health.is_up()).unwrap_or_default(),
        ..v1::Switch::default()
    }
}

fn unreachable_cause(cause: UnreachableCause) -> v1::UnreachableCause {
    match cause {
        UnreachableCause::NotRunning | UnreachableCause::NoAnswer => v1::UnreachableCause::NoAnswer,
        UnreachableCause::OtherController => v1::UnreachableCause::OtherController,
        UnreachableCause::Refuses => v1::UnreachableCause::Refuses,
    }
}

/// Compares each `wanted` switch with its desired state. The result is in the order of the topology.
pub(crate) async fn comparisons(
    manager: &Manager,
    wanted: impl Fn(&str) -> bool,
) -> Vec<v1::TableComparison> {
    let wanted = manager.switches.values().filter(|switch| wanted(switch.name()));
    // All comparisons start before the first answer is awaited.
    let asked: Vec<_> = wanted.map(|switch| (switch.name().to_owned(), switch.compare())).collect();
    let mut comparisons = Vec::new();
    for (name, compared) in asked {
        comparisons.push(match compared.await {
            Ok(comparison) => table_comparison(name, comparison),
            Err(error) => v1::TableComparison {
                name,
                unreachable: Some(error.to_string()),
                ..v1::TableComparison::default()
            },
        });
    }
    comparisons
}

fn table_comparison(name: String, comparison: Comparison) -> v1::TableComparison {
    let Comparison { other_program, differences, count } = comparison;
    let difference_count = u32::try_from(count).unwrap_or(u32::MAX);
    v1::TableComparison { name, unreachable: None, other_program, differences, difference_count }
}
