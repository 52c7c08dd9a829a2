//! The state that the page shows, as JSON: the API's responses without unneeded fields.

use std::ops::Range;
use std::sync::Arc;
use std::time::{Duration, Instant};

use serde_json::{Map, Value, json};
use tokio::sync::Mutex;
use tributary_api::v1;
use tributary_cli::ranks::{self, Ranks};
use tributary_cli::states;
use tributary_controller::Observer;

/// The shortest interval between two reads of the switches' counters. It does not depend on the number
/// of open pages.
const READ_INTERVAL: Duration = Duration::from_millis(900);
/// The number of recent events that the page shows.
const EVENTS: usize = 200;

/// Reads the controller's state on request. It is idle between requests.
pub(super) struct States {
    observer: Observer,
    /// The last counters. The lock lets only one request at a time read the switches; other requests wait.
    counters: Mutex<Option<CounterSnapshot>>,
}

/// The counters of all switches, and the time at which they were read.
#[derive(Clone)]
struct CounterSnapshot {
    at: Instant,
    unix_milliseconds: u64,
    switches: Arc<[v1::SwitchCounters]>,
}

impl States {
    pub(super) fn new(observer: Observer) -> Self {
        Self { observer, counters: Mutex::default() }
    }

    /// Returns the present state, with details of `job`, or of the newest running job if `job` is `None`.
    /// Returns `None` if the controller has stopped.
    pub(super) async fn json(&self, job: Option<&str>) -> Option<Value> {
        let snapshot = self.counters().await?;
        let controller = self.observer.controller()?;
        let (jobs, events) = (self.observer.jobs(), self.observer.events(0));
        let chosen = chosen(&jobs, job);
        let about = chosen.and_then(|job| Some((job, self.observer.job(&job.name)?)));
        let of_job = chosen.map(|job| job.name.as_str());
        Some(json!({
            "controller": {
                "version": controller.version,
                "topology": controller.topology,
                "clock_ms": controller.clock_unix_milliseconds,
                "runs_ms": controller.runs_milliseconds,
                "journal_problem": controller.journal_problem,
            },
            "switches": self.observer.switches().iter().map(switch).collect::<Vec<_>>(),
            "hosts": self.observer.hosts().iter().map(host).collect::<Vec<_>>(),
            "links": self.observer.links().iter().map(link).collect::<Vec<_>>(),
            "counters": {
                "clock_ms": snapshot.unix_milliseconds,
                "switches": snapshot.switches.iter().map(|one| counters(one, of_job)).collect::<Vec<_>>(),
            },
            "jobs": jobs.iter().map(summary).collect::<Vec<_>>(),
            "job": about.map(|(job, (tree, explained))| details(job, &tree, &explained)),
            "events": events.iter().rev().take(EVENTS).map(event).collect::<Vec<_>>(),
        }))
    }

    async fn counters(&self) -> Option<CounterSnapshot> {
        let mut last = self.counters.lock().await;
        if let Some(snapshot) = last.as_ref().filter(|snapshot| snapshot.at.elapsed() < READ_INTERVAL) {
            return Some(snapshot.clone());
        }
        let switches = self.observer.counters().await.into();
        let unix_milliseconds = self.observer.controller()?.clock_unix_milliseconds;
        let snapshot = CounterSnapshot { at: Instant::now(), unix_milliseconds, switches };
        Some(last.insert(snapshot).clone())
    }
}

/// Returns the newest job with this name. Without a name, returns the newest running job, or else the
/// newest job.
fn chosen<'a>(jobs: &'a [v1::Job], name: Option<&str>) -> Option<&'a v1::Job> {
    let mut newest_first = jobs.iter().rev();
    if let Some(name) = name {
        return newest_first.find(|job| job.name == name);
    }
    newest_first.find(|job| job.state() == v1::JobState::Running).or(jobs.last())
}

fn switch(switch: &v1::Switch) -> Value {
    json!({
        "name": switch.name,
        "state": states::of_switch(switch.state()),
        "state_ms": switch.state_milliseconds,
        "reason": if switch.reason.is_empty() { &switch.refusal } else { &switch.reason },
        "slots": switch.slots,
        "slots_taken": switch.slots_taken,
    })
}

fn host(host: &v1::Host) -> Value {
    json!({
        "name": host.name,
        "role": role(host.role()),
        "agent": host.daemons.iter().any(|daemon| daemon.works),
        "server": host.daemons.iter().any(|daemon| !daemon.works),
        "turned_away": host.last_refusal.as_ref().map(|refusal| &refusal.reason),
    })
}

fn role(role: v1::MemberRole) -> &'static str {
    match role {
        v1::MemberRole::Worker => "worker",
        v1::MemberRole::Server => "server",
        v1::MemberRole::Unspecified => "",
    }
}

fn link(link: &v1::Link) -> Value {
    let end = |end: &Option<v1::LinkEnd>| end.as_ref().map(|end| json!([end.node, end.port]));
    json!({
        "ends": [end(&link.first), end(&link.second)],
        "rate": link.rate,
        "state": match link.state() {
            v1::LinkState::Dead => "dead",
            v1::LinkState::Silent => "silent",
            v1::LinkState::ShortOfMtu => "short-of-mtu",
            v1::LinkState::Alive | v1::LinkState::Unspecified => "alive",
        },
    })
}

/// Returns the counters of all ports of a switch, and its counters for one job.
fn counters(switch: &v1::SwitchCounters, job: Option<&str>) -> Value {
    let mut ports = Map::new();
    for v1::PortCounter { port, kind, packets, bytes, .. } in &switch.ports {
        let port = ports.entry(port.to_string()).or_insert_with(|| json!({}));
        port[kind] = json!({ "packets": packets, "bytes": bytes });
    }
    let of_job = switch.jobs.iter().filter(|counter| Some(counter.job.as_str()) == job);
    let of_job: Map<_, _> = of_job.map(|counter| (counter.reason.clone(), counter.packets.into())).collect();
    json!({
        "name": switch.name,
        "unreachable": switch.unreachable,
        "age_ms": switch.age_milliseconds,
        "ports": ports,
        "job": of_job,
    })
}

fn summary(job: &v1::Job) -> Value {
    json!({
        "name": job.name,
        "state": states::of_job(job.state()),
        "generation": job.generation,
        "workers": job.plan.as_ref().map_or(0, |plan| plan.workers.len()),
        "ranks": ranks_in(job),
        "reason": job.reason,
        "waits_for": job.waiting_for,
        "last_change": job.last_change,
        "setback": job.setback,
        "age_ms": job.age_milliseconds,
        "creator": job.creator,
    })
}

/// Returns the number of ranks in a job's present structure; `None` if each worker is one rank.
fn ranks_in(job: &v1::Job) -> Option<usize> {
    let (ranks, workers) = (Ranks::of(job), &job.plan.as_ref()?.workers);
    let count = workers.iter().filter_map(|host| ranks.on(host)).map(|ranks| ranks.len()).sum();
    (count > workers.len()).then_some(count)
}

fn details(job: &v1::Job, tree: &v1::GetTreeResponse, explained: &v1::ExplainJobResponse) -> Value {
    let plan = job.plan.clone().unwrap_or_default();
    let tree_link = |link: &v1::TreeLink| {
        let child = link.child.clone().unwrap_or_default();
        json!({ "child": child.node, "port": child.port, "parent": link.parent })
    };
    let switch = |switch: &v1::TreeSwitch| {
        (switch.name.clone(), json!({ "adds": switch.aggregates, "children": switch.fan_in }))
    };
    json!({
        "name": job.name,
        "server": plan.server,
        "window": plan.window,
        "generation": tree.generation,
        "tree": tree.links.iter().map(tree_link).collect::<Vec<_>>(),
        "switches": plan.switches.iter().map(switch).collect::<Map<_, _>>(),
        "fallbacks": job.fallbacks.iter().map(|fallback| &fallback.description).collect::<Vec<_>>(),
        "members": members(job, explained),
        "verdict": if explained.processes.is_empty() { "" } else { explained.verdict.as_str() },
        "step_s": Some(explained.today_seconds).filter(|seconds| *seconds > 0.0),
    })
}

/// Returns all workers by rank, then the server.
fn members(job: &v1::Job, explained: &v1::ExplainJobResponse) -> Vec<Value> {
    let ranks = Ranks::of(job);
    let with_ranks = |member: &v1::JobMember| {
        let of_worker = ranks.on(&member.host).filter(|_| member.role() != v1::MemberRole::Server);
        self::member(member, of_worker.as_ref(), explained)
    };
    job.members.iter().map(with_ranks).collect()
}

fn member(member: &v1::JobMember, ranks: Option<&Range<u32>>, explained: &v1::ExplainJobResponse) -> Value {
    let process = explained.processes.iter().find(|process| ranks.is_some() && process.host == member.host);
    json!({
        "host": member.host,
        "role": role(member.role()),
        "joined": member.joined,
        "operations": member.progress.as_ref().map(|progress| progress.operations),
        "waits_ms": member.progress.as_ref().map(|progress| progress.stalled_milliseconds),
        "ranks": ranks.map(ranks::text),
        "detached": process.is_some_and(|process| process.detached),
        "degraded": process.is_some_and(|process| process.degraded),
        "compute_s": process.map(|process| process.compute_seconds),
        "reduce_s": process.and_then(|process| process.reduce_seconds),
        "ratio": process.and_then(|process| process.ratio),
    })
}

fn event(event: &v1::FabricEvent) -> Value {
    json!({
        "number": event.number,
        "at_ms": event.unix_milliseconds,
        "mood": mood(event.kind()),
        "job": event.job,
        "node": event.node,
        "text": event.description,
    })
}

/// Classifies an event as bad, good or neutral.
fn mood(kind: v1::EventKind) -> &'static str {
    use v1::EventKind as Kind;
    match kind {
        Kind::SwitchUnreachable
        | Kind::CableDead
        | Kind::CableShortOfMtu
        | Kind::CableMiswired
        | Kind::DaemonWent
        | Kind::JobHeldUp
        | Kind::JobFailed
        | Kind::MemberLost => "bad",
        Kind::SwitchUp
        | Kind::CableBack
        | Kind::CableCorrected
        | Kind::DaemonCame
        | Kind::JobPlaced
        | Kind::MemberJoined => "good",
        Kind::Unspecified
        | Kind::JobCreated
        | Kind::JobQueued
        | Kind::JobChanged
        | Kind::JobEnded
        | Kind::MemberLeft => "plain",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn job(name: &str, state: v1::JobState, id: u32) -> v1::Job {
        v1::Job { name: name.into(), state: state.into(), job_id: id, ..v1::Job::default() }
    }

    #[test]
    fn what_runs_is_shown_unless_another_job_is_asked_for() {
        use v1::JobState::{Ended, Queued, Running};
        let jobs = [job("a", Ended, 1), job("a", Running, 2), job("b", Queued, 3)];
        let id = |jobs: &[v1::Job], name| chosen(jobs, name).map(|job| job.job_id);
        assert_eq!(id(&jobs, None), Some(2));
        assert_eq!(id(&jobs, Some("b")), Some(3));
        assert_eq!(id(&jobs, Some("a")), Some(2), "the newest of that name");
        assert_eq!(id(&jobs, Some("c")), None);
        assert_eq!(id(&jobs[..1], None), Some(1));
        assert_eq!(id(&[], None), None);
    }

    #[test]
    fn ranks_of_hosts_with_several_processes_are_shown() {
        let member = |host: &str, role: v1::MemberRole, processes| v1::JobMember {
            host: host.into(),
            role: role.into(),
            processes,
            ..v1::JobMember::default()
        };
        let members = |processes| {
            let [w0, w1] = ["w0", "w1"].map(|host| member(host, v1::MemberRole::Worker, processes));
            vec![w0, w1, member("w1", v1::MemberRole::Server, 0)]
        };
        let plan = Some(v1::PlanSummary { workers: vec!["w1".into()], ..v1::PlanSummary::default() });
        let shown = |processes| {
            let job = v1::Job { members: members(processes), plan: plan.clone(), ..v1::Job::default() };
            let members = super::members(&job, &v1::ExplainJobResponse::default());
            let ranks: Vec<_> = members.iter().map(|member| member["ranks"].clone()).collect();
            (json!(ranks), summary(&job)["ranks"].clone())
        };
        assert_eq!(shown(4), (json!(["ranks 0–3", "ranks 4–7", null]), json!(4)));
        assert_eq!(shown(1), (json!(["rank 0", "rank 1", null]), Value::Null));
    }

    #[test]
    fn only_the_chosen_jobs_counters_are_told() {
        let of = |job: &str| v1::JobCounter {
            job: job.into(),
            reason: "completed".into(),
            packets: 7,
            ..Default::default()
        };
        let port = |kind: &str| v1::PortCounter {
            port: 2,
            kind: kind.into(),
            packets: 3,
            bytes: 30,
            ..Default::default()
        };
        let switch = v1::SwitchCounters {
            name: "leaf".into(),
            jobs: vec![of("a"), of("b")],
            ports: vec![port("ingress"), port("egress")],
            ..v1::SwitchCounters::default()
        };
        let told = counters(&switch, Some("a"));
        assert_eq!(told["job"], json!({ "completed": 7 }));
        assert_eq!(told["ports"]["2"]["egress"], json!({ "packets": 3, "bytes": 30 }));
        assert_eq!(counters(&switch, None)["job"], json!({}));
    }
}
