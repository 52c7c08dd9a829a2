//! What a member says.

use std::time::Duration;

use tokio::time::timeout;
use tonic::transport::Channel;
use tonic::{Code, Status};
use tributary_api::v1::answer_request::Answer;
use tributary_api::v1::controller_client::ControllerClient;
use tributary_api::{schedule, v1};

use super::JobMember;
use crate::backoff::Backoff;
use crate::error::JoinError;

/// How long a controller may take to hear that this host leaves, or who it waits for.
const PATIENCE: Duration = Duration::from_secs(2);

/// A member's voice at the controller.
#[derive(Debug, Clone)]
pub struct Speaker {
    client: ControllerClient<Channel>,
    pub(super) member: JobMember,
}

impl Speaker {
    pub(super) fn new(client: ControllerClient<Channel>, member: JobMember) -> Self {
        Self { client, member }
    }

    /// Tells the controller that something must not be believed; the job fails for that.
    ///
    /// # Errors
    /// [`JoinError::Refused`].
    pub async fn report_fault(&mut self, description: &str) -> Result<(), JoinError> {
        let JobMember { job, token, host, .. } = self.member.clone();
        let description = description.into();
        let request = v1::ReportFaultRequest { job, token, host, description, given: None };
        let reported = in_time(self.client.report_fault(request)).await;
        reported.map(drop).map_err(JoinError::refused("take a report"))
    }

    /// Tells the controller that the sum of an all-reduce, to which this member gave that, must not be believed; the job
    /// fails for that. Its verdict says which members gave what.
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

    /// What the job waits for, as far as the controller knows; nothing if it does not answer.
    pub async fn waiting_for(&self) -> Vec<String> {
        self.job().await.map(|job| job.waiting_for).unwrap_or_default()
    }

    /// The other workers whose processes do not wait for a result, as far as the controller knows; none if it does not
    /// answer.
    pub(crate) async fn not_waiting(&self) -> Vec<String> {
        let members = self.job().await.map(|job| job.members).unwrap_or_default();
        let workers = members.into_iter().filter(|member| member.role() == v1::MemberRole::Worker);
        let idle = |member: &v1::JobMember| {
            member.host != self.member.host
                && member.progress.as_ref().is_some_and(|progress| progress.stalled_milliseconds == 0)
        };
        // They are listed by rank, all of them.
        let idle = workers.enumerate().filter(|(_, member)| idle(member));
        idle.map(|(rank, member)| format!("rank {rank} ({})", member.host)).collect()
    }

    async fn job(&self) -> Option<v1::Job> {
        let mut client = self.client.clone();
        let listed = in_time(client.list_jobs(v1::ListJobsRequest {})).await;
        let jobs = listed.map(|listed| listed.into_inner().jobs).unwrap_or_default();
        // Names are given again: the last of that name is the one that can be alive.
        jobs.into_iter().rfind(|job| job.name == self.member.job)
    }

    /// Answers what was asked about `generation`, as often as it takes until the controller has the answer. That it does
    /// not want it any more is as good.
    pub(crate) async fn answer(&self, generation: u32, answer: Answer) {
        let JobMember { job, token, host, role, .. } = self.member.clone();
        let role = v1::MemberRole::from(role).into();
        let request = v1::AnswerRequest { job, token, host, role, generation, answer: Some(answer) };
        let mut backoff = Backoff::default();
        loop {
            match self.client.clone().answer(request.clone()).await {
                Ok(_) => return,
                Err(status) if is_final(status.code()) => {
                    let reason = status.message();
                    tracing::info!(
                        job = request.job,
                        generation,
                        reason,
                        "the controller wants no answer any more"
                    );
                    return;
                }
                Err(status) => {
                    tracing::debug!(job = request.job, generation, %status, "the controller has no answer yet");
                    backoff.wait().await;
                }
            }
        }
    }

    /// Hands in a profile of the process here; the controller waits for the others' for a moment.
    ///
    /// # Errors
    /// As the controller has it.
    pub(crate) async fn hand_in_profile(
        &self,
        number: schedule::ProfileNumber,
        profile: schedule::Profile,
    ) -> Result<v1::HandInProfileResponse, Status> {
        let JobMember { job, token, host, .. } = self.member.clone();
        let request =
            v1::HandInProfileRequest { job, token, host, number: Some(number), profile: Some(profile) };
        let handed_in = in_time(self.client.clone().hand_in_profile(request)).await;
        handed_in.map(tonic::Response::into_inner)
    }

    pub(super) async fn leave(mut self, reason: &str) -> Result<(), JoinError> {
        let JobMember { job, token, host, role, .. } = self.member;
        let role = v1::MemberRole::from(role).into();
        let request = v1::LeaveRequest { job, token, host, reason: reason.into(), role };
        let left = in_time(self.client.leave(request)).await;
        left.map(drop).map_err(JoinError::refused("let this host leave"))
    }
}

/// Whether asking again does not help: the change of generation is off, or the job is over.
fn is_final(code: Code) -> bool {
    matches!(code, Code::Aborted) || super::stream::is_final(code)
}

async fn in_time<T>(call: impl Future<Output = Result<T, Status>>) -> Result<T, Status> {
    let late = || Status::deadline_exceeded(format!("it does not answer within {PATIENCE:?}"));
    timeout(PATIENCE, call).await.unwrap_or_else(|_| Err(late()))
}
