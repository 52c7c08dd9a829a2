//! What the controller knows and decides: jobs, and who owns which slots, ids and indices. No I/O.

use std::collections::BTreeMap;
use std::sync::Arc;

use thiserror::Error;
use tributary_planner::{self as planner, Aggregation, FabricState, JobRequest, Plan, PlanError};
use tributary_topology::{NodeKey, Topology};

use crate::ids::{JobIds, JobIndices};
use crate::jobs::{Job, JobError, JobKey, JobRecord, Registry, Resources, add_job, config};
use crate::loads::Loads;
use crate::slots::{NoSlots, SlotMap};
use crate::state::SwitchState;
use crate::tables::admission::SlotBlock;
use crate::token::Token;

/// Why a job cannot be created.
#[derive(Debug, Clone, PartialEq, Error)]
pub(crate) enum CreateError {
    /// Its name is taken.
    #[error(transparent)]
    Job(#[from] JobError),
    /// There is no tree for it.
    #[error(transparent)]
    Plan(#[from] PlanError),
    /// Switches could add up for it, but none has the slots.
    #[error(
        "no switch has slots for job {job:?}: {}; end another job, ask for a smaller window, or for no \
         aggregation",
        .switches.join("; ")
    )]
    NoSlots {
        /// The job.
        job: String,
        /// Each switch that could add up, with slots needed and free.
        switches: Vec<String>,
    },
    /// As many jobs hold resources as the switches can count for.
    #[error("{0} jobs are alive, and the switches count for no more: end one of them first")]
    TooManyJobs(u16),
}

/// Everything that changes while the controller runs.
#[derive(Debug)]
pub(crate) struct Book {
    topology: Arc<Topology>,
    /// What each managed switch holds while no job uses it.
    base: BTreeMap<NodeKey, SwitchState>,
    slots: BTreeMap<NodeKey, SlotMap>,
    ids: JobIds,
    indices: JobIndices,
    job_indices: u16,
    pub(crate) jobs: Registry,
    /// As measured.
    pub(crate) loads: Loads,
}

impl Book {
    /// The book of a controller that has no jobs. `base`: every switch that it manages; `slots`: how many
    /// a switch has where the topology does not say less; `job_indices`: how many jobs a switch can count
    /// for.
    pub(crate) fn new(
        topology: Arc<Topology>,
        base: BTreeMap<NodeKey, SwitchState>,
        slots: u32,
        job_indices: u16,
    ) -> Self {
        let capacity = |own: Option<u32>| own.map_or(slots, |own| own.min(slots));
        let programmable = topology.switches().filter(|(_, _, switch)| switch.programmable);
        let maps = programmable.map(|(key, _, switch)| (key, SlotMap::new(capacity(switch.slots)))).collect();
        Self {
            base,
            slots: maps,
            ids: JobIds::after(rand::random()),
            indices: JobIndices::new(job_indices),
            job_indices,
            jobs: Registry::default(),
            loads: Loads::default(),
            topology,
        }
    }

    /// Plans a job, and gives it what it needs.
    pub(crate) fn create(&mut self, name: &str, request: &JobRequest) -> Result<JobKey, CreateError> {
        self.jobs.check_name_free(name)?;
        let plan = self.plan(name, request)?;
        let resources = self.allocate(name, &plan)?;
        let in_use = |id| self.jobs.iter().any(|(_, job)| job.holds_resources() && job.record.job == id);
        let (Some(job), Some(job_index)) = (self.ids.next(in_use), self.indices.take()) else {
            self.release(&resources);
            return Err(CreateError::TooManyJobs(self.job_indices));
        };
        let resources = Resources { job_index: Some(job_index), ..resources };
        let token = Token::random();
        let record = JobRecord { name: name.to_owned(), token, plan, job, job_index, resources };
        Ok(self.jobs.add(record)?)
    }

    fn plan(&self, name: &str, request: &JobRequest) -> Result<Plan, CreateError> {
        let plan = planner::plan(&self.topology, &self.fabric(SlotMap::largest_block), request)?;
        let adds_up = |plan: &Plan| plan.switches.iter().any(|role| role.aggregate);
        if request.aggregation == Aggregation::None || adds_up(&plan) {
            return Ok(plan);
        }
        let ideal = planner::plan(&self.topology, &self.fabric(|_| u32::MAX), request)?;
        if !adds_up(&ideal) {
            return Ok(plan);
        }
        let short = |role: &planner::SwitchRole| {
            let error = self.slots.get(&role.key)?.clone().allocate(request.window).err()?;
            role.aggregate.then(|| format!("{}: {error}", role.name))
        };
        let switches = ideal.switches.iter().filter_map(short).collect();
        Err(CreateError::NoSlots { job: name.to_owned(), switches })
    }

    /// The state of the fabric as the planner takes it.
    fn fabric(&self, free: impl Fn(&SlotMap) -> u32) -> FabricState {
        let free_slots = self.slots.iter().map(|(key, map)| (*key, free(map))).collect();
        // Whether a switch is alive shows when it is written to.
        let mut state = FabricState { free_slots, ..FabricState::of(&self.topology, 0) };
        // A load in the topology file is one to be counted on, even where it is not there now.
        for (direction, load) in &mut state.load {
            *load = self.loads.of(*direction).max(*load);
        }
        state
    }

    fn allocate(&mut self, name: &str, plan: &Plan) -> Result<Resources, CreateError> {
        let mut resources = Resources::default();
        for role in plan.switches.iter().filter(|role| role.programmable) {
            let block = role.aggregate.then(|| self.allocate_on(role.key, plan.window)).transpose();
            match block {
                Ok(block) => resources.switches.insert(role.key, block),
                Err(error) => {
                    self.release(&resources);
                    let switches = vec![format!("{}: {error}", role.name)];
                    return Err(CreateError::NoSlots { job: name.to_owned(), switches });
                }
            };
        }
        Ok(resources)
    }

    fn allocate_on(&mut self, switch: NodeKey, size: u32) -> Result<SlotBlock, NoSlots> {
        let base = self.slots.entry(switch).or_insert_with(|| SlotMap::new(0)).allocate(size)?;
        Ok(SlotBlock { base, size })
    }

    fn release(&mut self, resources: &Resources) {
        for (switch, block) in &resources.switches {
            if let (Some(map), Some(block)) = (self.slots.get_mut(switch), block) {
                map.release(block.base);
            }
        }
    }

    /// What `switch` should hold now.
    pub(crate) fn want(&self, switch: NodeKey) -> SwitchState {
        let mut state = self.base.get(&switch).cloned().unwrap_or_default();
        for (_, job) in self.jobs.iter().filter(|(_, job)| job.needs_tables()) {
            add_job(&mut state, switch, &job.record);
        }
        state
    }

    /// Jobs that are over and may still have tables in `switch`.
    pub(crate) fn to_withdraw(&self, switch: NodeKey) -> Vec<JobKey> {
        let lingers = |job: &Job| !job.is_alive() && job.record.resources.switches.contains_key(&switch);
        self.jobs.iter().filter(|(_, job)| lingers(job)).map(|(key, _)| key).collect()
    }

    /// The tables of `jobs`, all of them over, are gone from `switch`: their slots there are free.
    pub(crate) fn withdrawn(&mut self, switch: NodeKey, jobs: &[JobKey]) {
        for key in jobs {
            let Some(job) = self.jobs.get_mut(*key).filter(|job| !job.is_alive()) else { continue };
            let block = job.record.resources.switches.remove(&switch).flatten();
            if let (Some(map), Some(block)) = (self.slots.get_mut(&switch), block) {
                map.release(block.base);
            }
            self.settle(*key);
        }
    }

    /// Takes back the job index of a job that is over and gone from all switches.
    pub(crate) fn settle(&mut self, key: JobKey) {
        let Some(job) = self.jobs.get_mut(key).filter(|job| !job.is_alive()) else { return };
        if job.record.resources.switches.is_empty()
            && let Some(index) = job.record.resources.job_index.take()
        {
            self.indices.give_back(index);
        }
    }

    /// The tables of a job are installed: its members are told. `false` when it is over already.
    pub(crate) fn start(&mut self, key: JobKey) -> bool {
        let topology = &self.topology;
        let config = |record: &JobRecord, host: &str| Some((&config(topology, record, host)?).into());
        self.jobs.get_mut(key).is_some_and(|job| job.start(config))
    }
}

#[cfg(test)]
mod tests;
