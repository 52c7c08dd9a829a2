//! A healthy deployment for tests, which then modify it.

use std::time::Duration;

use tributary_api::v1;

use super::limits::Limits;
use crate::commands::doctor::snapshot::{Own, Snapshot};

pub(super) const NOW: u64 = 1_800_000_000;
pub(super) const DAY: u64 = 24 * 3600;
pub(super) const LIMITS: Limits =
    Limits { patience: Duration::from_secs(30), expiry: Duration::from_secs(14 * DAY) };

/// Returns a snapshot with a switch, two workers, and a running job on them.
pub(super) fn healthy() -> Snapshot {
    Snapshot {
        now: NOW,
        own: Own {
            version: "1.2.3".into(),
            certificate: Some(("operator.crt".into(), NOW + 100 * DAY)),
            clock_ahead: -12,
        },
        controller: v1::GetControllerResponse {
            version: "1.2.3".into(),
            topology: "two-workers".into(),
            clock_unix_milliseconds: NOW * 1000,
            runs_milliseconds: 60_000,
            journal_problem: String::new(),
        },
        served_expires: Some(NOW + 100 * DAY),
        switches: vec![v1::Switch {
            name: "leaf".into(),
            address: "10.255.0.2:9559".into(),
            state: v1::SwitchState::Up.into(),
            runs_our_program: Some(true),
            ..v1::Switch::default()
        }],
        tables: vec![v1::TableComparison { name: "leaf".into(), ..v1::TableComparison::default() }],
        hosts: ["w0", "w1"].map(host).into(),
        jobs: vec![job()],
    }
}

fn host(name: &str) -> v1::Host {
    let interface = v1::InterfaceCondition {
        name: "eth0".into(),
        mtu_bytes: 1500,
        driver: "veth".into(),
        offloads: vec!["gso".into()],
        up: true,
    };
    let condition = v1::HostCondition {
        clock_unix_milliseconds: NOW * 1000,
        interface: Some(interface),
        certificate_expires_unix_seconds: Some(NOW + 100 * DAY),
    };
    let daemon = v1::HostDaemon {
        version: "1.2.3".into(),
        serves: true,
        works: true,
        condition: Some(condition),
        clock_ahead_milliseconds: 40,
    };
    v1::Host {
        name: name.into(),
        role: v1::MemberRole::Worker.into(),
        daemons: vec![daemon],
        link_mtu_bytes: 1500,
        ..v1::Host::default()
    }
}

fn job() -> v1::Job {
    let member = |host: &str| v1::JobMember {
        host: host.into(),
        role: v1::MemberRole::Worker.into(),
        joined: true,
        progress: Some(v1::JobProgress {
            job: "digits".into(),
            operations: 7,
            step_nanoseconds: 1_000_000_000,
            stalled_milliseconds: 900,
            ..v1::JobProgress::default()
        }),
        processes: 1,
    };
    let adding = v1::TreeSwitch { name: "leaf".into(), aggregates: true, fan_in: 2, ..Default::default() };
    v1::Job {
        name: "digits".into(),
        state: v1::JobState::Running.into(),
        plan: Some(v1::PlanSummary { switches: vec![adding], window: 256, ..Default::default() }),
        members: ["w0", "w1"].map(member).into(),
        age_milliseconds: 40_000,
        ..v1::Job::default()
    }
}
