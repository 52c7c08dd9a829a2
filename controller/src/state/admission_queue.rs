//! The queue of jobs that wait for slots or for dead parts of the fabric, and creators' quotas.
//!
//! Jobs get slots in the order of their creation. A waiting job keeps later jobs off the switches that it needs, so
//! that many small jobs do not starve a large one. A job that waits only because of its creator's quota does not keep
//! other jobs off switches.

use std::collections::{BTreeMap, BTreeSet};

use tokio::time::Instant;
use tributary_planner::{self as planner, Aggregation, FabricState, JobRequest, Plan, SwitchRole};
use tributary_topology::NodeKey;
use tributary_wire::JobSecret;

use super::{ControllerState, CreateError};
use crate::fallback::{self, Fallback};
use crate::jobs::{Beginning, Detachment, Generation, Job, JobKey, JobRecord, JobState, Stage, Terms};
use crate::liveness::Doubt;
use crate::quotas::Asking;
use crate::slots::SlotBlock;
use crate::slots::SlotMap;
use crate::token::Token;

/// A job index for jobs without counters. No job with counters has this index.
const NOWHERE: u16 = u16::MAX;

/// The resources that a job needs before it can start.
struct Resources {
    plan: Plan,
    fallbacks: Vec<Fallback>,
    switches: BTreeMap<NodeKey, Option<SlotBlock>>,
    job_index: u16,
}

impl ControllerState {
    /// Plans a job and reserves its resources, or queues it if its creator chose to wait.
    pub(crate) fn create_for(
        &mut self,
        asking: &Asking,
        name: &str,
        request: &JobRequest,
        terms: Terms,
    ) -> Result<JobKey, CreateError> {
        self.jobs.check_name_free(name)?;
        self.check_quotas(&asking.creator, request)?;
        let reserved = self.reserved.clone();
        let (resources, waits) = match self.take_resources(name, &asking.creator, request, &reserved) {
            Ok(resources) => (resources, None),
            Err(error) => match self.waits_for(&error, request).filter(|_| asking.waits) {
                Some(waits) => (self.no_resources(request)?, Some(waits)),
                None => return Err(error),
            },
        };
        let Some(job) = self.next_id() else {
            self.give_back(&resources.switches, resources.job_index, waits.is_none());
            return Err(CreateError::TooManyJobs(self.capacity.job_indices));
        };
        let Resources { plan, fallbacks, switches, job_index } = resources;
        let first = Generation {
            number: 1,
            job,
            plan,
            joined: Vec::new(),
            regroup: false,
            detachment: Detachment::default(),
            beginning: Beginning::OF_JOB,
            switches,
            fallbacks,
            stage: Stage::Reserved,
        };
        let record = JobRecord {
            name: name.to_owned(),
            creator: asking.creator.clone(),
            group: None,
            token: Token::random(),
            secret: JobSecret::new(rand::random()),
            request: request.clone(),
            terms,
            processes: BTreeMap::new(),
            job_index,
            holds_index: waits.is_none(),
            generations: vec![first],
            current: 1,
            issued: 1,
            last_change: String::new(),
        };
        let key = self.jobs.add(record, Instant::now())?;
        if let (Some(waits), Some(job)) = (waits, self.jobs.get_mut(key)) {
            job.enqueue(waits);
            // From now on, later jobs cannot get slots of these switches.
            let wanted = self.wanted(&asking.creator, request, &reserved);
            self.reserved.extend(wanted);
            self.queue_news.send_replace(());
        }
        Ok(key)
    }

    /// Creates the next run of a job whose last run is over.
    /// The next run has the same name, token and terms. If necessary, it waits for slots that the last run still holds.
    /// Returns `None` if the last run is not over, if another job of the name is alive, or if the job was ended
    /// permanently.
    pub(crate) fn create_again(&mut self, key: JobKey) -> Result<Option<JobKey>, CreateError> {
        let has_next = |last: &Job| self.jobs.check_name_free(&last.record.name).is_err();
        let last = self.jobs.get(key).filter(|last| last.may_run_again() && !has_next(last));
        let Some(last) = last else { return Ok(None) };
        let JobRecord { name, creator, token, request, terms, .. } = &last.record;
        let (name, token, request, terms) = (name.clone(), token.clone(), request.clone(), *terms);
        let asking = Asking { creator: creator.clone(), waits: true };
        let next = self.create_for(&asking, &name, &request, terms)?;
        if let Some(job) = self.jobs.get_mut(next) {
            job.record.token = token;
        }
        Ok(Some(next))
    }

    /// Checks the quotas of a creator of a new job.
    ///
    /// # Errors
    /// The creator has too many jobs, or the job's window is above the creator's quota of slots.
    fn check_quotas(&self, creator: &str, request: &JobRequest) -> Result<(), CreateError> {
        let alive = self.jobs.iter().filter(|(_, job)| job.is_alive());
        let own = alive.filter(|(_, job)| job.record.creator == creator).count();
        if let Some(most) =
            self.quotas.jobs.filter(|most| own >= usize::try_from(*most).unwrap_or(usize::MAX))
        {
            return Err(CreateError::JobQuota { creator: creator.to_owned(), most });
        }
        let takes_slots = request.aggregation != Aggregation::None;
        if let Some(most) = self.quotas.slots.filter(|most| takes_slots && request.window > *most) {
            let creator = creator.to_owned();
            return Err(CreateError::SlotQuota { creator, most, window: request.window });
        }
        Ok(())
    }

    /// Gives resources to waiting jobs, and returns the jobs that got them. The caller must start these
    /// jobs.
    /// Each of the other jobs stores a description of the resources for which it waits.
    pub(crate) fn advance_queue(&mut self) -> Vec<JobKey> {
        let mut reserved = BTreeSet::new();
        let mut served = Vec::new();
        for key in self.waiting() {
            let Some(record) = self.jobs.get(key).map(|job| &job.record) else { continue };
            let (name, creator, request) =
                (record.name.clone(), record.creator.clone(), record.request.clone());
            match self.take_resources(&name, &creator, &request, &reserved) {
                Ok(resources) => {
                    self.give(key, resources);
                    served.push(key);
                }
                Err(error) => {
                    reserved.extend(self.wanted(&creator, &request, &reserved));
                    let waits = self.waits_for(&error, &request).unwrap_or_else(|| error.to_string());
                    if let Some(job) = self.jobs.get_mut(key) {
                        job.enqueue(waits);
                    }
                }
            }
        }
        self.reserved = reserved;
        served
    }

    /// Returns the waiting jobs in the order of their creation.
    fn waiting(&self) -> Vec<JobKey> {
        let waits = |(key, job): (JobKey, &Job)| {
            (*job.state() == JobState::Queued && !job.record.holds_index).then_some(key)
        };
        self.jobs.iter().filter_map(waits).collect()
    }

    fn give(&mut self, key: JobKey, resources: Resources) {
        let Some(job) = self.jobs.get_mut(key) else { return };
        let record = &mut job.record;
        record.job_index = resources.job_index;
        record.holds_index = true;
        if let Some(first) = record.generations.first_mut() {
            first.plan = resources.plan;
            first.fallbacks = resources.fallbacks;
            first.switches = resources.switches;
        }
    }

    /// Takes back the resources of a job that could not be started with them. The job waits again.
    pub(crate) fn put_back(&mut self, key: JobKey) {
        let Some(job) = self.jobs.get_mut(key).filter(|job| *job.state() == JobState::Queued) else { return };
        let record = &mut job.record;
        let (index, held) = (record.job_index, std::mem::take(&mut record.holds_index));
        record.job_index = NOWHERE;
        let switches = record.generations.first_mut().map(|first| std::mem::take(&mut first.switches));
        self.give_back(&switches.unwrap_or_default(), index, held);
    }

    fn give_back(&mut self, switches: &BTreeMap<NodeKey, Option<SlotBlock>>, index: u16, holds_index: bool) {
        self.release(switches);
        if holds_index {
            self.indices.give_back(index);
        }
    }

    /// Reserves the resources of a job; fails if some are missing.
    fn take_resources(
        &mut self,
        name: &str,
        creator: &str,
        request: &JobRequest,
        reserved: &BTreeSet<NodeKey>,
    ) -> Result<Resources, CreateError> {
        let fabric = self.fabric_for(Some(creator), reserved);
        let plan = self.plan_new(name, creator, request, &fabric)?;
        let fallbacks = fallback::fallbacks(&plan, request.aggregation, &fabric);
        let switches = self.allocate(name, &plan)?;
        let Some(job_index) = self.indices.take() else {
            self.release(&switches);
            return Err(CreateError::TooManyJobs(self.capacity.job_indices));
        };
        Ok(Resources { plan, fallbacks, switches, job_index })
    }

    /// Describes the resources for which a refused job could wait; `None` if waiting would not help.
    fn waits_for(&self, error: &CreateError, request: &JobRequest) -> Option<String> {
        match error {
            CreateError::NoSlots { switches, .. } => Some(format!("slots ({})", switches.join("; "))),
            CreateError::TooManyJobs(most) => {
                Some(format!("one of the {most} jobs that switches count for to end"))
            }
            CreateError::Plan(_) => {
                let losses = self.health.losses(&self.topology)?;
                planner::plan(&self.topology, &self.sound_fabric(|_| u32::MAX), request).ok()?;
                Some(format!("what is dead at the moment: {losses}"))
            }
            _ => None,
        }
    }

    /// Returns the state of the fabric under the assumption that all parts are alive.
    /// `free` returns the number of slots that a job can get on a switch.
    fn sound_fabric(&self, free: impl Fn(&SlotMap) -> u32) -> FabricState {
        let (dead_nodes, dead_links, short_of_mtu) = Default::default();
        FabricState { dead_nodes, dead_links, short_of_mtu, ..self.fabric(Doubt::Dead, free) }
    }

    /// Returns the resources of a waiting job: a plan without any reserved resources.
    /// The plan assumes that every switch has enough slots.
    fn no_resources(&self, request: &JobRequest) -> Result<Resources, CreateError> {
        let most = self.quotas.queue;
        if self.waiting().len() >= usize::try_from(most).unwrap_or(usize::MAX) {
            return Err(CreateError::QueueFull(most));
        }
        let ideal = planner::plan(&self.topology, &self.fabric(Doubt::Dead, |_| u32::MAX), request);
        let plan =
            ideal.or_else(|_| planner::plan(&self.topology, &self.sound_fabric(|_| u32::MAX), request))?;
        Ok(Resources { plan, fallbacks: Vec::new(), switches: BTreeMap::new(), job_index: NOWHERE })
    }

    /// Plans a new job. Refuses the job if some switches could aggregate for it but none has enough free
    /// slots.
    fn plan_new(
        &self,
        name: &str,
        creator: &str,
        request: &JobRequest,
        fabric: &FabricState,
    ) -> Result<Plan, CreateError> {
        let plan = planner::plan(&self.topology, fabric, request)?;
        if request.aggregation == Aggregation::None || aggregates(&plan) {
            return Ok(plan);
        }
        let ideal = planner::plan(&self.topology, &self.fabric(Doubt::Dead, |_| u32::MAX), request)?;
        if !aggregates(&ideal) {
            return Ok(plan);
        }
        self.check_width(name, request, &ideal)?;
        let short = |role: &SwitchRole| {
            let reason = self.lack(creator, role.key, request.window)?;
            role.aggregate.then(|| format!("{}: {reason}", role.name))
        };
        let switches = ideal.switches.iter().filter_map(short).collect();
        Err(CreateError::NoSlots { job: name.to_owned(), switches })
    }

    /// Checks that the job could aggregate if no other job held slots.
    /// `ideal` is the job's plan under the assumption that every switch has enough slots.
    fn check_width(&self, name: &str, request: &JobRequest, ideal: &Plan) -> Result<(), CreateError> {
        let alone = self.sound_fabric(SlotMap::largest_possible_block);
        if planner::plan(&self.topology, &alone, request).is_ok_and(|plan| aggregates(&plan)) {
            return Ok(());
        }
        let largest_of = |role: &SwitchRole| self.slots(role.key).map_or(0, SlotMap::largest_possible_block);
        let roles = ideal.switches.iter().filter(|role| role.aggregate);
        let Some(widest) = roles.max_by_key(|role| largest_of(role)) else { return Ok(()) };
        let (job, switch, largest) = (name.to_owned(), widest.name.clone(), largest_of(widest));
        Err(CreateError::TooWide { job, window: request.window, switch, largest })
    }

    /// Describes why a job gets no slots on a switch; `None` if the controller does not manage the switch's
    /// slots.
    fn lack(&self, creator: &str, switch: NodeKey, window: u32) -> Option<String> {
        let map = self.slots.get(&switch)?;
        if let Err(error) = map.clone().allocate(window) {
            return Some(error.to_string());
        }
        let held = self.held(creator, switch);
        match self.quotas.slots.filter(|most| held.saturating_add(window) > *most) {
            Some(most) => {
                Some(format!("{window} slots needed; {creator:?} has {held} of the {most} that it may have"))
            }
            None => Some("jobs that came before wait for its slots".to_owned()),
        }
    }

    /// Returns the switches whose slots are kept for a waiting job.
    /// There are none if the job waits only because of its creator's quota, or if the job needs more slots than the
    /// switches have in total.
    fn wanted(&self, creator: &str, request: &JobRequest, reserved: &BTreeSet<NodeKey>) -> Vec<NodeKey> {
        let unlimited = self.fabric_for(None, reserved);
        if matches!(self.plan_new("", creator, request, &unlimited), Ok(_) | Err(CreateError::TooWide { .. }))
        {
            return Vec::new();
        }
        let ideal = planner::plan(&self.topology, &self.fabric(Doubt::Dead, |_| u32::MAX), request);
        let switches = ideal.map(|plan| plan.switches).unwrap_or_default();
        switches.into_iter().filter(|role| role.aggregate).map(|role| role.key).collect()
    }

    /// Returns the state of the fabric for a creator: `reserved` switches have no free slots.
    /// A quota limits the free slots of the creator. If `creator` is `None`, no quota applies.
    fn fabric_for(&self, creator: Option<&str>, reserved: &BTreeSet<NodeKey>) -> FabricState {
        let mut fabric = self.fabric(Doubt::Dead, SlotMap::largest_block);
        for (switch, free) in &mut fabric.free_slots {
            let quota = creator.zip(self.quotas.slots);
            let left = quota.map(|(creator, most)| most.saturating_sub(self.held(creator, *switch)));
            *free = if reserved.contains(switch) { 0 } else { left.map_or(*free, |left| left.min(*free)) };
        }
        fabric
    }

    /// Returns the number of slots on a switch that a creator's jobs hold.
    fn held(&self, creator: &str, switch: NodeKey) -> u32 {
        let alive = self.jobs.iter().filter(|(_, job)| job.is_alive() && job.record.creator == creator);
        let block = alive.filter_map(|(_, job)| *job.record.generation().switches.get(&switch)?);
        block.map(|block| block.size).sum()
    }
}

fn aggregates(plan: &Plan) -> bool {
    plan.switches.iter().any(|role| role.aggregate)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::quotas::Quotas;
    use crate::testing::{TERMS, controller_state, request};

    const NOBODY: [JobKey; 0] = [];

    fn asking(creator: &str, waits: bool) -> Asking {
        Asking { creator: creator.into(), waits }
    }

    fn limited(slots: u32, quotas: Quotas) -> ControllerState {
        let mut state = controller_state(slots, 8);
        state.quotas = quotas;
        state
    }

    fn create(
        state: &mut ControllerState,
        asking: &Asking,
        name: &str,
        window: u32,
    ) -> Result<JobKey, CreateError> {
        state.create_for(asking, name, &request(window, Aggregation::Tree), TERMS)
    }

    fn state_of(state: &ControllerState, key: JobKey) -> JobState {
        state.jobs.get(key).unwrap().state().clone()
    }

    fn waits(state: &ControllerState, key: JobKey) -> String {
        state.jobs.get(key).unwrap().waits.clone()
    }

    /// Ends a job and withdraws its tables from all switches.
    fn end(state: &mut ControllerState, key: JobKey) {
        state.jobs.get_mut(key).unwrap().end();
        let switches: Vec<_> = state.topology.switches().map(|(key, ..)| key).collect();
        for switch in switches {
            let over = state.to_withdraw(switch);
            state.withdrawn(switch, &over);
        }
        state.settle(key);
    }

    /// Advances the queue, and starts the jobs that got resources.
    fn advance(state: &mut ControllerState) -> Vec<JobKey> {
        let served = state.advance_queue();
        for key in &served {
            state.jobs.get_mut(*key).unwrap().admit(Instant::now());
        }
        served
    }

    #[test]
    fn who_waits_gets_slots_when_another_ends_and_in_the_order_of_coming() {
        let mut state = limited(64, Quotas::default());
        let first = create(&mut state, &asking("a", true), "first", 64).unwrap();
        assert_eq!(state_of(&state, first), JobState::Created);
        let large = create(&mut state, &asking("a", true), "large", 64).unwrap();
        let small = create(&mut state, &asking("b", true), "small", 16).unwrap();
        assert_eq!([large, small].map(|key| state_of(&state, key)), [JobState::Queued, JobState::Queued]);
        assert_eq!(advance(&mut state), NOBODY);
        assert!(
            waits(&state, large).starts_with("slots (root: 64 slots needed in one block; 0 of 64 are free")
        );
        end(&mut state, first);
        assert_eq!(advance(&mut state), [large], "the small one would fit beside nobody");
        assert_eq!(state_of(&state, large), JobState::Created);
        end(&mut state, large);
        assert_eq!(advance(&mut state), [small]);
        assert_eq!(state.jobs.get(small).unwrap().record.generation().switches.len(), 3);
    }

    #[test]
    fn nobody_overtakes_one_that_waits() {
        let mut state = limited(64, Quotas::default());
        create(&mut state, &asking("a", true), "half", 32).unwrap();
        let large = create(&mut state, &asking("a", true), "large", 64).unwrap();
        assert_eq!(advance(&mut state), NOBODY);
        let late = create(&mut state, &asking("b", true), "late", 32).unwrap();
        assert_eq!(advance(&mut state), NOBODY);
        assert!(
            waits(&state, late).contains("jobs that came before wait for its slots"),
            "{}",
            waits(&state, late)
        );
        let refused = create(&mut state, &asking("b", false), "now", 32).unwrap_err();
        assert!(refused.to_string().contains("jobs that came before wait"), "{refused}");
        // A job without aggregation needs no slots, so it does not wait.
        state.create_for(&asking("b", false), "plain", &request(32, Aggregation::None), TERMS).unwrap();
        // The large job ends before it starts. The jobs behind it can then start.
        end(&mut state, large);
        assert_eq!(advance(&mut state), [late]);
    }

    #[test]
    fn a_job_that_no_switch_can_ever_hold_is_refused_and_holds_up_nobody() {
        let mut state = limited(64, Quotas::default());
        for waits in [true, false] {
            let error = create(&mut state, &asking("a", waits), "wide", 128).unwrap_err();
            let CreateError::TooWide { window: 128, largest: 64, .. } = &error else { panic!("{error:?}") };
            assert!(error.to_string().contains("at most 64 slots"), "{error}");
        }
        create(&mut state, &asking("b", false), "behind", 64).unwrap();
    }

    #[test]
    fn a_job_that_waits_while_its_switches_shrink_holds_up_nobody() {
        let mut state = limited(64, Quotas::default());
        let first = create(&mut state, &asking("a", true), "first", 64).unwrap();
        let wide = create(&mut state, &asking("a", true), "wide", 64).unwrap();
        end(&mut state, first);
        state.slots.values_mut().for_each(|map| assert!(map.resize(32)));
        assert_eq!(advance(&mut state), NOBODY);
        assert!(waits(&state, wide).contains("needs 64 slots in one block"), "{}", waits(&state, wide));
        create(&mut state, &asking("b", false), "behind", 32).unwrap();
    }

    #[test]
    fn a_creators_quota_holds_up_its_own_jobs_and_nobody_elses() {
        let mut state = limited(64, Quotas { slots: Some(32), ..Quotas::default() });
        let first = create(&mut state, &asking("a", true), "first", 32).unwrap();
        let second = create(&mut state, &asking("a", true), "second", 16).unwrap();
        assert_eq!(advance(&mut state), NOBODY);
        let why = "root: 16 slots needed; \"a\" has 32 of the 32 that it may have";
        assert!(waits(&state, second).contains(why), "{}", waits(&state, second));
        let other = create(&mut state, &asking("b", false), "other", 32).unwrap();
        assert_eq!(state_of(&state, other), JobState::Created);
        end(&mut state, first);
        assert_eq!(advance(&mut state), [second]);
        let too_large = create(&mut state, &asking("a", true), "third", 64).unwrap_err();
        let most = CreateError::SlotQuota { creator: "a".into(), most: 32, window: 64 };
        assert_eq!(too_large, most, "it would wait for ever");
    }

    #[test]
    fn jobs_and_those_that_wait_are_counted() {
        let mut state = limited(64, Quotas { jobs: Some(2), queue: 1, ..Quotas::default() });
        let first = create(&mut state, &asking("a", true), "first", 64).unwrap();
        create(&mut state, &asking("a", true), "second", 64).unwrap();
        let error = create(&mut state, &asking("a", true), "third", 64).unwrap_err();
        assert_eq!(error, CreateError::JobQuota { creator: "a".into(), most: 2 });
        let full = create(&mut state, &asking("b", true), "fourth", 64).unwrap_err();
        assert_eq!(full, CreateError::QueueFull(1));
        end(&mut state, first);
        assert_eq!(advance(&mut state).len(), 1);
        create(&mut state, &asking("a", true), "third", 64).unwrap();
    }

    #[test]
    fn what_could_not_be_started_is_given_back() {
        let mut state = limited(64, Quotas::default());
        let first = create(&mut state, &asking("a", true), "first", 64).unwrap();
        let second = create(&mut state, &asking("a", true), "second", 64).unwrap();
        end(&mut state, first);
        for _ in 0..20 {
            assert_eq!(state.advance_queue(), [second]);
            assert_eq!(state.advance_queue(), NOBODY, "it has them already");
            state.put_back(second);
        }
        assert_eq!(advance(&mut state), [second]);
    }
}
