//! Reports and requests of a member on behalf of its training process.

use tonic::{Response, Status};
use tributary_api::{schedule, v1};

use super::speaker::in_time;
use super::{JobMember, Speaker};
use crate::error::JoinError;

impl Speaker {
    /// Reports to the controller that the sum of an all-reduce is wrong, with this member's contribution;
    /// the job then fails. Returns the verdict, which lists the members' contributions.
    ///
    /// # Errors
    /// [`JoinError::Refused`].
    pub(crate) async fn report_wrong_sum(
        &self,
        description: &str,
        given: v1::GivenOperation,
    ) -> Result<String, JoinError> {
        let JobMember { job, token, host, .. } = self.member.clone();
        let description = description.into();
        let request = v1::ReportFaultRequest { job, token, host, description, given: Some(given) };
        let reported = in_time(self.client.clone().report_fault(request)).await;
        let verdict = reported.map(|response| response.into_inner().verdict);
        verdict.map_err(JoinError::refused("take a report"))
    }

    /// The other workers whose processes do not wait for a result, as far as the controller knows, and why
    /// the job has not changed over; both empty if it does not answer.
    pub(crate) async fn in_the_way(&self) -> (Vec<String>, String) {
        let v1::Job { members, setback, .. } = self.job().await.unwrap_or_default();
        let workers = members.into_iter().filter(|member| member.role() == v1::MemberRole::Worker);
        let idle = |member: &v1::JobMember| {
            member.host != self.member.host
                && member.progress.as_ref().is_some_and(|progress| progress.stalled_milliseconds == 0)
        };
        // All of them are listed, by rank.
        let idle = workers.enumerate().filter(|(_, member)| idle(member));
        (idle.map(|(rank, member)| format!("rank {rank} ({})", member.host)).collect(), setback)
    }

    /// Hands in a profile of the process on this host; the controller waits for the others'
    /// profiles for a moment.
    ///
    /// # Errors
    /// The controller's refusal.
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

    /// The controller's view of the job; `None` if it does not answer.
    pub(crate) async fn job(&self) -> Option<v1::Job> {
        let mut client = self.client.clone();
        let listed = in_time(client.list_jobs(v1::ListJobsRequest {})).await;
        let jobs = listed.map(|listed| listed.into_inner().jobs).unwrap_or_default();
        // Names are reused: only the last job of a name can be alive.
        jobs.into_iter().rfind(|job| job.name == self.member.job)
    }
}
