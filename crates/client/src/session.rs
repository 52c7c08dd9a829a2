use tokio::runtime::Handle;
use tonic::transport::Channel;
use tonic::{Response, Status};
use tributary_api::agent::v1;
use tributary_api::agent::v1::agent_client::AgentClient;

use crate::error::ClientError;
use crate::segment::{self, Closer, Loan, Segment};

/// A segment that is lent for a call, and stays lent if the call is broken off.
#[derive(Debug)]
pub(crate) struct Unanswered(Option<Loan>);

impl Unanswered {
    pub(crate) fn new(loan: Loan) -> Self {
        Self(Some(loan))
    }

    fn end(mut self) {
        self.0 = None;
    }
}

impl Drop for Unanswered {
    fn drop(&mut self) {
        if let Some(loan) = self.0.take() {
            loan.keep();
        }
    }
}

/// The common part of jobs and trainings: a session with the agent, and its segments.
#[derive(Debug, Clone)]
pub(crate) struct Session {
    pub(crate) client: AgentClient<Channel>,
    pub(crate) id: Vec<u8>,
}

impl Session {
    /// Makes memory that is shared with the agent.
    pub(crate) async fn open_segment(&self, bytes: usize) -> Result<Segment, ClientError> {
        let (mapped, named) = segment::create(bytes)?;
        let request = v1::OpenSegmentRequest {
            session: self.id.clone(),
            name: named.0.to_string(),
            bytes: bytes as u64,
        };
        let opened =
            self.client.clone().open_segment(request).await.map_err(ClientError::refused)?.into_inner();
        let request = v1::CloseSegmentRequest { session: self.id.clone(), segment: opened.segment };
        let closer = Closer { client: self.client.clone(), request, runtime: Handle::current() };
        Ok(Segment::new(mapped, opened.segment, Some(closer)))
    }
}

/// Handles the agent's answer to a call for which segments were lent.
pub(crate) fn answer<T, const N: usize>(
    answer: Result<Response<T>, Status>,
    loans: [Unanswered; N],
) -> Result<T, ClientError> {
    // The agent's own answer comes when it is done with the segments; an error from a broken connection does not mean
    // that.
    let broke = matches!(&answer, Err(status) if std::error::Error::source(status).is_some());
    if !broke {
        loans.into_iter().for_each(Unanswered::end);
    }
    Ok(answer.map_err(ClientError::refused)?.into_inner())
}
