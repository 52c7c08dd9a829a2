//! A job with workers and a fabric that follow a schedule.
//!
//! Every gradient has a separate coordinate. So the parameters show which gradients were used, with
//! which share and learning rate.

use std::collections::{BTreeMap, BTreeSet};
use std::num::{NonZeroU16, NonZeroU64};
use std::time::Instant;

use tributary_api::ps::server_message::Message;

use crate::policy::Worker;
use crate::server::group_fabric::{GroupEvent, Sum};
use crate::server::job::{Gradient, Job};
use crate::server::output::{Output, Outputs};
use crate::server::spec::{JobSpec, PolicyKind};
use crate::server::stats::JobStats;

/// The most iterations of a worker.
pub(super) const MOST: usize = 60;

/// The state of a worker.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum NodeState {
    Gone,
    Computing {
        group: u64,
    },
    /// The worker's gradient is at the server, or announced.
    Waiting {
        announced: bool,
    },
}

/// A worker that behaves as its client does.
#[derive(Debug)]
pub(super) struct Node {
    pub(super) state: NodeState,
    iteration: u64,
    pulled: u64,
    /// The groups in which the worker takes part, with the next round of each.
    groups: BTreeMap<u64, u64>,
    /// True if the worker must push the gradient that it announced.
    asked: bool,
}

/// A fabric job.
#[derive(Debug)]
struct FabricJob {
    members: BTreeSet<Worker>,
    opened: bool,
    live: bool,
    /// The members' contributions to each unfinished round.
    rounds: BTreeMap<u64, BTreeMap<Worker, (u32, Option<usize>)>>,
}

/// A job, its workers and its fabric.
pub(super) struct World {
    pub(super) job: Job,
    pub(super) stats: JobStats,
    now: Instant,
    nodes: Vec<Node>,
    fabric: BTreeMap<u64, FabricJob>,
    /// The number of workers with a host; workers with lower numbers have one.
    able: usize,
}

pub(super) fn spec(workers: usize, epoch: u64, slack: u64, decay: f32) -> JobSpec {
    let workers = NonZeroU16::new(workers as u16).unwrap();
    let spec = JobSpec::new("job", workers, PolicyKind::A2s, NonZeroU64::new(epoch).unwrap(), 1.0);
    JobSpec { slack, decay, ..spec }
}

pub(super) fn coordinate(worker: Worker, iteration: u64) -> usize {
    usize::from(worker) * MOST + iteration as usize
}

fn unit(workers: usize, coordinate: usize) -> Vec<f32> {
    let mut gradient = vec![0.0; workers * MOST];
    gradient[coordinate] = 1.0;
    gradient
}

impl World {
    /// Creates a world in which the first `able` workers have hosts.
    pub(super) fn new(spec: JobSpec, able: usize) -> Self {
        let workers = usize::from(spec.workers.get());
        let node = |_| Node {
            state: NodeState::Gone,
            iteration: 0,
            pulled: 0,
            groups: BTreeMap::new(),
            asked: false,
        };
        let job = Job::new(spec, 0, vec![0.0; workers * MOST]).unwrap();
        let nodes = (0..workers).map(node).collect();
        let (stats, now, fabric) = (JobStats::default(), Instant::now(), BTreeMap::new());
        let mut world = Self { job, stats, now, nodes, fabric, able };
        (0..workers as Worker).for_each(|worker| world.come(worker));
        world
    }

    pub(super) fn come(&mut self, worker: Worker) {
        self.nodes[usize::from(worker)].state = NodeState::Waiting { announced: false };
        let host = (usize::from(worker) < self.able).then(|| format!("h{worker}"));
        let outputs = self.job.join(worker, host, self.now, &mut self.stats);
        self.settle(outputs);
    }

    pub(super) fn go(&mut self, worker: Worker) {
        let node = &mut self.nodes[usize::from(worker)];
        (node.state, node.asked) = (NodeState::Gone, false);
        node.groups.clear();
        let outputs = self.job.leave(worker, &mut self.stats);
        self.settle(outputs);
    }

    /// Simulates a standstill of the server, which loses all workers.
    pub(super) fn stand_still(&mut self) {
        for node in &mut self.nodes {
            (node.state, node.asked) = (NodeState::Gone, false);
            node.groups.clear();
        }
        let outputs = self.job.gather_again(&mut self.stats);
        self.settle(outputs);
    }

    /// Hands in a worker's gradient. The worker only announces it if that is allowed and `plain` is false.
    pub(super) fn arrive(&mut self, worker: Worker, plain: bool) {
        let node = &mut self.nodes[usize::from(worker)];
        let NodeState::Computing { group } = node.state else { panic!("{worker} does not compute") };
        let announced = !plain && node.groups.contains_key(&group);
        node.state = NodeState::Waiting { announced };
        self.hand_in(worker, announced);
    }

    /// Pushes the gradient that a worker announced.
    pub(super) fn answer(&mut self, worker: Worker) {
        let node = &mut self.nodes[usize::from(worker)];
        assert!(std::mem::take(&mut node.asked));
        self.hand_in(worker, false);
    }

    fn hand_in(&mut self, worker: Worker, announced: bool) {
        let (iteration, pulled) = (self.node(worker).iteration, self.node(worker).pulled);
        let values = (!announced).then(|| unit(self.nodes.len(), coordinate(worker, iteration)));
        let gradient = Gradient { iteration, pulled, values };
        let outputs = self.job.push(worker, gradient, self.now, &mut self.stats).unwrap();
        self.settle(outputs);
    }

    pub(super) fn node(&mut self, worker: Worker) -> &mut Node {
        &mut self.nodes[usize::from(worker)]
    }

    fn tell(&mut self, group: u64, event: GroupEvent) {
        let outputs = self.job.fabric(group, event, &mut self.stats);
        self.settle(outputs);
    }

    pub(super) fn settle(&mut self, outputs: Outputs) {
        self.perform(outputs);
        let outputs = self.job.conclude(self.now, &mut self.stats);
        self.perform(outputs);
    }

    /// Performs a job's actions in place of the job's thread, the clients and the fabric.
    fn perform(&mut self, outputs: Outputs) {
        let mut expelled = Vec::new();
        for output in outputs {
            match output {
                Output::Send(worker, _) if self.node(worker).state == NodeState::Gone => {}
                Output::Send(worker, message) => self.receive(worker, message),
                Output::Open { group, hosts } => {
                    let members = hosts.iter().map(|host| host[1..].parse().unwrap()).collect();
                    let rounds = BTreeMap::new();
                    self.fabric.insert(group, FabricJob { members, opened: false, live: false, rounds });
                }
                Output::Expect { group, round } => {
                    self.fabric.get_mut(&group).unwrap().rounds.insert(round, BTreeMap::new());
                }
                Output::Close { group } => drop(self.fabric.remove(&group).unwrap()),
                Output::Expel(worker) => expelled.push(worker),
            }
        }
        expelled.into_iter().for_each(|worker| self.go(worker));
    }

    fn receive(&mut self, worker: Worker, message: Message) {
        let node = &mut self.nodes[usize::from(worker)];
        match message {
            Message::Step(step) => {
                assert!(matches!(node.state, NodeState::Waiting { .. }), "{worker} is released twice");
                node.state = NodeState::Computing { group: step.group };
                (node.iteration, node.pulled, node.asked) = (step.iteration, step.updates, false);
            }
            Message::JoinGroup(join) => assert_eq!(node.groups.insert(join.group, 0), None),
            Message::Contribute(contribute) => {
                let next = node.groups.get_mut(&contribute.group).unwrap();
                assert_eq!(contribute.round, *next, "rounds are out of order");
                *next += 1;
                let granted = contribute.weight > 0;
                assert!(
                    !granted || node.state == NodeState::Waiting { announced: true },
                    "{worker} has nothing"
                );
                let own = granted.then(|| coordinate(worker, node.iteration));
                let reduction = self.fabric.get_mut(&contribute.group).unwrap();
                let round = reduction.rounds.get_mut(&contribute.round).unwrap();
                assert_eq!(round.insert(worker, (contribute.weight, own)), None);
            }
            Message::PushPlain(plain) => {
                assert_eq!(
                    (node.state, plain.iteration),
                    (NodeState::Waiting { announced: true }, node.iteration)
                );
                node.asked = true;
            }
            Message::LeaveGroup(leave) => drop(node.groups.remove(&leave.group).unwrap()),
            Message::Waiting(_) => panic!("this is the runner's"),
        }
    }

    /// Returns the sum of the oldest round to which every member has contributed.
    fn sum(&self, pick: usize) -> Option<(u64, Sum)> {
        let done = self.fabric.iter().filter_map(|(group, reduction)| {
            let (round, given) = reduction.rounds.first_key_value()?;
            assert!(given.keys().eq(&reduction.members), "not everyone is to contribute");
            Some((*group, *round, given))
        });
        let done: Vec<_> = done.collect();
        let &(group, round, given) = done.get(pick % done.len().max(1))?;
        let mut values = vec![0.0; self.nodes.len() * MOST];
        given.values().filter_map(|&(weight, own)| Some((weight, own?))).for_each(|(weight, own)| {
            values[own] = weight as f32;
        });
        let weight = given.values().map(|(weight, _)| weight).sum();
        Some((group, Sum { round, weight, contributors: given.len() as u32, values }))
    }

    pub(super) fn deliver(&mut self, pick: usize, wrong: bool) {
        let Some((group, mut sum)) = self.sum(pick) else { return };
        sum.weight += u32::from(wrong);
        self.fabric.get_mut(&group).unwrap().rounds.remove(&sum.round);
        self.tell(group, GroupEvent::Sum(sum));
    }

    /// Advances a fabric job by one step towards live.
    pub(super) fn open(&mut self) {
        let Some((&group, reduction)) = self.fabric.iter_mut().find(|(_, reduction)| !reduction.live) else {
            return;
        };
        let event = if std::mem::replace(&mut reduction.opened, true) {
            reduction.live = true;
            GroupEvent::Live
        } else {
            GroupEvent::Opened { job: format!("job.g{group}"), token: vec![1] }
        };
        self.tell(group, event);
    }

    pub(super) fn fail(&mut self, pick: usize) {
        let groups: Vec<u64> = self.fabric.keys().copied().collect();
        let Some(&group) = groups.get(pick % groups.len().max(1)) else { return };
        if pick.is_multiple_of(2) {
            return self.tell(group, GroupEvent::Failed { reason: "a host has died".into() });
        }
        let member = *self.fabric[&group].members.first().unwrap();
        let outputs = self.job.fabric_failed(member, group, "no agent", &mut self.stats);
        self.settle(outputs);
    }

    /// Advances the time to the next deadline.
    pub(super) fn wait(&mut self) {
        if let Some(deadline) = self.job.deadline() {
            self.now = deadline.max(self.now);
            self.settle(Outputs::new());
        }
    }

    pub(super) fn those(&self, is: impl Fn(&Node) -> bool) -> Vec<Worker> {
        let all = (0..).zip(&self.nodes);
        all.filter(|(_, node)| is(node)).map(|(worker, _)| worker).collect()
    }

    pub(super) fn computing(&self) -> Vec<Worker> {
        let more = |node: &Node| node.iteration + 1 < MOST as u64;
        self.those(|node| matches!(node.state, NodeState::Computing { .. }) && more(node))
    }

    pub(super) fn asked(&self) -> Vec<Worker> {
        self.those(|node| node.asked)
    }

    /// Completes all requests while the fabric delivers no sums.
    pub(super) fn drain(&mut self) {
        for _ in 0..10 * self.nodes.len() {
            match self.asked().first() {
                Some(&worker) => self.answer(worker),
                None if self.job.deadline().is_some() => self.wait(),
                None => return,
            }
        }
        panic!("updates wait for ever");
    }
}
