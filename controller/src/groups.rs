//! Jobs of groups of a running job's processes.
//!
//! A training often sums over some of its ranks, such as the replicas of one shard. Each such group has a job of its own,
//! with a tree and an order of its own. Its members already have the running job's token, so no operator takes part.

use std::collections::BTreeSet;
use std::sync::Arc;

use thiserror::Error;
use tributary_planner::{JobRequest, Member};

use crate::jobs::{GroupId, Job, JobError, JobState, OnDegraded, Terms};
use crate::manager::{CreateFailure, Manager};
use crate::quotas::Asking;
use crate::reconciler;
use crate::state::CreateError;

/// The longest id of a group, in bytes.
const MAX_ID: usize = 64;
/// The fewest slots with which the job of a group is created.
/// With fewer slots, the group would wait for results most of the time.
const FEWEST_SLOTS: u32 = 64;

/// The reason why a group has no job.
#[derive(Debug, Error)]
pub(crate) enum GroupError {
    #[error(transparent)]
    Job(#[from] JobError),
    #[error(transparent)]
    Create(#[from] CreateFailure),
    #[error("job {0:?} does not run, so that no group of its processes can have a job")]
    NotRunning(String),
    #[error(
        "job {0:?} is the job of a group, and its processes cannot have further groups: open the group in the job of all processes"
    )]
    OfGroup(String),
    #[error("the id of a group has 1 to {MAX_ID} bytes, and this one has {0}")]
    Id(usize),
    #[error("the processes of a group are on one host of job {0:?}: they need no network")]
    OneHost(String),
    #[error("job {job:?} has no rank {rank}")]
    NoRank { job: String, rank: u32 },
    #[error(
        "group {group:?} of job {job:?} exists with processes of other hosts: all its processes must send the same ranks"
    )]
    Differs { job: String, group: String },
}

/// The next step for a group.
enum Group {
    /// The group has a job of this name.
    Exists(String),
    /// The job for the group must be created.
    Missing(Box<Template>),
}

/// The properties of a group's job, from its parent.
struct Template {
    id: GroupId,
    creator: String,
    parent: String,
    request: JobRequest,
    terms: Terms,
}

/// Returns the name of the job of a group, and creates the job if it does not exist.
pub(crate) async fn open(
    manager: &Arc<Manager>,
    (job, token): (&str, &[u8]),
    host: &str,
    (group, ranks): (&str, &[u32]),
) -> Result<String, GroupError> {
    // Groups are opened one after another. So each group gets one job, and no process gets its name before it is ready.
    let _turn = manager.group_turn.lock().await;
    let template = match find(manager, (job, token), host, (group, ranks))? {
        Group::Exists(name) => return Ok(name),
        Group::Missing(template) => template,
    };
    let Template { id, creator, parent, mut request, terms } = *template;
    let asking = Asking { creator, waits: false };
    let name = free_name(manager, &parent);
    loop {
        let created = manager.create_group(&asking, &name, &request, terms, &id).await;
        match created {
            Err(CreateFailure::Refused(CreateError::NoSlots { .. } | CreateError::SlotQuota { .. }))
                if request.window / 2 >= FEWEST_SLOTS =>
            {
                request.window /= 2;
            }
            Err(failure) => return Err(failure.into()),
            Ok(key) => {
                reconciler::start(manager, key);
                return Ok(name);
            }
        }
    }
}

fn find(
    manager: &Manager,
    (name, token): (&str, &[u8]),
    host: &str,
    (group, ranks): (&str, &[u32]),
) -> Result<Group, GroupError> {
    if group.is_empty() || group.len() > MAX_ID {
        return Err(GroupError::Id(group.len()));
    }
    let state = manager.state();
    let parent = state.jobs.authorize(name, token)?;
    let job = state.jobs.get(parent).ok_or_else(|| JobError::NoSuchJob(name.to_owned()))?;
    job.check_alive()?;
    if job.record.group.is_some() {
        return Err(GroupError::OfGroup(name.to_owned()));
    }
    job.participants_of(host)?;
    if *job.state() != JobState::Running {
        return Err(GroupError::NotRunning(name.to_owned()));
    }
    let workers = workers(job, ranks)?;
    let id = GroupId { parent, id: group.to_owned() };
    let is_same = |other: &Job| other.is_alive() && other.record.group.as_ref() == Some(&id);
    if let Some((_, other)) = state.jobs.iter().find(|(_, other)| is_same(other)) {
        let hosts = |workers: &[Member]| workers.iter().map(|worker| worker.host).collect::<Vec<_>>();
        return match hosts(&other.record.request.workers) == hosts(&workers) {
            true => Ok(Group::Exists(other.record.name.clone())),
            false => Err(GroupError::Differs { job: name.to_owned(), group: group.to_owned() }),
        };
    }
    let record = &job.record;
    // Processes of a group cannot redistribute their data without the other processes of the job.
    let on_degraded = OnDegraded { auto: false, ..record.terms.on_degraded };
    Ok(Group::Missing(Box::new(Template {
        id,
        creator: record.creator.clone(),
        parent: name.to_owned(),
        request: JobRequest { workers, ..record.request.clone() },
        terms: Terms { processes_per_host: None, on_degraded, ..record.terms },
    })))
}

/// Returns the workers with processes of these ranks, in the order of the workers' ranks.
fn workers(job: &Job, ranks: &[u32]) -> Result<Vec<Member>, GroupError> {
    let name = || job.record.name.clone();
    let counts = job.record.process_counts();
    let own = &job.record.request.workers;
    let mut with_ranks = BTreeSet::new();
    for &rank in ranks {
        let worker = counts.worker_of(rank).map(|(worker, _)| worker.get());
        let worker = worker.filter(|worker| own.iter().any(|own| own.rank == *worker));
        with_ranks.insert(worker.ok_or_else(|| GroupError::NoRank { job: name(), rank })?);
    }
    let members = own.iter().filter(|worker| with_ranks.contains(&worker.rank));
    let hosts: Vec<_> = members.map(|worker| worker.host).collect();
    if hosts.len() < 2 {
        return Err(GroupError::OneHost(name()));
    }
    Ok(Member::ranked(hosts))
}

/// Returns the first of the names `PARENT.g1`, `PARENT.g2` and so on that no job has had yet.
fn free_name(manager: &Manager, parent: &str) -> String {
    let state = manager.state();
    let taken: BTreeSet<&str> = state.jobs.iter().map(|(_, job)| job.record.name.as_str()).collect();
    let mut number = 1_u64;
    loop {
        let name = format!("{parent}.g{number}");
        if !taken.contains(name.as_str()) {
            return name;
        }
        number += 1;
    }
}
