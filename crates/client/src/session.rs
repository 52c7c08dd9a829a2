use tokio::runtime::Handle;
use tonic::transport::Channel;
use tonic::{Response, Status};
use tributary_api::agent::v1;
use tributary_api::agent::v1::agent_client::AgentClient;

use crate::error::ClientError;
use crate::segment::{self, Closer, Loan, Segment};

/// A segment that is lent for a call. If the call is dropped before its answer, the segment stays
/// lent.
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

/// A session with the agent. Jobs and trainings both have one.
#[derive(Debug, Clone)]
pub(crate) struct Session {
    pub(crate) client: AgentClient<Channel>,
    pub(crate) id: Vec<u8>,
}

impl Session {
    /// Allocates memory that this process shares with the agent.
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

/// Handles the agent's answer to a call with lent segments.
pub(crate) fn answer<T, const N: usize>(
    answer: Result<Response<T>, Status>,
    loans: [Unanswered; N],
) -> Result<T, ClientError> {
    // If the agent itself has answered, it no longer uses the segments. After an error of a broken connection, it may
    // still use them.
    let broke = matches!(&answer, Err(status) if std::error::Error::source(status).is_some());
    if !broke {
        loans.into_iter().for_each(Unanswered::end);
    }
    Ok(answer.map_err(ClientError::refused)?.into_inner())
}
