use std::ops::Range;
use std::pin::pin;
use std::time::Duration;

use tonic::transport::Channel;
use tonic::{Response, Status, Streaming};
use tributary_api::agent::v1;
use tributary_api::agent::v1::agent_client::AgentClient;
use tributary_api::agent::v1::job_event::Event;

use crate::element::Element;
use crate::error::ClientError;
use crate::options::JoinOptions;
use crate::regroup::Regroup;
use crate::segment::Segment;
use crate::session::{self, Session};

/// This process's part in a job. Dropping it without [`close`](Self::close) leaves the job, which goes on without this
/// host, or fails if it is rigid.
#[derive(Debug)]
pub struct Job {
    session: Session,
    /// The sign of life: the agent takes its end for this process's.
    events: Streaming<v1::JobEvent>,
    options: JoinOptions,
    rank: u32,
    ranks: Vec<u32>,
    shards: Vec<u32>,
    generation: u32,
    pub(crate) regroup: Option<Regroup>,
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
    /// How long it may take until it fails; `None`: as the [`JoinOptions`](crate::JoinOptions) say, or as long as the job
    /// lives. Best the same on all members: one that gives up contributes nothing to what is left of the operation.
    pub deadline: Option<Duration>,
    /// Another all-reduce of the same step of training follows. What a step takes is measured, and its samples are the
    /// weight of its last all-reduce: a job that does something about processes that get slow goes by that.
    pub step_goes_on: bool,
}

impl Operation<'_> {
    /// The sum of all elements of the segment.
    pub fn whole<T: Element>() -> Self {
        Self {
            name: "unnamed",
            element_type: T::TYPE,
            elements: None,
            weight: 1,
            deadline: None,
            step_goes_on: false,
        }
    }
}

impl Operation<'_> {
    fn elements_in(&self, segment: &Segment) -> Range<usize> {
        let all = 0..segment.len() / bytes_of(self.element_type);
        self.elements.clone().unwrap_or(all)
    }

    /// Where its elements are.
    pub(crate) fn bytes_in(&self, segment: &Segment) -> Range<usize> {
        let (Range { start, end }, size) = (self.elements_in(segment), bytes_of(self.element_type));
        start.saturating_mul(size)..end.saturating_mul(size)
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
        options: JoinOptions,
        started: v1::Started,
    ) -> Result<Self, ClientError> {
        let v1::Started { session, rank, ranks, host, generation, regroup, shards, .. } = started;
        if !ranks.contains(&rank) {
            return Err(ClientError::BadAnswer("its own rank is not among the job's"));
        }
        let session = Session { client, id: session };
        let regroup = regroup.map(Regroup::from);
        Ok(Self { session, events, options, rank, ranks, shards, generation, regroup, host })
    }

    /// This member's rank.
    pub fn rank(&self) -> u32 {
        self.rank
    }

    /// Ranks of all members, ascending: as of the end of the last all-reduce, or of the start.
    pub fn ranks(&self) -> &[u32] {
        &self.ranks
    }

    /// Ranks whose data the members process, ascending: as of the start, or of the last [`Regroup`].
    pub fn shards(&self) -> &[u32] {
        &self.shards
    }

    /// Which version of the job's structure that is: they count up from 1, by one for each time that a member goes or
    /// comes, or that the tree changes.
    pub fn generation(&self) -> u32 {
        self.generation
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
    /// [`ClientError::Refused`], when the contributions have no sum, the job is over or goes on without this host, or the
    /// deadline has passed. [`ClientError::Regroup`], once for each time that others have joined or that it has changed whose
    /// data are processed. [`ClientError::Detached`], as long as the job goes on without this process. A call that is
    /// broken off (its future dropped) leaves the segment unusable.
    pub async fn all_reduce(
        &mut self,
        segment: &mut Segment,
        operation: Operation<'_>,
    ) -> Result<Vec<Run>, ClientError> {
        self.reduce(segment, operation, 0).await
    }

    /// As [`all_reduce`](Self::all_reduce), which synchronises for the members who have joined in `regroup_generation`.
    pub(crate) async fn reduce(
        &mut self,
        segment: &mut Segment,
        operation: Operation<'_>,
        regroup_generation: u32,
    ) -> Result<Vec<Run>, ClientError> {
        let size = bytes_of(operation.element_type);
        let elements = operation.elements_in(segment);
        let request = v1::AllReduceRequest {
            session: self.session.id.clone(),
            segment: segment.id,
            offset: (elements.start as u64).saturating_mul(size as u64),
            element_type: operation.element_type.into(),
            count: elements.len() as u64,
            weight: operation.weight,
            name: operation.name.into(),
            deadline_milliseconds: operation.deadline.or(self.options.deadline).map_or(0, milliseconds),
            regroup_generation,
            step_goes_on: operation.step_goes_on,
        };
        segment.lent = true;
        let answer = self.call(request).await;
        let v1::AllReduceResponse { runs, regroup, generation, ranks, detached } =
            session::answer(answer, &mut [segment])?;
        if let Some(detached) = detached {
            return Err(ClientError::Detached(detached.into()));
        }
        (self.generation, self.ranks) = (generation, ranks);
        if let Some(regroup) = regroup.map(Regroup::from) {
            self.shards.clone_from(&regroup.shards);
            self.regroup = Some(regroup.clone());
            return Err(ClientError::Regroup(regroup));
        }
        let run = |v1::Run { elements, weight, contributors }| Run { elements, weight, contributors };
        Ok(runs.into_iter().map(run).collect())
    }

    /// Waits for the answer, and tells what it is that is waited for.
    async fn call(
        &mut self,
        request: v1::AllReduceRequest,
    ) -> Result<Response<v1::AllReduceResponse>, Status> {
        let Self { session, events, options, .. } = self;
        let mut answer = pin!(session.client.all_reduce(request));
        loop {
            tokio::select! {
                answer = &mut answer => return answer,
                event = events.message() => match event {
                    Ok(Some(v1::JobEvent { event: Some(Event::Waiting(waiting)) })) => options.observer.tell(waiting),
                    // What there is to say about the job's end, the answer says.
                    Ok(Some(_)) => {}
                    Ok(None) | Err(_) => return answer.await,
                },
            }
        }
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

/// At least one: 0 stands for no deadline.
fn milliseconds(deadline: Duration) -> u64 {
    u64::try_from(deadline.as_millis()).unwrap_or(u64::MAX).max(1)
}

fn bytes_of(element_type: v1::ElementType) -> usize {
    match element_type {
        v1::ElementType::F16 | v1::ElementType::Bf16 => 2,
        v1::ElementType::F32 | v1::ElementType::I32 | v1::ElementType::Unspecified => 4,
    }
}
