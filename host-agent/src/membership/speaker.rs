//! The reports and answers that a member sends to the controller.

use std::time::Duration;

use tokio::time::timeout;
use tonic::transport::Channel;
use tonic::{Code, Status};
use tributary_api::v1::answer_request::Answer;
use tributary_api::v1::controller_client::ControllerClient;
use tributary_api::{JobCredentials, v1};
use tributary_transport::{ConnectError, Remote};

use super::{JobMember, Parting};
use crate::backoff::Backoff;
use crate::error::JoinError;

/// The time within which the controller must answer a departure, a report or a request.
const PATIENCE: Duration = Duration::from_secs(2);

/// The client with which a member sends reports and answers to the controller.
#[derive(Debug, Clone)]
pub(crate) struct Speaker {
    pub(super) client: ControllerClient<Channel>,
    pub(super) member: JobMember,
}

impl Speaker {
    /// Connects to the controller.
    pub(crate) async fn connect(controller: &Remote, member: JobMember) -> Result<Self, ConnectError> {
        let client = ControllerClient::new(controller.connect().await?)
            .max_decoding_message_size(tributary_api::MAX_MESSAGE_BYTES);
        Ok(Self { client, member })
    }

    /// Answers a question about `generation`. Repeats the answer until the controller has received it or
    /// does not need it any more.
    pub(crate) async fn answer(&self, generation: u32, answer: Answer) {
        let JobMember { job, token, host, role, .. } = self.member.clone();
        let role = v1::MemberRole::from(role).into();
        let credentials = JobCredentials { job, token };
        let request = v1::AnswerRequest { host, role, generation, answer: Some(answer) };
        let mut backoff = Backoff::default();
        loop {
            match self.client.clone().answer(credentials.onto(request.clone())).await {
                Ok(_) => return,
                Err(status) if is_final(status.code()) => {
                    let reason = status.message();
                    tracing::info!(
                        job = credentials.job,
                        generation,
                        reason,
                        "the controller wants no answer any more"
                    );
                    return;
                }
                Err(status) => {
                    tracing::debug!(job = credentials.job, generation, %status, "the controller has no answer yet");
                    backoff.wait().await;
                }
            }
        }
    }

    pub(super) async fn leave(mut self, parting: &Parting) -> Result<(), JoinError> {
        let JobMember { job, token, host, role, .. } = self.member;
        let role = v1::MemberRole::from(role).into();
        let request = v1::LeaveRequest {
            job,
            token,
            host,
            reason: parting.reason.clone(),
            role,
            at_end: parting.at_end,
        };
        let left = in_time(self.client.leave(request)).await;
        left.map(drop).map_err(JoinError::refused("let this host leave"))
    }
}

/// Returns true if a retry cannot succeed, because the change of generation is cancelled or the job
/// is over.
fn is_final(code: Code) -> bool {
    matches!(code, Code::Aborted) || super::stream::is_final(code)
}

pub(super) async fn in_time<T>(call: impl Future<Output = Result<T, Status>>) -> Result<T, Status> {
    let late = || Status::deadline_exceeded(format!("it does not answer within {PATIENCE:?}"));
    timeout(PATIENCE, call).await.unwrap_or_else(|_| Err(late()))
}
