//! Checks of switches and cables.

use tributary_api::v1;

use super::limits::seconds;
use crate::commands::doctor::finding::{Code, Finding};
use crate::commands::doctor::snapshot::Snapshot;

/// Time for which a reboot is reported.
const NEWS_MILLISECONDS: u64 = 10 * 60 * 1000;

pub(super) fn check(snapshot: &Snapshot) -> Vec<Finding> {
    let switches = snapshot.switches.iter();
    let states = switches.clone().filter_map(state);
    let refusals = switches.clone().filter_map(refusal);
    let resets = switches.clone().filter_map(reset);
    let tables = snapshot.tables.iter().filter_map(|compared| tables(snapshot, compared));
    let of_switches = switches.flat_map(|switch| &switch.cable_faults);
    let of_hosts = snapshot.hosts.iter().flat_map(|host| &host.cable_faults);
    let cables = of_switches.chain(of_hosts).map(cable);
    states.chain(refusals).chain(resets).chain(tables).chain(cables).collect()
}

fn place(name: &str) -> String {
    format!("switch {name}")
}

/// Finds a switch that the controller cannot use.
fn state(switch: &v1::Switch) -> Option<Finding> {
    let v1::Switch { name, address, reason, .. } = switch;
    let time = seconds(switch.state_milliseconds);
    match switch.state() {
        v1::SwitchState::Up => None,
        v1::SwitchState::Connecting | v1::SwitchState::Unspecified => Some(Finding::problem(
            Code::SwitchUnreachable,
            place(name),
            format!("has not answered at {address} for {time}, since the controller's first attempt"),
            format!(
                "start its P4Runtime server at {address}, or correct the address that the controller has"
            ),
        )),
        v1::SwitchState::Unreachable => Some(match switch.unreachable_cause() {
            v1::UnreachableCause::OtherController => Finding::problem(
                Code::SwitchForeign,
                place(name),
                format!("has been controlled by another controller for {time}: {reason}"),
                "stop one of the two controllers, or give them different switches; this controller takes the switch \
                 over as soon as the other controller disconnects",
            ),
            v1::UnreachableCause::Refuses => Finding::problem(
                Code::SwitchRefuses,
                place(name),
                format!("has refused its program or its tables for {time}: {reason}"),
                "run a target on it that can load Tributary's program (docs/bmv2.md), or set programmable = false for \
                 it in the topology",
            ),
            v1::UnreachableCause::NoAnswer | v1::UnreachableCause::Unspecified => Finding::problem(
                Code::SwitchUnreachable,
                place(name),
                format!("has been unreachable for {time}: {reason}"),
                format!(
                    "start it, or correct its address ({address}) or its device id; the controller then writes its \
                     tables, and until then jobs use other paths where possible"
                ),
            ),
        }),
    }
}

fn refusal(switch: &v1::Switch) -> Option<Finding> {
    let v1::Switch { name, refusal, .. } = switch;
    (!refusal.is_empty()).then(|| {
        Finding::problem(
            Code::SwitchRefuses,
            place(name),
            format!("is connected, but refuses table entries: {refusal}"),
            "end jobs for which it has no room, or give it larger tables; the controller tries again every second",
        )
    })
}

fn reset(switch: &v1::Switch) -> Option<Finding> {
    let reset = switch.last_reset.filter(|reset| reset.milliseconds_ago < NEWS_MILLISECONDS)?;
    let (time, count) = (seconds(reset.milliseconds_ago), reset.count);
    let how = match reset.other_program {
        true => "was set up with another program by another client",
        false => "lost its program and its tables: it was rebooted",
    };
    let fix = match reset.other_program {
        true => {
            "find the other client that sets up this switch, and stop it; the controller has installed program and \
             tables again"
        }
        false => {
            "the controller has installed both again; if the restart was not planned, check the switch's log and \
                  its power"
        }
    };
    let times = if count == 1 { "once".to_owned() } else { format!("{count} times") };
    let what = format!("{how}, {time} ago ({times} since the controller started)");
    Some(Finding::warning(Code::SwitchReset, place(&switch.name), what, fix))
}

/// Finds differences between a switch's tables and the desired tables.
fn tables(snapshot: &Snapshot, compared: &v1::TableComparison) -> Option<Finding> {
    let v1::TableComparison { name, other_program, differences, difference_count, .. } = compared;
    // An unreachable switch has a different finding already.
    let is_up = |switch: &&v1::Switch| switch.name == *name && switch.state() == v1::SwitchState::Up;
    snapshot.switches.iter().find(is_up)?;
    if *other_program {
        return Some(Finding::problem(
            Code::SwitchProgram,
            place(name),
            "runs another program than the controller has installed",
            "find the other client that sets up this switch, and stop it; then restart the switch: the controller \
             installs program and tables again, and jobs continue",
        ));
    }
    if *difference_count == 0 {
        return None;
    }
    let more = usize::try_from(*difference_count).unwrap_or(usize::MAX).saturating_sub(differences.len());
    let more = if more == 0 { String::new() } else { format!("; and {more} more") };
    let what =
        format!("has other table contents than it should; needed changes: {}{more}", differences.join("; "));
    let fix = "find the other client that writes to this switch, and stop it; then restart the controller, which \
               writes the difference, and jobs continue";
    Some(Finding::problem(Code::TablesDiffer, place(name), what, fix))
}

/// Returns the finding for a faulty cable. Its place is the cable, because both ends report the fault.
fn cable(fault: &v1::CableFault) -> Finding {
    let v1::CableFault { description, .. } = fault;
    match fault.kind() {
        v1::CableFaultKind::Miswired => Finding::problem(
            Code::CableMiswired,
            description,
            "a cable leads to another port than in the topology",
            "plug it in as in the topology, or correct the topology file; for an embedded switch, also check the \
             order of its --port options",
        ),
        v1::CableFaultKind::ShortOfMtu => Finding::problem(
            Code::CableShortOfMtu,
            description,
            "long probes get lost, but short probes do not: jobs with slices of that length use another path, or \
             cannot continue",
            "give the interfaces at both of its ends the topology's MTU (`ip link set INTERFACE mtu …`), and restart \
             an embedded switch or an agent there that was started with a smaller MTU; or give the link its real mtu \
             in the topology, and restart the controller",
        ),
        v1::CableFaultKind::Dead | v1::CableFaultKind::Unspecified => Finding::problem(
            Code::CableDead,
            description,
            "probes no longer arrive",
            "check the cable and the interfaces at both of its ends (`ip link`), which must be up; if an interface \
             was deleted and created again, restart the embedded switch or the agent there",
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::healthy;
    use super::*;

    /// Returns the findings after `change` has modified the switch.
    fn found(change: impl FnOnce(&mut v1::Switch)) -> Vec<(Code, String)> {
        let mut snapshot = healthy();
        change(&mut snapshot.switches[0]);
        check(&snapshot).into_iter().map(|finding| (finding.code, finding.what)).collect()
    }

    fn unreachable(cause: v1::UnreachableCause) -> impl FnOnce(&mut v1::Switch) {
        move |switch: &mut v1::Switch| {
            switch.state = v1::SwitchState::Unreachable.into();
            switch.unreachable_cause = cause.into();
            switch.state_milliseconds = 12_300;
            switch.reason = "so it is".into();
        }
    }

    #[test]
    fn a_switch_is_away_or_foreign_or_refuses() {
        let one = |code, what: &str| vec![(code, what.to_owned())];
        let cases = [
            (
                v1::UnreachableCause::NoAnswer,
                one(Code::SwitchUnreachable, "has been unreachable for 12 s: so it is"),
            ),
            (
                v1::UnreachableCause::OtherController,
                one(Code::SwitchForeign, "has been controlled by another controller for 12 s: so it is"),
            ),
            (
                v1::UnreachableCause::Refuses,
                one(Code::SwitchRefuses, "has refused its program or its tables for 12 s: so it is"),
            ),
        ];
        for (cause, expected) in cases {
            assert_eq!(found(unreachable(cause)), expected);
        }
        let connecting = found(|switch| switch.state = v1::SwitchState::Connecting.into());
        assert_eq!(connecting[0].0, Code::SwitchUnreachable);
        let refuses = found(|switch| switch.refusal = "refused to insert".into());
        assert_eq!(refuses[0].0, Code::SwitchRefuses);
    }

    #[test]
    fn a_reboot_is_news_for_a_while() {
        let reset = |milliseconds_ago, other_program| {
            found(|switch| {
                switch.last_reset = Some(v1::SwitchReset { count: 2, milliseconds_ago, other_program });
            })
        };
        let what = "lost its program and its tables: it was rebooted, 5 s ago (2 times since the controller started)";
        assert_eq!(reset(5_000, false), [(Code::SwitchReset, what.to_owned())]);
        assert!(reset(5_000, true)[0].1.contains("another program"));
        assert_eq!(reset(NEWS_MILLISECONDS, false), []);
    }

    #[test]
    fn tables_are_looked_at_where_the_switch_is_there() {
        let mut snapshot = healthy();
        snapshot.tables[0].difference_count = 3;
        snapshot.tables[0].differences = vec!["insert admission[job=7]".into()];
        let found = check(&snapshot);
        let what =
            "has other table contents than it should; needed changes: insert admission[job=7]; and 2 more";
        assert_eq!((found[0].code, found[0].what.as_str(), found.len()), (Code::TablesDiffer, what, 1));
        snapshot.tables[0].other_program = true;
        assert_eq!(check(&snapshot)[0].code, Code::SwitchProgram);
        unreachable(v1::UnreachableCause::NoAnswer)(&mut snapshot.switches[0]);
        let codes: Vec<_> = check(&snapshot).into_iter().map(|finding| finding.code).collect();
        assert_eq!(codes, [Code::SwitchUnreachable], "what it held last is of no interest");
    }

    #[test]
    fn a_cable_is_told_once_though_it_shows_at_both_ends() {
        let mut snapshot = healthy();
        let fault = |kind: v1::CableFaultKind, text: &str| v1::CableFault {
            kind: kind.into(),
            description: text.into(),
        };
        let dead = fault(v1::CableFaultKind::Dead, "no frames get through the cable between leaf and w0");
        let crossed = fault(v1::CableFaultKind::Miswired, "port 1 of leaf leads to port 1 of w1");
        let short = fault(
            v1::CableFaultKind::ShortOfMtu,
            "packets of 8296 bytes get lost on the cable between leaf and w1",
        );
        snapshot.switches[0].cable_faults = vec![dead.clone(), short.clone(), crossed];
        snapshot.hosts[0].cable_faults = vec![dead];
        snapshot.hosts[1].cable_faults = vec![short];
        let found = super::super::all(&snapshot, &super::super::testing::LIMITS);
        let codes: Vec<_> = found.iter().map(|finding| finding.code).collect();
        assert_eq!(codes, [Code::CableDead, Code::CableShortOfMtu, Code::CableMiswired]);
        assert_eq!(found[0].place, "no frames get through the cable between leaf and w0");
    }
}
