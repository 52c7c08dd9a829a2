//! A chaos run, from the first all-reduce to the last blow.

use std::collections::BTreeSet;
use std::future::Future;
use std::pin::Pin;
use std::time::Duration;

use anyhow::{Context, Result, anyhow, bail};
use futures_util::stream::{FuturesUnordered, StreamExt};
use tokio::time::{Instant, interval, sleep, sleep_until, timeout};
use tributary_lab::{Cut, Lab};
use tributary_topology::Topology;

use super::agreement::Agreement;
use super::event::{MemberEvent, Moment};
use super::foreign::{Foreign, ForeignStatistics};
use super::members::{Members, ProcessReport, ReportKind};
use super::progress::Progress;
use super::reach;
use super::report::ChaosReport;
use super::schedule::{Blow, Disturbance};
use super::targets::{DisturbanceKind, LabPart, Target};
use super::timeline::Timeline;
use tributary::lab::{Record, job, operations};

/// The future of a repair that takes time.
type Repairing<'a> = Pin<Box<dyn Future<Output = Result<()>> + 'a>>;

/// A member that should make progress and makes none for longer than this is stuck.
pub(super) const STUCK: Duration = Duration::from_secs(10);
/// Time limit until all members have their first sum, even on a slow machine.
/// It is also the time limit for a daemon to restart.
const START_PATIENCE: Duration = Duration::from_secs(60);
/// The interval at which the runner checks that the job is still alive while members are out of it.
const LOOK_INTERVAL: Duration = Duration::from_secs(1);
/// Time between two checks for foreign datagrams after a blow.
const FOREIGN_INTERVAL: Duration = Duration::from_millis(20);
/// Time between two attempts to start a daemon.
const START_INTERVAL: Duration = Duration::from_millis(500);
/// Time that stuck members may take to rejoin after their processes were restarted.
const RESTART_PATIENCE: Duration = Duration::from_secs(30);
/// The number of training processes that ended by themselves at which the run stops. None should end.
const MOST_ENDED: u32 = 100;

/// A running chaos run.
pub(super) struct ChaosRun<'a> {
    lab: &'a Lab,
    record: &'a Record,
    topology: &'a Topology,
    members: Members<'a>,
    timeline: Timeline,
    agreement: Agreement,
    /// The ranks of members that are out of the job.
    out: BTreeSet<usize>,
    /// Number of training processes that have ended by themselves.
    ended: u32,
    /// The kinds of the targets that are being hit.
    kinds: Vec<DisturbanceKind>,
    report: ChaosReport,
    /// Traffic that does not belong to the job; `None` without `--foreign`.
    foreign: Option<Foreign>,
    progress: Progress,
    /// If true, the run ends at the first failure.
    stop_at_failure: bool,
}

/// The outcome of a blow.
struct BlowOutcome {
    /// The time at which the first target was hit.
    began: Moment,
    /// The time at which the last target was repaired.
    repaired: Moment,
    /// The time at which all members were in the job again, or the wait for them ended.
    over: Moment,
    fate: Fate,
}

/// The state of the job after a blow.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Fate {
    /// All members are in the job again.
    Well,
    /// Some members are still out of the job, and the job is alive.
    Stuck,
    /// The job is over.
    Lost,
}

impl<'a> ChaosRun<'a> {
    /// Creates a run that has started no process yet.
    pub(super) fn new(
        lab: &'a Lab,
        record: &'a Record,
        topology: &'a Topology,
        (size, per_worker): (u64, usize),
        report: ChaosReport,
        progress: Progress,
        stop_at_failure: bool,
    ) -> Self {
        let members = Members::new(lab, record, size, per_worker);
        Self {
            lab,
            record,
            topology,
            timeline: Timeline::new(members.ranks()),
            members,
            agreement: Agreement::default(),
            out: BTreeSet::new(),
            ended: 0,
            kinds: Vec::new(),
            report,
            foreign: None,
            progress,
            stop_at_failure,
        }
    }

    /// Starts ordinary traffic between the hosts.
    ///
    /// # Errors
    /// As for [`Foreign::start`].
    pub(super) fn start_foreign(&mut self) -> Result<()> {
        self.foreign = Some(Foreign::start(self.lab, self.topology)?);
        self.report.foreign = Some(ForeignStatistics::default());
        Ok(())
    }

    /// Ends all training processes, and returns the report.
    pub(super) fn finish(mut self) -> ChaosReport {
        self.count_foreign();
        self.progress.finish();
        self.report
    }

    /// Runs all blows.
    ///
    /// # Errors
    /// The members never begin to reduce, or a target cannot be hit or repaired.
    pub(super) async fn run(&mut self, blows: &[Blow]) -> Result<()> {
        self.begin().await?;
        for blow in blows {
            self.timeline.restart();
            self.listen(blow.calm).await?;
            self.timeline.gaps().for_each(|gap| self.report.calm_s.add(gap));
            self.timeline.restart();
            self.strike(blow).await?;
            if self.stop_at_failure && self.report.failure().is_some() {
                break;
            }
        }
        for difference in self.agreement.end() {
            self.wrong(&difference.to_string());
        }
        Ok(())
    }

    /// Runs one blow: hits and repairs its targets, then waits until all members are in the job again.
    async fn strike(&mut self, blow: &Blow) -> Result<()> {
        self.kinds = blow.disturbances.iter().map(|disturbance| disturbance.target.kind).collect();
        let (began, repaired) = self.hit(&blow.disturbances).await?;
        let fate = match self.all_in(repaired, STUCK).await? {
            true => Fate::Well,
            false if self.is_lost() => Fate::Lost,
            false => Fate::Stuck,
        };
        self.judge(blow, &BlowOutcome { began, repaired, over: Moment::now(), fate });
        match fate {
            Fate::Well => self.await_foreign(repaired).await?,
            _ if self.stop_at_failure => {}
            Fate::Lost => self.renew().await?,
            Fate::Stuck => self.restart(repaired).await?,
        }
        self.kinds.clear();
        Ok(())
    }

    /// Hits and repairs every target, and handles the members' events meanwhile.
    /// Returns the times of the first hit and of the last repair.
    async fn hit(&mut self, disturbances: &[Disturbance]) -> Result<(Moment, Moment)> {
        let start = Instant::now();
        let hits = disturbances.iter().map(|hit| (start + hit.at, hit, true));
        let repairs = disturbances.iter().map(|hit| (start + hit.at + hit.outage, hit, false));
        let mut due: Vec<_> = hits.chain(repairs).collect();
        // Sorted in descending order of time, so that the next entry is the last element.
        due.sort_by_key(|(at, ..)| std::cmp::Reverse(*at));
        let began = Moment::now();
        let mut repairing = FuturesUnordered::new();
        while !due.is_empty() || !repairing.is_empty() {
            let next = due.last().map_or(start, |(at, ..)| *at);
            tokio::select! {
                () = sleep_until(next), if !due.is_empty() => {
                    let Some((_, disturbance, is_hit)) = due.pop() else { continue };
                    if is_hit {
                        self.progress.hit(disturbance);
                        self.break_it(&disturbance.target).await?;
                    } else {
                        repairing.extend(self.repair(&disturbance.target)?);
                    }
                }
                Some(repaired) = repairing.next() => repaired?,
                report = self.members.next() => self.hear(report)?,
            }
        }
        Ok((began, Moment::now()))
    }

    async fn break_it(&mut self, target: &Target) -> Result<()> {
        match &target.part {
            LabPart::Daemon { station, .. } => drop(operations::kill(self.lab, station)?),
            LabPart::Process { rank, .. } => {
                self.members.kill(*rank).await?;
                self.agreement.out(*rank);
            }
            LabPart::Link { name, .. } => drop(self.lab.cut(name, Cut::Silent)?),
            LabPart::Interface { station, name, .. } => self.lab.set_interface(station, name, false)?,
        }
        Ok(())
    }

    /// Repairs a target.
    /// If the repair takes time, returns a future that the caller must await.
    fn repair(&mut self, target: &Target) -> Result<Option<Repairing<'a>>> {
        match &target.part {
            LabPart::Daemon { station, .. } => {
                let (lab, station) = (self.lab, station.clone());
                return Ok(Some(Box::pin(start_again(lab, station))));
            }
            LabPart::Process { rank, .. } => self.members.start(*rank)?,
            LabPart::Link { name, .. } => drop(self.lab.repair(name)?),
            LabPart::Interface { station, name, .. } => self.lab.set_interface(station, name, true)?,
        }
        Ok(None)
    }

    /// Waits until every member has received a sum over all members after `since`.
    /// Returns `false` after `patience`, or when the job is over.
    async fn all_in(&mut self, since: Moment, patience: Duration) -> Result<bool> {
        let deadline = Instant::now() + patience;
        let mut looks = interval(LOOK_INTERVAL);
        looks.reset();
        while !self.timeline.not_back(since).is_empty() {
            tokio::select! {
                report = self.members.next() => self.hear(report)?,
                _ = looks.tick(), if !self.out.is_empty() => {
                    if self.is_lost() {
                        return Ok(false);
                    }
                }
                () = sleep_until(deadline) => return Ok(false),
            }
        }
        Ok(true)
    }

    /// Waits until a datagram of every foreign flow has arrived after `since`.
    async fn await_foreign(&mut self, since: Moment) -> Result<()> {
        let deadline = Instant::now() + STUCK;
        let mut looks = interval(FOREIGN_INTERVAL);
        while let Some(foreign) = &self.foreign {
            let silent = foreign.silent_since(since);
            if silent.is_empty() {
                break;
            }
            if Instant::now() > deadline {
                self.progress.failure(&format!("no foreign datagram arrives from {}", silent.join(", ")));
                let silent = silent.len() as u64;
                self.report.foreign.iter_mut().for_each(|statistics| statistics.stuck += silent);
                break;
            }
            tokio::select! {
                report = self.members.next() => self.hear(report)?,
                _ = looks.tick() => {}
            }
        }
        self.count_foreign();
        Ok(())
    }

    /// Updates the report's counts of foreign datagrams.
    fn count_foreign(&mut self) {
        if let (Some(foreign), Some(statistics)) = (&self.foreign, &mut self.report.foreign) {
            *statistics = ForeignStatistics { stuck: statistics.stuck, ..foreign.statistics() };
        }
    }

    /// Handles the members' events for `time`.
    async fn listen(&mut self, time: Duration) -> Result<()> {
        let end = Instant::now() + time;
        loop {
            tokio::select! {
                report = self.members.next() => self.hear(report)?,
                () = sleep_until(end) => return Ok(()),
            }
        }
    }

    fn hear(&mut self, report: ProcessReport) -> Result<()> {
        let ProcessReport { rank, kind, .. } = report;
        match kind {
            ReportKind::Event(MemberEvent::Joined) => {
                self.agreement.out(rank);
                self.out.remove(&rank);
            }
            ReportKind::Event(MemberEvent::Reduced(reduced)) => {
                self.report.checked += 1;
                let full = reduced.contributors as usize == self.members.ranks();
                self.timeline.note(rank, reduced.at, full);
                if let Some(difference) = self.agreement.reduced(rank, reduced.round, reduced.digest) {
                    self.wrong(&difference.to_string());
                }
            }
            ReportKind::Event(MemberEvent::Wrong { round, problem }) => {
                self.wrong(&format!("round {round}, rank {rank}: {problem}"));
            }
            ReportKind::Event(MemberEvent::Out { reason }) => {
                self.agreement.out(rank);
                self.out.insert(rank);
                self.progress.out(rank, &reason);
            }
            ReportKind::Ended => {
                self.agreement.out(rank);
                self.ended += 1;
                if self.ended > MOST_ENDED {
                    bail!(
                        "training processes have ended unexpectedly: see {}/*.process.log",
                        self.lab.folder().display()
                    );
                }
                self.progress.out(rank, "its process has ended unexpectedly");
                self.members.start(rank)?;
            }
        }
        Ok(())
    }

    fn wrong(&mut self, problem: &str) {
        self.progress.failure(problem);
        self.report.count(&self.kinds, |statistics| statistics.wrong += 1);
    }

    /// Returns true if the job is over. Returns false if the controller does not answer.
    fn is_lost(&self) -> bool {
        matches!(job::is_alive(self.lab, self.record), Ok(false))
    }

    /// Adds the effects of a blow to the report.
    fn judge(&mut self, blow: &Blow, outcome: &BlowOutcome) {
        let BlowOutcome { began, repaired, over, fate } = *outcome;
        let away: Vec<_> = blow.disturbances.iter().map(|disturbance| &disturbance.target).collect();
        let gap = |rank: &usize| self.timeline.longest_gap(*rank, began, over);
        // The job has continued in the part of the network whose members paused least.
        let ranks = |worker: usize| self.members.on_worker(worker);
        let parts = reach::spared(self.topology, &away).into_iter();
        let parts = parts.map(|part| part.into_iter().flat_map(ranks).collect::<BTreeSet<usize>>());
        let paused = parts.map(|part| (part.iter().map(gap).max().unwrap_or_default(), part)).min();
        let (pause, spared) = paused.map_or((None, BTreeSet::new()), |(pause, part)| (Some(pause), part));
        let all = 0..self.members.ranks();
        let hit = all.filter(|rank| !spared.contains(rank));
        let back: Vec<_> = hit
            .filter_map(|rank| Some(self.timeline.first_after(rank, repaired, false)?.since(repaired)))
            .collect();
        let mut stuck: BTreeSet<_> = spared.into_iter().filter(|rank| gap(rank) > STUCK).collect();
        stuck.extend(self.timeline.not_back(repaired));
        let unattended = blow.is_unattended();
        for kind in self.kinds.clone() {
            self.report.count(&[kind], |statistics| {
                statistics.kills += 1;
                if fate != Fate::Lost {
                    let pauses =
                        if unattended { &mut statistics.unattended_s } else { &mut statistics.pauses_s };
                    pause.into_iter().for_each(|pause| pauses.add(pause));
                    back.iter().for_each(|back| statistics.back_s.add(*back));
                }
            });
        }
        let (lost, stuck) = match fate {
            Fate::Lost => (1, Vec::new()),
            Fate::Well | Fate::Stuck => (0, stuck.into_iter().collect()),
        };
        self.report.count(&self.kinds, |statistics| {
            statistics.lost_jobs += lost;
            statistics.stuck += stuck.len() as u64;
        });
        self.progress.done(blow, pause, back.iter().max().copied(), lost > 0, &stuck);
    }

    /// Restarts the processes of stuck members. If the members stay stuck, creates the job again.
    async fn restart(&mut self, since: Moment) -> Result<()> {
        for rank in self.timeline.not_back(since) {
            self.agreement.out(rank);
            self.members.start(rank)?;
        }
        if self.all_in(since, RESTART_PATIENCE).await? {
            return Ok(());
        }
        if !self.is_lost() {
            job::end(self.lab, self.record)?;
        }
        self.progress
            .failure("members are still stuck after their processes were restarted: the job counts as lost");
        self.report.count(&self.kinds, |statistics| statistics.lost_jobs += 1);
        self.renew().await
    }

    /// Creates the job again, with all members.
    async fn renew(&mut self) -> Result<()> {
        for rank in 0..self.members.ranks() {
            self.members.kill(rank).await?;
        }
        job::renew(self.lab, self.record).context("cannot create the job again")?;
        self.agreement = Agreement::default();
        self.out.clear();
        self.begin().await
    }

    /// Starts all members, and waits until they reduce.
    async fn begin(&mut self) -> Result<()> {
        self.members.start_all()?;
        if self.all_in(Moment::now(), START_PATIENCE).await? {
            return Ok(());
        }
        let folder = self.lab.folder();
        bail!(
            "the members have not completed an all-reduce within {START_PATIENCE:?}: see the logs in {}",
            folder.display()
        );
    }
}

/// Starts a daemon again.
///
/// Retries while the daemon cannot start because something that it needs is down.
async fn start_again(lab: &Lab, station: String) -> Result<()> {
    let mut problem = None;
    let tries = async {
        while let Err(error) = operations::start(lab, &station).await {
            problem = Some(error);
            sleep(START_INTERVAL).await;
        }
    };
    if timeout(START_PATIENCE, tries).await.is_ok() {
        return Ok(());
    }
    Err(problem.unwrap_or_else(|| anyhow!("the daemon of {station} does not start")))
}
