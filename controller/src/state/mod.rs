//! The controller's state and decisions: jobs, and the owners of slots, ids and indices. It performs no
//! I/O.

mod admission_queue;
mod planner_view;
mod topology_reload;

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::sync::Arc;

use thiserror::Error;
use tokio::sync::watch;
use tokio::time::Instant;
use tributary_planner::{self as planner, FabricState, JobRequest, Plan, PlanError, WorkerRoute};
use tributary_topology::{NodeKey, Topology};
use tributary_transport::StandstillDetector;
use tributary_wire::JobId;

use crate::fallback;
use crate::hosts::Hosts;
use crate::ids::{JobIds, JobIndices};
use crate::jobs::{
    Beginning, DecisionInputs, DesiredGeneration, Generation, GenerationKey, Job, JobError, JobKey, JobState,
    LifeSigns, ParticipantId, Registry, Stage, Step, add_job, next_step,
};
use crate::journal::LoadedJob;
use crate::liveness::{Cabling, Doubt, Health, ProvenPaths, STANDSTILL};
use crate::loads::Loads;
use crate::pipeline::Capacity;
use crate::quotas::Quotas;
use crate::slots::{NoSlots, SlotBlock, SlotMap};
use crate::switch_state::SwitchState;
pub use topology_reload::Reload;

/// Reasons why a job cannot be created.
#[derive(Debug, Clone, PartialEq, Error)]
pub(crate) enum CreateError {
    /// Another job with the name is alive, or the job no longer exists.
    #[error(transparent)]
    Job(#[from] JobError),
    /// No tree can connect the job's members.
    #[error(transparent)]
    Plan(#[from] PlanError),
    /// Some switches could aggregate for the job, but none of them has enough free slots.
    #[error(
        "no switch has slots for job {job:?}: {}; end another job, ask for a smaller window, or for no \
         aggregation",
        .switches.join("; ")
    )]
    NoSlots {
        /// The job.
        job: String,
        /// For each switch that could aggregate, its name and the reason why the job gets no slots on it.
        switches: Vec<String>,
    },
    /// The job needs more slots than any switch that could aggregate for it has, even when all slots are
    /// free.
    #[error(
        "job {job:?} needs {window} slots in one block, and no switch that could aggregate for it has as many: the \
         largest, {switch}, has a block of {largest}. Ask for a window of at most {largest} slots (--window), or for no \
         aggregation (--aggregation none)"
    )]
    TooWide {
        /// The job.
        job: String,
        /// The number of slots that the job needs.
        window: u32,
        /// The switch with the largest possible block.
        switch: String,
        /// The number of slots of that block.
        largest: u32,
    },
    /// The creator already has the maximum number of jobs.
    #[error("{creator:?} has {most} jobs, which is as many as it may have: end one of them first")]
    JobQuota {
        /// The creator's name.
        creator: String,
        /// The maximum number of jobs of the creator.
        most: u32,
    },
    /// The job needs more slots than its creator's quota allows.
    #[error(
        "a window of {window} slots is more than {creator:?} may have on a switch, which is {most}: ask for a smaller \
         window, or for no aggregation"
    )]
    SlotQuota {
        /// The creator's name.
        creator: String,
        /// The maximum number of slots of the creator on each switch.
        most: u32,
        /// The number of slots that the job needs.
        window: u32,
    },
    /// The queue of jobs that wait for slots is full.
    #[error("{0} jobs wait for slots, and no more may: try again later, or ask for no aggregation")]
    QueueFull(u32),
    /// All job indices are taken, so that the switches have no counters for another job.
    #[error("{0} jobs are alive, and the switches count for no more: end one of them first")]
    TooManyJobs(u16),
}

/// The part of the controller's state that changes while it runs.
#[derive(Debug)]
pub(crate) struct ControllerState {
    topology: Arc<Topology>,
    /// The state of each managed switch while no job uses it.
    base: BTreeMap<NodeKey, SwitchState>,
    slots: BTreeMap<NodeKey, SlotMap>,
    /// The capacity that each switch has because of its program.
    pub(crate) capacity: Capacity,
    ids: JobIds,
    indices: JobIndices,
    pub(crate) jobs: Registry,
    /// The measured load of each link.
    pub(crate) loads: Loads,
    /// The parts of the fabric that are not alive.
    pub(crate) health: Health,
    /// The connected daemons of hosts.
    pub(crate) hosts: Hosts,
    /// The known state of cables.
    pub(crate) cabling: Cabling,
    /// Detects standstills of the controller.
    pub(crate) standstills: StandstillDetector,
    /// The limits for each creator of jobs.
    pub(crate) quotas: Quotas,
    /// Switches whose slots are kept for waiting jobs. No new job gets slots on them.
    reserved: BTreeSet<NodeKey>,
    /// Notifies the task of the queue when a resource has become free.
    pub(crate) queue_news: watch::Sender<()>,
    /// True if the controller is stopping. It then leaves the jobs to the next controller.
    hung_up: bool,
}

impl ControllerState {
    /// Creates the state of a controller without jobs.
    /// `base` is the state of each managed switch without jobs. All switches have this `capacity`.
    pub(crate) fn new(
        topology: Arc<Topology>,
        base: BTreeMap<NodeKey, SwitchState>,
        capacity: Capacity,
    ) -> Self {
        let programmable = topology.switches().filter(|(_, _, switch)| switch.programmable);
        let maps = programmable
            .map(|(key, _, switch)| (key, SlotMap::new(switch.slots_of(capacity.slots))))
            .collect();
        Self {
            base,
            slots: maps,
            capacity,
            ids: JobIds::after(rand::random()),
            indices: JobIndices::new(capacity.job_indices),
            jobs: Registry::default(),
            loads: Loads::default(),
            health: Health::new(Instant::now()),
            hosts: Hosts::default(),
            cabling: Cabling::new(&topology, capacity.widest),
            standstills: StandstillDetector::new(STANDSTILL, Instant::now()),
            quotas: Quotas::default(),
            reserved: BTreeSet::new(),
            queue_news: watch::Sender::new(()),
            hung_up: false,
            topology,
        }
    }

    /// Takes up a job from the journal of an earlier controller, and claims the job's resources.
    ///
    /// # Errors
    /// The resources no longer exist: there are fewer slots or job indices than before, or the program supports only
    /// narrower slices or fewer children.
    pub(crate) fn take_up(&mut self, kept: LoadedJob, now: Instant) -> Result<(), String> {
        let mut record = kept.record?;
        if kept.is_queued {
            record.request.width = record.request.width.min(self.capacity.widest);
            self.jobs.take_up(kept.key, record, (false, false), now);
            if let Some(job) = self.jobs.get_mut(kept.key) {
                job.enqueue("slots".to_owned());
            }
            return Ok(());
        }
        self.check_program(&record.generation().plan)?;
        let (index, held) = (record.job_index, record.generation().switches.clone());
        if !self.indices.claim(index) {
            return Err(format!("its counters' place {index} is not free"));
        }
        for (switch, block) in &held {
            let Some(block) = block else { continue };
            let map = self.slots.get_mut(switch);
            if !map.is_some_and(|map| map.claim(block.base, block.size)) {
                return Err(format!("its slots on {} are not there any more", self.topology[*switch].name));
            }
        }
        record.warn_of_fallbacks();
        self.jobs.take_up(kept.key, record, (kept.has_started, kept.elastic), now);
        Ok(())
    }

    /// Checks that the switches' program has at least the capacity that the plan needs.
    /// Members that have started cannot change to narrower slices, and switches would drop wider slices than their
    /// program supports.
    fn check_program(&self, plan: &Plan) -> Result<(), String> {
        const REMEDY: &str = "start the controller with the --pipeline and --mtu that it had, or end the job with that and create it anew";
        let (needed, there) = (plan.width.values(), self.capacity.widest.values());
        if needed > there {
            return Err(format!(
                "its slices have {needed} values, and the program's {there} at most: {REMEDY}"
            ));
        }
        let crowded = plan
            .switches
            .iter()
            .find(|role| role.aggregate && usize::from(role.fan_in) > self.capacity.children);
        crowded.map_or(Ok(()), |role| {
            let (name, streams, children) = (&role.name, role.fan_in, self.capacity.children);
            Err(format!("{streams} streams meet at {name}, and the program tells {children} apart: {REMEDY}"))
        })
    }

    /// Returns a job id that no slot can still hold.
    fn next_id(&mut self) -> Option<JobId> {
        let holds = |job: &Job, id| job.record.generations.iter().any(|generation| generation.job == id);
        let in_use = |id| self.jobs.iter().any(|(_, job)| job.holds_resources() && holds(job, id));
        self.ids.next(in_use)
    }

    /// Reserves resources for a job's next generation and adds its tables to the desired states.
    /// The present generation keeps its resources. The first generation already has resources from the creation of the
    /// job. Returns the number of the generation.
    pub(crate) fn install(&mut self, key: JobKey, desired: &DesiredGeneration) -> Result<u32, CreateError> {
        let no_job = || JobError::NoSuchJob(key.to_string());
        let job = self.jobs.get(key).ok_or_else(no_job)?;
        let present = job.record.generation();
        let is_as_planned = present.stage == Stage::Reserved
            && present.plan.server.key == desired.server
            && !self.is_broken(&present.plan);
        let number = if is_as_planned { present.number } else { self.reserve(key, desired)? };
        let job = self.jobs.get_mut(key).ok_or_else(no_job)?;
        job.installing();
        if let Some(generation) = job.record.numbered(number) {
            generation.stage = Stage::Installed;
        }
        Ok(number)
    }

    /// Returns true if `job` is starting with generation `number`, and a member has left or a part of the
    /// plan is not alive.
    pub(crate) fn cannot_start(&self, job: &Job, number: u32) -> bool {
        let is_broken = || {
            let generation = job.record.generations.iter().find(|one| one.number == number);
            generation.is_some_and(|one| self.is_broken(&one.plan))
        };
        *job.state() == JobState::Installing && (!job.waiting_for().is_empty() || is_broken())
    }

    /// Returns true if a part of a plan is not alive.
    fn is_broken(&self, plan: &Plan) -> bool {
        self.health.broken_part(plan, Doubt::Dead, &ProvenPaths::default()).is_some()
    }

    fn reserve(&mut self, key: JobKey, desired: &DesiredGeneration) -> Result<u32, CreateError> {
        let job = self.jobs.get(key).ok_or_else(|| JobError::NoSuchJob(key.to_string()))?;
        let record = &job.record;
        let (name, number) = (record.name.clone(), record.issued + 1);
        let request =
            JobRequest { workers: desired.members.clone(), server: desired.server, ..record.request.clone() };
        // A job that finds no slots continues without aggregation, which is slower. The plan avoids silent switches if
        // possible, because the controller cannot write tables to them.
        let plan_with = |doubt| {
            let fabric = self.fabric(doubt, SlotMap::largest_block);
            self.plan_again(&record.generation().plan, &request, &fabric).map(|plan| (plan, fabric))
        };
        let (plan, fabric) = plan_with(Doubt::Dead).or_else(|_| plan_with(Doubt::Alive))?;
        let fallbacks = fallback::fallbacks(&plan, request.aggregation, &fabric);
        let switches = self.allocate(&name, &plan)?;
        let Some(job) = self.next_id() else {
            self.release(&switches);
            return Err(CreateError::TooManyJobs(self.capacity.job_indices));
        };
        let joined = desired.joined.clone();
        let beginning = Beginning::OF_JOB;
        let stage = Stage::Reserved;
        let (regroup, detachment) = (desired.regroups(), desired.detachment.clone());
        let generation = Generation {
            number,
            job,
            plan,
            joined,
            regroup,
            detachment,
            beginning,
            switches,
            fallbacks,
            stage,
        };
        if let Some(job) = self.jobs.get_mut(key) {
            job.record.issued = number;
            job.record.generations.push(generation);
        }
        Ok(number)
    }

    /// Plans a job's next generation.
    /// If the present tree no longer works or members have left, the job is waiting for the plan. The present tree is
    /// then only repaired, which is faster. Otherwise, the tree is planned from scratch, to find a better one.
    fn plan_again(
        &self,
        present: &Plan,
        request: &JobRequest,
        fabric: &FabricState,
    ) -> Result<Plan, PlanError> {
        let members: HashSet<_> = request.workers.iter().map(|member| member.host).collect();
        let stays = |worker: &WorkerRoute| members.contains(&worker.key);
        let is_well = present.server.key == request.server
            && present.workers.iter().all(stays)
            && present.works(&self.topology, fabric);
        match is_well {
            true => planner::plan(&self.topology, fabric, request),
            false => planner::replan(&self.topology, fabric, request, present),
        }
    }

    fn allocate(
        &mut self,
        name: &str,
        plan: &Plan,
    ) -> Result<BTreeMap<NodeKey, Option<SlotBlock>>, CreateError> {
        let mut switches = BTreeMap::new();
        for role in plan.switches.iter().filter(|role| role.programmable) {
            let block = role.aggregate.then(|| self.allocate_on(role.key, plan.window)).transpose();
            match block {
                Ok(block) => switches.insert(role.key, block),
                Err(error) => {
                    self.release(&switches);
                    let switches = vec![format!("{}: {error}", role.name)];
                    return Err(CreateError::NoSlots { job: name.to_owned(), switches });
                }
            };
        }
        Ok(switches)
    }

    fn allocate_on(&mut self, switch: NodeKey, size: u32) -> Result<SlotBlock, NoSlots> {
        let base = self.slots.entry(switch).or_insert_with(|| SlotMap::new(0)).allocate(size)?;
        Ok(SlotBlock { base, size })
    }

    fn release(&mut self, switches: &BTreeMap<NodeKey, Option<SlotBlock>>) {
        for (switch, block) in switches {
            if let (Some(map), Some(block)) = (self.slots.get_mut(switch), block) {
                map.release(block.base);
            }
        }
    }

    /// Returns the slots of a switch; `None` if the controller does not manage them.
    pub(crate) fn slots(&self, switch: NodeKey) -> Option<&SlotMap> {
        self.slots.get(&switch)
    }

    /// Returns the desired state of `switch`.
    pub(crate) fn want(&self, switch: NodeKey) -> SwitchState {
        let mut state = self.base.get(&switch).cloned().unwrap_or_default();
        for (_, job) in self.jobs.iter() {
            add_job(&mut state, &self.topology, switch, &job.record);
        }
        state
    }

    /// Returns the retired generations that may still have tables in `switch`.
    pub(crate) fn to_withdraw(&self, switch: NodeKey) -> Vec<GenerationKey> {
        let lingers = |one: &&Generation| one.stage == Stage::Retired && one.switches.contains_key(&switch);
        let of_job = |(key, job): (JobKey, &Job)| {
            let numbers = job.record.generations.iter().filter(lingers).map(|one| one.number);
            numbers.map(|number| (key, number)).collect::<Vec<_>>()
        };
        self.jobs.iter().flat_map(of_job).collect()
    }

    /// Frees the slots that these retired generations had on `switch`, after their tables were withdrawn
    /// there.
    pub(crate) fn withdrawn(&mut self, switch: NodeKey, generations: &[GenerationKey]) {
        let mut freed = false;
        for (key, number) in generations {
            let Some(job) = self.jobs.get_mut(*key) else { continue };
            let over = job.record.numbered(*number).filter(|one| one.stage == Stage::Retired);
            let block = over.and_then(|generation| generation.switches.remove(&switch)).flatten();
            if let (Some(map), Some(block)) = (self.slots.get_mut(&switch), block) {
                map.release(block.base);
                freed = true;
            }
            self.settle(*key);
        }
        if freed {
            self.look_at_fallen_back();
            self.queue_news.send_replace(());
        }
    }

    /// Wakes the reconcilers of jobs with fallbacks, because slots have become free.
    fn look_at_fallen_back(&self) {
        let alive = self.jobs.iter().filter(|(_, job)| job.is_alive());
        for (_, job) in alive.filter(|(_, job)| !job.record.generation().fallbacks.is_empty()) {
            job.look.send_replace(());
        }
    }

    /// Removes the retired generations of a job that no switch can still have.
    /// If no switch can have tables of the job and the job is over, also takes back its job index.
    pub(crate) fn settle(&mut self, key: JobKey) {
        let Some(job) = self.jobs.get_mut(key) else { return };
        let alive = job.is_alive();
        let record = &mut job.record;
        let current = record.current;
        let lingers = |one: &Generation| {
            one.number == current || one.stage != Stage::Retired || !one.switches.is_empty()
        };
        record.generations.retain(lingers);
        let all_gone = record.generations.iter().all(|generation| generation.switches.is_empty());
        if !alive && all_gone && std::mem::take(&mut record.holds_index) {
            self.indices.give_back(record.job_index);
        }
        if !alive {
            self.queue_news.send_replace(());
        }
    }

    /// Returns the switches that may have tables of the job.
    pub(crate) fn switches_of(&self, key: JobKey) -> Vec<NodeKey> {
        let generations = self.jobs.get(key).map(|job| job.record.generations.iter());
        let mut keys: Vec<NodeKey> =
            generations.into_iter().flatten().flat_map(|one| one.switches.keys().copied()).collect();
        keys.sort_unstable();
        keys.dedup();
        keys
    }

    /// Decides the next step of a job.
    pub(crate) fn next_step(&self, key: JobKey, now: Instant) -> Step {
        let Some(job) = self.jobs.get(key).filter(|_| !self.hung_up) else { return Step::Over };
        let [fabric, trusting_fabric] =
            [Doubt::Dead, Doubt::Alive].map(|doubt| self.fabric(doubt, SlotMap::largest_block));
        let stalled = job.stall(now);
        next_step(
            job,
            &DecisionInputs {
                topology: &self.topology,
                fabric: &fabric,
                trusting_fabric: &trusting_fabric,
                health: &self.health,
                life_signs: &|place, host| self.life_signs_of(job, place, host),
                asking: &job.asking(now),
                serving: &|host| self.hosts.serves(host, now),
                stalled,
                stuck: stalled.and_then(|_| job.stuck(now)),
                standstill: self.standstills.standstill(now),
                now,
            },
        )
    }

    fn life_signs_of(&self, job: &Job, place: &ParticipantId, host: &str) -> LifeSigns {
        let node = self.topology.find(host);
        LifeSigns {
            connected_since: self.hosts.connected_since(host),
            last_probe: node.and_then(|node| self.cabling.last_probe_of(node)),
            last_word: node.and_then(|node| self.cabling.last_word_of(node)),
            last_report: job.last_report(place),
        }
    }

    /// Leaves all jobs to the next controller: closes the streams of members and daemons, and stops
    /// deciding.
    pub(crate) fn hang_up(&mut self) {
        self.hung_up = true;
        self.hosts = Hosts::default();
        self.jobs.hang_up();
    }

    /// Wakes every job's reconciler, because of a change that may affect any job.
    pub(crate) fn look_at_all(&self) {
        for (_, job) in self.jobs.iter().filter(|(_, job)| job.is_alive()) {
            job.look.send_replace(());
        }
        self.queue_news.send_replace(());
    }
}

#[cfg(test)]
mod tests;
