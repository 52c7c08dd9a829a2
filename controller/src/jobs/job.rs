//! One job: its state, and who is there.

use std::collections::BTreeMap;

use tokio::sync::mpsc;
use tributary_api::v1;

use super::error::JobError;
use super::record::JobRecord;

/// The most events that one member is ever sent: Start, and Failed or Ended.
const EVENTS_PER_MEMBER: usize = 2;

/// Where a job is in its life.
///
/// ```text
/// Created --all have joined--> Installing --tables are written--> Running --EndJob--> Ended
///    |                              |                                |
///    +------------------------------+---- a member goes, a fault ----+--> Failed
/// ```
///
/// EndJob may come in any state. What is over stays so.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum State {
    /// Waits for members.
    Created,
    /// Its tables are being written.
    Installing,
    /// All members were told to start.
    Running,
    /// It was ended.
    Ended,
    /// It was over before its end, because of this.
    Failed(String),
}

/// Whether the members are complete.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Attendance {
    /// Someone is missing.
    Partial,
    /// The last one has just joined.
    Complete,
}

/// A job.
#[derive(Debug)]
pub(crate) struct Job {
    pub(crate) record: JobRecord,
    state: State,
    /// Every member by its host's name; `None` until it joins.
    members: BTreeMap<String, Option<mpsc::Sender<v1::JobEvent>>>,
}

impl Job {
    /// A job that waits for its members.
    pub(crate) fn new(record: JobRecord) -> Self {
        let members = record.members().map(|host| (host.to_owned(), None)).collect();
        Self { record, state: State::Created, members }
    }

    pub(crate) fn state(&self) -> &State {
        &self.state
    }

    /// Whether it can still do anything.
    pub(crate) fn is_alive(&self) -> bool {
        !matches!(self.state, State::Ended | State::Failed(_))
    }

    /// Whether its tables belong in the switches.
    pub(crate) fn needs_tables(&self) -> bool {
        matches!(self.state, State::Installing | State::Running)
    }

    /// Whether something of it is, or may be, in the switches.
    pub(crate) fn holds_resources(&self) -> bool {
        self.is_alive() || !self.record.resources.is_empty()
    }

    /// Hosts that have not joined yet.
    pub(crate) fn waiting_for(&self) -> Vec<String> {
        let missing = self.members.iter().filter(|(_, events)| events.is_none());
        missing.map(|(host, _)| host.clone()).collect()
    }

    /// `host` takes part; its events come out of the receiver.
    pub(crate) fn join(
        &mut self,
        host: &str,
    ) -> Result<(mpsc::Receiver<v1::JobEvent>, Attendance), JobError> {
        self.check_alive()?;
        self.check_member(host)?;
        let job = self.record.name.clone();
        let Some(place) = self.members.get_mut(host).filter(|place| place.is_none()) else {
            return Err(JobError::AlreadyJoined { job, host: host.to_owned() });
        };
        let (sender, receiver) = mpsc::channel(EVENTS_PER_MEMBER);
        *place = Some(sender);
        if self.members.values().any(Option::is_none) {
            return Ok((receiver, Attendance::Partial));
        }
        self.state = State::Installing;
        Ok((receiver, Attendance::Complete))
    }

    /// `host` is one of the job's.
    pub(crate) fn check_member(&self, host: &str) -> Result<(), JobError> {
        if self.members.contains_key(host) {
            return Ok(());
        }
        Err(JobError::NotAMember {
            job: self.record.name.clone(),
            host: host.to_owned(),
            members: self.record.members().collect::<Vec<_>>().join(", "),
        })
    }

    fn check_alive(&self) -> Result<(), JobError> {
        let how = match &self.state {
            State::Ended => "has ended".to_owned(),
            State::Failed(reason) => format!("failed because {reason}"),
            State::Created | State::Installing | State::Running => return Ok(()),
        };
        Err(JobError::Over { job: self.record.name.clone(), how })
    }

    /// The tables are written: every member is told what `config` says for its host. `false` when the
    /// job was over in the meantime.
    pub(crate) fn start(&mut self, config: impl Fn(&JobRecord, &str) -> Option<v1::JobConfig>) -> bool {
        if self.state != State::Installing {
            return false;
        }
        self.state = State::Running;
        for (host, events) in &self.members {
            if let (Some(events), Some(config)) = (events, config(&self.record, host)) {
                send(events, v1::job_event::Event::Start(config));
            }
        }
        true
    }

    /// The job is over because of `reason`; `false` when it was over already.
    pub(crate) fn fail(&mut self, reason: &str) -> bool {
        let event = v1::job_event::Event::Failed(v1::JobFailed { reason: reason.to_owned() });
        self.finish(State::Failed(reason.to_owned()), &event)
    }

    /// The job is over; `false` when it was over already.
    pub(crate) fn end(&mut self) -> bool {
        self.finish(State::Ended, &v1::job_event::Event::Ended(v1::JobEnded {}))
    }

    fn finish(&mut self, state: State, event: &v1::job_event::Event) -> bool {
        if !self.is_alive() {
            return false;
        }
        self.state = state;
        // Without a sender the streams end behind this event.
        for events in self.members.values_mut().filter_map(Option::take) {
            send(&events, event.clone());
        }
        true
    }
}

/// A member that has gone has no use for the event, and there is room for all that are ever sent.
fn send(events: &mpsc::Sender<v1::JobEvent>, event: v1::job_event::Event) {
    let _ = events.try_send(v1::JobEvent { event: Some(event) });
}

#[cfg(test)]
mod tests {
    use tributary_api::{JobConfig, Role};
    use tributary_planner::Aggregation;
    use v1::job_event::Event;

    use super::*;
    use crate::jobs::config;
    use crate::testing::{book, request, topology};

    const HOSTS: [&str; 5] = ["w0", "w1", "w2", "w3", "ps"];

    fn created() -> Job {
        let mut book = book(64, 1);
        let key = book.create("job", &request(64, Aggregation::Tree)).unwrap();
        Job::new(book.jobs.get(key).unwrap().record.clone())
    }

    fn joined() -> (Job, Vec<mpsc::Receiver<v1::JobEvent>>) {
        let mut job = created();
        let receivers = HOSTS.iter().map(|host| job.join(host).unwrap().0).collect();
        (job, receivers)
    }

    fn start(job: &mut Job) -> bool {
        let topology = topology();
        job.start(|record, host| config(&topology, record, host).as_ref().map(Into::into))
    }

    /// Everything that the members have been sent, and that their streams have ended.
    fn events(receivers: Vec<mpsc::Receiver<v1::JobEvent>>) -> Vec<Vec<Event>> {
        let drain = |mut receiver: mpsc::Receiver<v1::JobEvent>| {
            let mut events = Vec::new();
            while let Ok(event) = receiver.try_recv() {
                events.push(event.event.unwrap());
            }
            assert_eq!(receiver.try_recv(), Err(mpsc::error::TryRecvError::Disconnected));
            events
        };
        receivers.into_iter().map(drain).collect()
    }

    #[test]
    fn the_last_member_completes_it() {
        let mut job = created();
        for (place, host) in HOSTS.iter().enumerate() {
            assert_eq!(job.state(), &State::Created);
            assert_eq!(job.waiting_for().len(), HOSTS.len() - place);
            job.join(host).unwrap();
        }
        assert_eq!(job.state(), &State::Installing);
        assert!(job.waiting_for().is_empty());
    }

    #[test]
    fn strangers_and_doubles_are_refused() {
        let mut job = created();
        let _events = job.join("w1").unwrap();
        assert_eq!(job.join("w1").unwrap_err().to_string(), "host \"w1\" has joined job \"job\" already");
        assert_eq!(
            job.join("w9").unwrap_err().to_string(),
            "host \"w9\" is not a member of job \"job\"; its members are w0, w1, w2, w3, ps"
        );
    }

    #[test]
    fn members_are_told_their_own_part() {
        let (mut job, receivers) = joined();
        assert!(start(&mut job) && !start(&mut job));
        assert!(job.end() && !job.end());
        let told = events(receivers);
        let mut up = Vec::new();
        for (host, events) in HOSTS.iter().zip(&told) {
            let [Event::Start(config), Event::Ended(_)] = &events[..] else { panic!("{host}: {events:?}") };
            let config = JobConfig::try_from(config.clone()).unwrap();
            let topology = topology();
            let own = topology[topology.find(host).unwrap()].host().unwrap();
            assert_eq!((config.own.mac, config.own.ip), (own.mac, own.ip));
            match config.role {
                Role::Worker { rank, up: stack } => {
                    assert_eq!(format!("w{rank}"), *host);
                    up.push(stack);
                }
                Role::Server { fan_in, down, node, .. } => {
                    assert_eq!((*host, fan_in, down.len()), ("ps", 1, 4));
                    // The server is the last hop of every stack, which its leaf and the root begin.
                    assert!(up.iter().all(|stack| stack.len() == 3 && stack[2].node == node));
                }
            }
        }
        assert_eq!(up.len(), 4);
    }

    #[test]
    fn a_failure_reaches_everyone_and_is_final() {
        let (mut job, receivers) = joined();
        assert!(job.fail("host \"w1\" left"));
        assert!(!job.fail("again") && !job.end() && !start(&mut job));
        assert_eq!(job.state(), &State::Failed("host \"w1\" left".into()));
        assert_eq!(
            job.join("w0").unwrap_err().to_string(),
            "job \"job\" is over: it failed because host \"w1\" left"
        );
        for events in events(receivers) {
            let failed = Event::Failed(v1::JobFailed { reason: "host \"w1\" left".into() });
            assert_eq!(events, [failed]);
        }
    }

    #[test]
    fn it_has_tables_from_the_last_join_to_its_end() {
        let (mut job, _receivers) = joined();
        assert!(!created().needs_tables() && job.needs_tables());
        start(&mut job);
        assert!(job.needs_tables());
        job.end();
        assert!(!job.needs_tables() && job.holds_resources());
    }
}
