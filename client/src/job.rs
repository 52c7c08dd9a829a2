use std::ops::Range;

use tonic::Streaming;
use tonic::transport::Channel;
use tributary_api::agent::v1;
use tributary_api::agent::v1::agent_client::AgentClient;

use crate::element::Element;
use crate::error::ClientError;
use crate::segment::Segment;
use crate::session::{self, Session};

/// This process's part in a job. Dropping it without [`close`](Self::close) leaves the job, which fails.
#[derive(Debug)]
pub struct Job {
    session: Session,
    /// The sign of life: the agent takes its end for this process's.
    _events: Streaming<v1::JobEvent>,
    rank: u32,
    ranks: Vec<u32>,
    host: String,
}

/// What is to be reduced, and how.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Operation<'a> {
    /// The tensor, for errors.
    pub name: &'a str,
    /// How the elements are stored.
    pub element_type: v1::ElementType,
    /// Which elements of the segment; `None`: all.
    pub elements: Option<Range<usize>>,
    /// What this member's contribution is multiplied by. 0: it has nothing to give.
    pub weight: u32,
}

impl Operation<'_> {
    /// The sum of all elements of the segment.
    pub fn whole<T: Element>() -> Self {
        Self { name: "unnamed", element_type: T::TYPE, elements: None, weight: 1 }
    }
}

/// Neighbouring elements that were summed over the same members.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Run {
    /// How many elements.
    pub elements: u64,
    /// Sum of the weights inside.
    pub weight: u32,
    /// Members inside.
    pub contributors: u32,
}

impl Job {
    pub(crate) fn new(
        client: AgentClient<Channel>,
        events: Streaming<v1::JobEvent>,
        started: v1::Started,
    ) -> Result<Self, ClientError> {
        let v1::Started { session, rank, ranks, host, .. } = started;
        if !ranks.contains(&rank) {
            return Err(ClientError::BadAnswer("its own rank is not among the job's"));
        }
        let session = Session { client, id: session };
        Ok(Self { session, _events: events, rank, ranks, host })
    }

    /// This member's rank.
    pub fn rank(&self) -> u32 {
        self.rank
    }

    /// Ranks of all members, ascending.
    pub fn ranks(&self) -> &[u32] {
        &self.ranks
    }

    /// This host, as the topology names it.
    pub fn host(&self) -> &str {
        &self.host
    }

    /// Makes memory that is shared with the agent.
    ///
    /// # Errors
    /// [`ClientError::SharedMemory`] when there is not as much, [`ClientError::Refused`].
    pub async fn segment(&mut self, bytes: usize) -> Result<Segment, ClientError> {
        self.session.open_segment(bytes).await
    }

    /// Gives memory back before the job is closed.
    ///
    /// # Errors
    /// [`ClientError::Refused`].
    pub async fn release(&mut self, segment: Segment) -> Result<(), ClientError> {
        self.session.close_segment(&segment).await
    }

    /// Reduces elements of a segment over all members, in place. Every member must start the same
    /// operations in the same order. Says what the result was summed over.
    ///
    /// # Errors
    /// [`ClientError::Refused`], when the contributions have no sum or the job is over. A call that is
    /// broken off (its future dropped) leaves the segment unusable.
    pub async fn all_reduce(
        &mut self,
        segment: &mut Segment,
        operation: Operation<'_>,
    ) -> Result<Vec<Run>, ClientError> {
        let size = bytes_of(operation.element_type);
        let elements = operation.elements.unwrap_or(0..segment.len() / size);
        let request = v1::AllReduceRequest {
            session: self.session.id.clone(),
            segment: segment.id,
            offset: (elements.start as u64).saturating_mul(size as u64),
            element_type: operation.element_type.into(),
            count: elements.len() as u64,
            weight: operation.weight,
            name: operation.name.into(),
            deadline_milliseconds: 0,
            regroup_generation: 0,
        };
        segment.lent = true;
        let answer = self.session.client.all_reduce(request).await;
        let runs = session::answer(answer, &mut [segment])?.runs;
        let run = |v1::Run { elements, weight, contributors }| Run { elements, weight, contributors };
        Ok(runs.into_iter().map(run).collect())
    }

    /// What the agent has counted for the job.
    ///
    /// # Errors
    /// [`ClientError::Refused`].
    pub async fn stats(&mut self) -> Result<v1::StatsResponse, ClientError> {
        let request = v1::StatsRequest { session: self.session.id.clone() };
        Ok(self.session.client.stats(request).await.map_err(ClientError::refused)?.into_inner())
    }

    /// Ends this process's part and leaves the host a member of the job, so that the others can finish and
    /// another process go on. The job lives until it is ended at the controller.
    ///
    /// # Errors
    /// [`ClientError::Refused`].
    pub async fn close(mut self) -> Result<(), ClientError> {
        let request = v1::CloseJobRequest { session: self.session.id };
        self.session.client.close_job(request).await.map_err(ClientError::refused)?;
        Ok(())
    }
}

fn bytes_of(element_type: v1::ElementType) -> usize {
    match element_type {
        v1::ElementType::F16 | v1::ElementType::Bf16 => 2,
        v1::ElementType::F32 | v1::ElementType::I32 | v1::ElementType::Unspecified => 4,
    }
}
