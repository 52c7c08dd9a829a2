use tonic::transport::Channel;
use tonic::{Response, Status};
use tributary_api::agent::v1;
use tributary_api::agent::v1::agent_client::AgentClient;

use crate::error::ClientError;
use crate::segment::{self, Segment};

/// What jobs and trainings have in common: a session of the agent, which has segments.
#[derive(Debug)]
pub(crate) struct Session {
    pub(crate) client: AgentClient<Channel>,
    pub(crate) id: Vec<u8>,
}

impl Session {
    /// Makes memory that is shared with the agent.
    pub(crate) async fn open_segment(&mut self, bytes: usize) -> Result<Segment, ClientError> {
        let (map, named) = segment::create(bytes)?;
        let request = v1::OpenSegmentRequest {
            session: self.id.clone(),
            name: named.0.to_string(),
            bytes: bytes as u64,
        };
        let opened = self.client.open_segment(request).await.map_err(ClientError::refused)?.into_inner();
        Ok(Segment::new(map, opened.segment))
    }

    pub(crate) async fn close_segment(&mut self, segment: &Segment) -> Result<(), ClientError> {
        let request = v1::CloseSegmentRequest { session: self.id.clone(), segment: segment.id };
        self.client.close_segment(request).await.map_err(ClientError::refused)?;
        Ok(())
    }
}

/// The agent's answer to a call that it may use segments for.
pub(crate) fn answer<T>(
    answer: Result<Response<T>, Status>,
    segments: &mut [&mut Segment],
) -> Result<T, ClientError> {
    // An answer of the agent's own comes when it is done with them; one that comes because the connection broke
    // does not.
    let lent = matches!(&answer, Err(status) if std::error::Error::source(status).is_some());
    segments.iter_mut().for_each(|segment| segment.lent = lent);
    Ok(answer.map_err(ClientError::refused)?.into_inner())
}
