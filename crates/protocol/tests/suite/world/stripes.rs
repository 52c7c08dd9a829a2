//! A worker of several stripes. A host runs each in a thread of its own; here one thread runs all.

use std::collections::{BTreeMap, VecDeque};

use tributary_protocol::{
    ConfigError, FinishedSlice, JointAllReduce, OperationEvent, OperationId, StartError, Stripe,
    StripedOutcome, Time, Worker, WorkerConfig, WorkerProgress,
};
use tributary_wire::{Header, Hop, JobId, Rank, Seq, SliceWidth, ValuesView};

use crate::fabric::{Packet, collect};

pub(crate) struct Stripes {
    workers: Vec<(Stripe, Worker)>,
    width: SliceWidth,
    outcomes: BTreeMap<OperationId, StripedOutcome>,
    events: VecDeque<OperationEvent>,
}

impl Stripes {
    /// Creates a worker with the stripes that begin at `starts`.
    pub(crate) fn new(config: &WorkerConfig, starts: &[Seq]) -> Result<Self, ConfigError> {
        let worker = |stripe: Stripe| {
            let start = *starts.iter().find(|start| stripe.contains(**start)).unwrap();
            Ok((stripe, Worker::new(WorkerConfig { stripe, start, ..config.clone() })?))
        };
        let all = Stripe::all(starts.len() as u32, config.window)?;
        Ok(Self {
            workers: all.map(worker).collect::<Result<_, ConfigError>>()?,
            width: config.width,
            outcomes: BTreeMap::new(),
            events: VecDeque::new(),
        })
    }

    fn all(&mut self) -> impl Iterator<Item = &mut Worker> {
        self.workers.iter_mut().map(|(_, worker)| worker)
    }

    pub(crate) fn start_joint(&mut self, operation: JointAllReduce) -> Result<OperationId, StartError> {
        let parts = operation.divided(self.workers.len() as u32, self.width);
        let outcome = StripedOutcome::new(parts.iter().map(|part| part.first.data.len()));
        let mut parts = parts.into_iter();
        let start = |worker: &mut Worker| match parts.next() {
            Some(part) => worker.start_joint(part),
            None => Ok(worker.start_elsewhere()),
        };
        let ids = self.all().map(start).collect::<Result<Vec<_>, _>>()?;
        assert!(ids.iter().all(|id| *id == ids[0]), "stripes count operations alike");
        self.outcomes.insert(ids[0], outcome);
        Ok(ids[0])
    }

    pub(crate) fn abandon(&mut self, operation: OperationId) {
        self.all().for_each(|worker| worker.abandon(operation));
    }

    pub(crate) fn freeze(&mut self) {
        self.all().for_each(Worker::freeze);
    }

    pub(crate) fn proceed(&mut self, now: Time, until: u64) {
        self.all().for_each(|worker| worker.proceed(now, until));
    }

    pub(crate) fn is_frozen(&self) -> bool {
        self.workers.iter().all(|(_, worker)| worker.is_frozen())
    }

    pub(crate) fn is_idle(&self) -> bool {
        self.workers.iter().all(|(_, worker)| worker.is_idle())
    }

    pub(crate) fn progress(&self) -> WorkerProgress {
        let all: Vec<_> = self.workers.iter().map(|(_, worker)| worker.progress()).collect();
        WorkerProgress::of_stripes(&all)
    }

    pub(crate) fn finished(&self, seq: Seq) -> Option<&FinishedSlice> {
        self.workers.iter().find(|(stripe, _)| stripe.contains(seq))?.1.finished(seq)
    }

    pub(crate) fn change_generation(
        &mut self,
        now: Time,
        job: JobId,
        members: &[Rank],
    ) -> Result<(), ConfigError> {
        self.all().try_for_each(|worker| worker.change_generation(now, job, members))
    }

    pub(crate) fn handle_result(&mut self, now: Time, header: &Header, values: Option<ValuesView<'_>>) {
        let of_slice = self.workers.iter_mut().find(|(stripe, _)| stripe.contains(header.seq));
        of_slice.unwrap().1.handle_result(now, header, values);
    }

    pub(crate) fn poll_timeout(&self) -> Option<Time> {
        self.workers.iter().filter_map(|(_, worker)| worker.poll_timeout()).min()
    }

    pub(crate) fn handle_timeout(&mut self, now: Time) {
        self.all().for_each(|worker| worker.handle_timeout(now));
    }

    /// Returns the number of slices that each stripe has sent.
    pub(crate) fn sent_by_stripe(&self) -> Vec<u64> {
        self.workers.iter().map(|(_, worker)| worker.stats().sent).collect()
    }

    /// Moves all packets that are due to `network`.
    pub(crate) fn collect(&mut self, now: Time, stack: &[Hop], network: &mut Vec<Packet>) {
        self.all().for_each(|worker| collect(worker, now, stack, network));
    }

    pub(crate) fn poll_event(&mut self) -> Option<OperationEvent> {
        for (at, (_, worker)) in self.workers.iter_mut().enumerate() {
            while let Some(event) = worker.poll_event() {
                let (OperationEvent::Completed { operation, .. } | OperationEvent::Failed { operation, .. }) =
                    event;
                // The first error is the operation's outcome.
                let Some(outcome) = self.outcomes.get_mut(&operation) else { continue };
                let ended = match event {
                    OperationEvent::Completed { reduced, .. } => {
                        let Some(all) = outcome.complete(at, reduced) else { continue };
                        OperationEvent::Completed { operation, reduced: all.joined() }
                    }
                    OperationEvent::Failed { error, .. } => {
                        OperationEvent::Failed { operation, error: outcome.error(at, error) }
                    }
                };
                self.outcomes.remove(&operation);
                self.events.push_back(ended);
            }
        }
        self.events.pop_front()
    }
}
