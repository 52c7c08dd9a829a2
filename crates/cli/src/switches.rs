//! The states of the controller's switches, for commands that show counters or jobs.

use std::time::Duration;

use anyhow::Result;
use serde_json::{Value, json};
use tonic::transport::Channel;
use tributary_api::v1;
use tributary_api::v1::controller_client::ControllerClient;

use crate::controller::refused;
use crate::states;

/// Requests the list of all switches that the controller manages.
///
/// # Errors
/// The controller refuses, or does not answer.
pub async fn list(client: &mut ControllerClient<Channel>) -> Result<Vec<v1::Switch>> {
    let listed = client.list_switches(v1::ListSwitchesRequest {}).await.map_err(refused)?;
    Ok(listed.into_inner().switches)
}

/// Returns one line for each unreachable switch, and for each faulty cable; none if there is no
/// problem.
pub fn remarks(switches: &[v1::Switch]) -> Vec<String> {
    let cables = switches.iter().flat_map(|switch| &switch.cable_faults);
    let cables = cables.map(|fault| fault.description.clone());
    let mut remarks: Vec<_> = switches.iter().filter_map(remark).chain(cables).collect();
    // The two switches at the ends of a cable both report its fault.
    remarks.dedup();
    remarks
}

/// Returns a line for an unreachable switch; `None` if the switch is up.
pub fn remark(switch: &v1::Switch) -> Option<String> {
    let (name, time) = (&switch.name, seconds(switch.state_milliseconds));
    match switch.state() {
        v1::SwitchState::Up => None,
        v1::SwitchState::Unreachable => {
            Some(format!("switch {name} has been unreachable for {time}: {}", switch.reason))
        }
        v1::SwitchState::Connecting | v1::SwitchState::Unspecified => {
            Some(format!("switch {name} has not answered yet; it is {time} since it was first asked"))
        }
    }
}

/// Returns a switch as JSON.
pub fn switch_json(switch: &v1::Switch) -> Value {
    json!({
        "name": switch.name,
        "node": switch.node,
        "address": switch.address,
        "state": states::of_switch(switch.state()),
        "state_seconds": Duration::from_millis(switch.state_milliseconds).as_secs_f64(),
        "reason": switch.reason,
        "runs_our_program": switch.runs_our_program,
        "wanted_entries": switch.wanted_entries,
        "slots": switch.slots,
        "slots_taken": switch.slots_taken,
        "cable_faults": switch.cable_faults.iter().map(|fault| &fault.description).collect::<Vec<_>>(),
    })
}

/// Formats milliseconds as seconds for users.
fn seconds(milliseconds: u64) -> String {
    format!("{:.1} s", Duration::from_millis(milliseconds).as_secs_f64())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_switches_that_are_not_there_are_remarked_on() {
        let switch = |name: &str, state: v1::SwitchState| v1::Switch {
            name: name.into(),
            state: state.into(),
            state_milliseconds: 12_340,
            reason: "no answer".into(),
            ..v1::Switch::default()
        };
        let switches = [switch("leaf0", v1::SwitchState::Up), switch("leaf1", v1::SwitchState::Unreachable)];
        let unreachable = "switch leaf1 has been unreachable for 12.3 s: no answer".to_owned();
        assert_eq!(remarks(&switches), std::slice::from_ref(&unreachable));
        let cut = "no frames get through the cable between leaf0 and leaf1";
        let fault = v1::CableFault { kind: v1::CableFaultKind::Dead.into(), description: cut.into() };
        let cut_off =
            switches.clone().map(|switch| v1::Switch { cable_faults: vec![fault.clone()], ..switch });
        assert_eq!(remarks(&cut_off), [unreachable, cut.to_owned()]);
        assert_eq!(switch_json(&switches[1])["state_seconds"], 12.34);
    }
}
