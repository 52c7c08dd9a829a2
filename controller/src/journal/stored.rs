//! The record of a job on disk: JSON that identifies nodes by name.

use std::collections::BTreeMap;
use std::num::NonZeroU16;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use thiserror::Error;
use tributary_planner::degraded::Mode;
use tributary_planner::{
    Aggregation, Downlink, DownlinkName, JobRequest, Member, StoredPlan, StoredPlanError,
};
use tributary_topology::{NodeKey, Topology};
use tributary_wire::{JobId, JobSecret, Rank, Seq, SliceWidth};

use crate::fallback::Fallback;
use crate::jobs::{
    Beginning, Detachment, Generation, GroupId, Job, JobKey, JobRecord, JobState, OnDegraded, Stage, Terms,
};
use crate::quotas::LOCAL;
use crate::slots::SlotBlock;
use crate::token::Token;

/// For each changed job, its new record; `None` if the journal must remove the job.
pub(super) type Changes = BTreeMap<JobKey, Option<Vec<u8>>>;

/// Reasons why a stored job cannot be taken up.
#[derive(Debug, Error)]
pub(crate) enum StoredError {
    /// The job uses a node that is no longer in the topology.
    #[error("host or switch {0:?} is not in the topology any more")]
    NoNode(String),
    /// The job's plan no longer fits the topology.
    #[error(transparent)]
    Plan(#[from] StoredPlanError),
    /// The record comes from a version whose members used another protocol.
    #[error("it was made by an earlier version, whose agents speak another protocol: create it anew")]
    NoSecret,
    /// The record has a value that no version writes.
    #[error("its {0} makes no sense")]
    Senseless(&'static str),
}

#[derive(Debug, Serialize, Deserialize)]
pub(super) struct StoredJob {
    pub(super) name: String,
    /// The creator's name. Records of earlier versions lack it, and get [`LOCAL`].
    #[serde(default = "local")]
    creator: String,
    /// The key of the job to whose processes the group belongs, and the group's id.
    #[serde(default)]
    group: Option<(JobKey, String)>,
    token: Vec<u8>,
    /// The job's secret. It is empty in records of earlier versions.
    #[serde(default)]
    secret: Vec<u8>,
    workers: Vec<(u16, String)>,
    server: String,
    aggregation: Aggregation,
    #[serde(with = "DownlinkName")]
    downlink: Downlink,
    /// Records of earlier versions lack it, and get [`SliceWidth::ETHERNET`], the only width at that time.
    #[serde(default = "ethernet")]
    values_per_slice: usize,
    window: u32,
    gradient_bytes: u64,
    rigid: bool,
    #[serde(default)]
    server_reads: bool,
    #[serde(default)]
    confidential: bool,
    /// The number of training processes that the creator set for each worker.
    #[serde(default)]
    processes_per_host: Option<NonZeroU16>,
    /// The number of training processes with which each worker has joined, by rank.
    /// Records of earlier versions lack it, because each of their workers had one process.
    #[serde(default)]
    processes: BTreeMap<u16, NonZeroU16>,
    /// Records of earlier versions lack it, because their jobs had one thread.
    #[serde(default = "one")]
    threads: u32,
    join_deadline_milliseconds: u64,
    /// True if the controller acts on processes that become slow.
    #[serde(default)]
    degraded_auto: bool,
    #[serde(default)]
    theta: f64,
    job_index: u16,
    /// True if the controller had sent the start to the job's members.
    pub(super) has_started: bool,
    /// True if the job waits for slots.
    #[serde(default)]
    pub(super) is_queued: bool,
    /// True if all processes of the job support workers that join and leave.
    pub(super) elastic: bool,
    last_change: String,
    /// The highest generation number that was issued.
    issued: u32,
    generation: StoredGeneration,
}

/// The present generation of a job.
/// Other generations are not stored. Their tables are withdrawn when the switches get their next state.
#[derive(Debug, Serialize, Deserialize)]
struct StoredGeneration {
    number: u32,
    job: u16,
    plan: StoredPlan,
    joined: Vec<u16>,
    /// The first slices of members that join, by stripe.
    first_seqs: Vec<u32>,
    begun: u64,
    #[serde(default)]
    regroup: bool,
    #[serde(default)]
    detached: Vec<u16>,
    #[serde(default)]
    mode: Option<Mode>,
    /// The first slot and the number of slots, by switch; `None` if the switch does not aggregate.
    slots: BTreeMap<String, Option<(u32, u32)>>,
    /// The generation's fallbacks. They are missing in records of earlier versions.
    #[serde(default)]
    fallbacks: Vec<Fallback>,
}

fn local() -> String {
    LOCAL.to_owned()
}

fn one() -> u32 {
    1
}

fn ethernet() -> usize {
    SliceWidth::ETHERNET.values()
}

impl StoredJob {
    pub(super) fn new(topology: &Topology, job: &Job) -> Self {
        let record = job.lasting();
        let JobRecord { request, terms, .. } = &*record;
        let name = |key: NodeKey| topology[key].name.clone();
        let generation = record.generation();
        Self {
            name: record.name.clone(),
            creator: record.creator.clone(),
            group: record.group.as_ref().map(|group| (group.parent, group.id.clone())),
            token: record.token.to_bytes(),
            secret: record.secret.bytes().to_vec(),
            workers: request.workers.iter().map(|member| (member.rank, name(member.host))).collect(),
            server: name(request.server),
            aggregation: request.aggregation,
            downlink: request.downlink,
            values_per_slice: request.width.values(),
            window: request.window,
            gradient_bytes: request.gradient_bytes,
            rigid: terms.rigid,
            server_reads: terms.server_reads,
            confidential: terms.confidential,
            processes_per_host: terms.processes_per_host,
            threads: terms.threads,
            processes: record.processes.iter().map(|(rank, count)| (rank.get(), *count)).collect(),
            join_deadline_milliseconds: u64::try_from(terms.join_deadline.as_millis()).unwrap_or(u64::MAX),
            degraded_auto: terms.on_degraded.auto,
            theta: terms.on_degraded.theta,
            job_index: record.job_index,
            has_started: job.has_lasting_start(),
            is_queued: *job.state() == JobState::Queued,
            elastic: job.is_elastic(),
            last_change: record.last_change.clone(),
            issued: record.issued,
            generation: StoredGeneration {
                number: generation.number,
                job: generation.job.get(),
                plan: StoredPlan::from(&generation.plan),
                joined: generation.joined.iter().map(|rank| rank.get()).collect(),
                first_seqs: generation.beginning.seqs.iter().map(|seq| seq.0).collect(),
                begun: generation.beginning.begun,
                regroup: generation.regroup,
                detached: generation.detachment.ranks.iter().map(|rank| rank.get()).collect(),
                mode: generation.detachment.mode,
                slots: generation
                    .switches
                    .iter()
                    .map(|(switch, block)| (name(*switch), block.map(|block| (block.base, block.size))))
                    .collect(),
                fallbacks: generation.fallbacks.clone(),
            },
        }
    }

    pub(super) fn to_json(&self) -> Result<Vec<u8>, serde_json::Error> {
        serde_json::to_vec(self)
    }

    pub(super) fn from_json(bytes: &[u8]) -> Result<Self, serde_json::Error> {
        serde_json::from_slice(bytes)
    }

    pub(super) fn into_record(self, topology: &Topology) -> Result<JobRecord, StoredError> {
        let find = |name: &String| topology.find(name).ok_or_else(|| StoredError::NoNode(name.clone()));
        let member = |(rank, host): &(u16, String)| Ok(Member { rank: *rank, host: find(host)? });
        let workers = self.workers.iter().map(member).collect::<Result<Vec<_>, StoredError>>()?;
        let stage = if self.has_started { Stage::Installed } else { Stage::Reserved };
        let generation = self.generation.into_generation(topology, stage)?;
        Ok(JobRecord {
            request: JobRequest {
                workers,
                server: find(&self.server)?,
                aggregation: self.aggregation,
                downlink: self.downlink,
                width: SliceWidth::from_values(self.values_per_slice)
                    .ok_or(StoredError::Senseless("number of values in a slice"))?,
                window: self.window,
                gradient_bytes: self.gradient_bytes,
            },
            name: self.name,
            creator: self.creator,
            group: self.group.map(|(parent, id)| GroupId { parent, id }),
            token: Token::from_bytes(&self.token).ok_or(StoredError::Senseless("token"))?,
            secret: secret(&self.secret)?,
            terms: Terms {
                rigid: self.rigid,
                server_reads: self.server_reads,
                confidential: self.confidential,
                processes_per_host: self.processes_per_host,
                threads: self.threads,
                join_deadline: Duration::from_millis(self.join_deadline_milliseconds),
                on_degraded: OnDegraded { auto: self.degraded_auto, theta: self.theta },
            },
            processes: self.processes.into_iter().map(|(rank, count)| (Rank::new(rank), count)).collect(),
            job_index: self.job_index,
            holds_index: !self.is_queued,
            current: generation.number,
            issued: self.issued.max(generation.number),
            generations: vec![generation],
            last_change: self.last_change,
        })
    }
}

fn secret(bytes: &[u8]) -> Result<JobSecret, StoredError> {
    match bytes {
        [] => Err(StoredError::NoSecret),
        bytes => bytes.try_into().map(JobSecret::new).map_err(|_| StoredError::Senseless("secret")),
    }
}

impl StoredGeneration {
    fn into_generation(self, topology: &Topology, stage: Stage) -> Result<Generation, StoredError> {
        let mut switches = BTreeMap::new();
        for (name, block) in self.slots {
            let key = topology.find(&name).ok_or(StoredError::NoNode(name))?;
            switches.insert(key, block.map(|(base, size)| SlotBlock { base, size }));
        }
        Ok(Generation {
            number: self.number,
            job: JobId::new(self.job).ok_or(StoredError::Senseless("data-plane id"))?,
            plan: self.plan.into_plan(topology)?,
            joined: self.joined.into_iter().map(Rank::new).collect(),
            regroup: self.regroup,
            detachment: Detachment {
                ranks: self.detached.into_iter().map(Rank::new).collect(),
                mode: self.mode,
            },
            beginning: Beginning { seqs: self.first_seqs.into_iter().map(Seq).collect(), begun: self.begun },
            switches,
            fallbacks: self.fallbacks,
            stage,
        })
    }
}
