//! Reports and requests of a member on behalf of its training process.

use std::time::Duration;

use tokio::time::timeout;
use tonic::{Response, Status};
use tributary_api::{ProcessCounts, schedule, v1};
use tributary_wire::Rank;

use super::speaker::in_time;
use super::{JobMember, Speaker};
use crate::backoff::Backoff;
use crate::error::{JoinError, is_unreachable};

/// The time within which the controller must open the job of a group.
/// It opens the jobs of several groups one after another, and waits for the switches.
const OPENING: Duration = Duration::from_secs(30);

impl Speaker {
    /// Reports to the controller that the sum of an all-reduce is wrong, with this member's contribution.
    /// The job then fails. Returns the verdict, which lists the members' contributions.
    ///
    /// # Errors
    /// [`JoinError::Refused`] if the controller refuses the report, or does not answer in time.
    pub(crate) async fn report_wrong_sum(
        &self,
        description: &str,
        given: v1::GivenOperation,
    ) -> Result<String, JoinError> {
        self.report(description, Some(given)).await
    }

    /// Reports a fault of this host's processes to the controller, which fails the job.
    ///
    /// # Errors
    /// [`JoinError::Refused`] if the controller refuses the report, or does not answer in time.
    pub(crate) async fn report_fault(&self, description: &str) -> Result<(), JoinError> {
        self.report(description, None).await.map(drop)
    }

    /// Sends a report, and returns the verdict on it.
    async fn report(
        &self,
        description: &str,
        given: Option<v1::GivenOperation>,
    ) -> Result<String, JoinError> {
        let JobMember { job, token, host, .. } = self.member.clone();
        let request = v1::ReportFaultRequest { job, token, host, description: description.into(), given };
        let reported = in_time(self.client.clone().report_fault(request)).await;
        let verdict = reported.map(|response| response.into_inner().verdict);
        verdict.map_err(JoinError::refused("take a report"))
    }

    /// Returns the other workers whose processes do not wait for a result, according to the controller,
    /// and the reason why the job has not changed its generation. Both are empty if the controller does not answer.
    pub(crate) async fn in_the_way(&self) -> (Vec<String>, String) {
        let v1::Job { members, setback, .. } = self.job().await.unwrap_or_default();
        // The controller lists all workers in the order of their ranks, so the position is the rank.
        let workers: Vec<_> =
            members.iter().filter(|member| member.role() == v1::MemberRole::Worker).collect();
        let counts = ProcessCounts::new(workers.iter().map(|member| member.processes.max(1)));
        let counts = counts.unwrap_or_default();
        let idle = |member: &v1::JobMember| {
            member.host != self.member.host
                && member.progress.as_ref().is_some_and(|progress| progress.stalled_milliseconds == 0)
        };
        let name = |(worker, member): (u16, &v1::JobMember)| {
            let ranks = counts.ranks_of(Rank::new(worker));
            match ranks.len() {
                1 => format!("rank {} ({})", ranks.start, member.host),
                _ => format!("one of ranks {} to {} ({})", ranks.start, ranks.end - 1, member.host),
            }
        };
        ((0..).zip(workers).filter(|(_, member)| idle(member)).map(name).collect(), setback)
    }

    /// Sends a profile of the process on this host. The controller waits a moment for the profiles of the
    /// other processes.
    ///
    /// # Errors
    /// The status with which the controller refuses the profile, or `DEADLINE_EXCEEDED` if it does not answer in time.
    pub(crate) async fn hand_in_profile(
        &self,
        number: schedule::ProfileNumber,
        profile: schedule::Profile,
    ) -> Result<v1::HandInProfileResponse, Status> {
        let JobMember { job, token, host, .. } = self.member.clone();
        let request =
            v1::HandInProfileRequest { job, token, host, number: Some(number), profile: Some(profile) };
        let handed_in = in_time(self.client.clone().hand_in_profile(request)).await;
        handed_in.map(Response::into_inner)
    }

    /// Returns the name of the job of a group of the job's processes, which the controller creates if it
    /// does not exist.
    ///
    /// # Errors
    /// The status with which the controller refuses, or `DEADLINE_EXCEEDED` if it does not answer in time.
    pub(crate) async fn open_group(&self, group: String, ranks: Vec<u32>) -> Result<String, Status> {
        let JobMember { job, token, host, .. } = self.member.clone();
        let request = v1::OpenGroupRequest { job, token, host, group, ranks };
        let (mut client, mut backoff) = (self.client.clone(), Backoff::default());
        let mut problem = String::new();
        let opening = async {
            loop {
                match client.open_group(request.clone()).await {
                    // The controller may be starting again.
                    Err(status) if is_unreachable(status.code()) => {
                        status.message().clone_into(&mut problem);
                        backoff.wait().await;
                    }
                    opened => return opened,
                }
            }
        };
        match timeout(OPENING, opening).await {
            Ok(opened) => Ok(opened?.into_inner().job),
            Err(_) => Err(Status::unavailable(format!(
                "the controller has not opened the job of the group within {OPENING:?} ({problem}): check that it \
                 runs and that this host reaches it"
            ))),
        }
    }

    /// Returns the controller's description of the job; `None` if the controller does not answer or does
    /// not know the job.
    pub(crate) async fn job(&self) -> Option<v1::Job> {
        let mut client = self.client.clone();
        let listed = in_time(client.list_jobs(v1::ListJobsRequest {})).await;
        let jobs = listed.map(|listed| listed.into_inner().jobs).unwrap_or_default();
        // Names are reused, and only the last job of a name can be alive.
        jobs.into_iter().rfind(|job| job.name == self.member.job)
    }

    /// Returns the reason if the job is over, as text for a user.
    pub(crate) async fn over(&self) -> Option<String> {
        let job = self.job().await?;
        match job.state() {
            v1::JobState::Ended => Some("it ended".to_owned()),
            v1::JobState::Failed => Some(format!("it failed because {}", job.reason)),
            _ => None,
        }
    }
}
