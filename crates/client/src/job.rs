use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::runtime::Handle;
use tokio::task::AbortHandle;
use tonic::Streaming;
use tonic::transport::Channel;
use tributary_api::agent::v1;
use tributary_api::agent::v1::agent_client::AgentClient;
use tributary_api::agent::v1::job_event::Event;

use crate::error::ClientError;
use crate::membership::Membership;
use crate::operation::{Operation, Run};
use crate::options::{JoinOptions, Observer};
use crate::reduction::Reduction;
use crate::regroup::Regroup;
use crate::request_stream::RequestStream;
use crate::schedule::{self, Decision, Profile, ProfileNumber};
use crate::segment::Segment;
use crate::session::Session;
use crate::waits::Waits;
use crate::watchdog::Watchdog;

/// This process's part in a job. Threads share it by reference, or by cheap clones. Dropping the last
/// one without [`close`](Self::close) leaves the job, which continues without this host, or fails if it is rigid.
#[derive(Debug, Clone)]
pub struct Job(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    session: Session,
    watchdog: Watchdog,
    options: JoinOptions,
    rank: u32,
    host: String,
    values_per_slice: u32,
    switches: u32,
    membership: Arc<Membership>,
    runtime: Handle,
    /// The stream that all-reduces join; a new one follows where one was refused.
    requests: Mutex<Arc<RequestStream>>,
    /// The task that holds the stream of events: the agent takes the stream's end for the
    /// end of this process.
    sign_of_life: AbortHandle,
}

impl Drop for Inner {
    fn drop(&mut self) {
        self.sign_of_life.abort();
        self.requests.get_mut().close();
    }
}

impl Job {
    /// Must be called in a tokio runtime, in which the job's background tasks run.
    pub(crate) fn new(
        client: AgentClient<Channel>,
        watchdog: Watchdog,
        events: Streaming<v1::JobEvent>,
        options: JoinOptions,
        started: v1::Started,
    ) -> Result<Self, ClientError> {
        let v1::Started {
            session,
            rank,
            ranks,
            host,
            generation,
            regroup,
            shards,
            values_per_slice,
            switches,
            ..
        } = started;
        if !ranks.contains(&rank) {
            return Err(ClientError::BadAnswer("its own rank is not among the job's"));
        }
        let runtime = Handle::current();
        let membership = Arc::new(Membership::new(generation, ranks, shards, regroup.map(Regroup::from)));
        let who = who(rank, &host);
        let waits = Arc::clone(watchdog.waits());
        let requests = RequestStream::open(&runtime, client.clone(), Arc::clone(&membership), &waits, who);
        let requests = Mutex::new(requests);
        let sign_of_life = runtime.spawn(listen(events, options.observer.clone(), waits)).abort_handle();
        let session = Session { client, id: session };
        Ok(Self(Arc::new(Inner {
            session,
            watchdog,
            options,
            rank,
            host,
            values_per_slice,
            switches,
            membership,
            runtime,
            requests,
            sign_of_life,
        })))
    }

    /// This member's rank.
    pub fn rank(&self) -> u32 {
        self.0.rank
    }

    /// Ranks of all members, ascending, as of the last all-reduce that has ended, or of the start.
    pub fn ranks(&self) -> Vec<u32> {
        self.membership().ranks()
    }

    /// Ranks that were lost while this process was a member, with the reasons, as of the last
    /// all-reduce that has ended.
    pub fn lost(&self) -> BTreeMap<u32, String> {
        self.membership().lost()
    }

    /// Ranks whose data the members process, ascending, as of the start or the last [`Regroup`].
    pub fn shards(&self) -> Vec<u32> {
        self.membership().shards()
    }

    /// The generation of the job's structure: they count up from 1, by one each time that a member comes or
    /// goes, or that the tree changes.
    pub fn generation(&self) -> u32 {
        self.membership().generation()
    }

    /// This host's name in the topology.
    pub fn host(&self) -> &str {
        &self.0.host
    }

    /// The number of values in a slice.
    pub fn values_per_slice(&self) -> u32 {
        self.0.values_per_slice
    }

    /// The number of switches that add the job's gradients, when this host joined.
    pub fn switches(&self) -> u32 {
        self.0.switches
    }

    pub(crate) fn membership(&self) -> &Membership {
        &self.0.membership
    }

    /// Makes memory that is shared with the agent.
    ///
    /// # Errors
    /// [`ClientError::SharedMemory`] when there is not enough, [`ClientError::Refused`].
    pub async fn segment(&self, bytes: usize) -> Result<Segment, ClientError> {
        self.segment_within(bytes, None).await
    }

    /// Makes shared memory as [`segment`](Self::segment) does, for an operation with a deadline of its own:
    /// if the agent is silent, this ends then, too.
    ///
    /// # Errors
    /// As for [`segment`](Self::segment).
    pub async fn segment_within(
        &self,
        bytes: usize,
        deadline: Option<Duration>,
    ) -> Result<Segment, ClientError> {
        let opening = self.0.session.open_segment(bytes);
        self.call("a request for shared memory", deadline, opening).await
    }

    /// Gives memory back, and returns when the agent has released it.
    /// Dropping the segment also notifies the agent, in the background.
    ///
    /// # Errors
    /// [`ClientError::Refused`].
    pub async fn release(&self, mut segment: Segment) -> Result<(), ClientError> {
        match segment.take_closer() {
            Some(closer) => self.call("the release of shared memory", None, closer.close()).await,
            None => Ok(()),
        }
    }

    /// Starts to reduce elements of a segment over all members, in place, behind all earlier operations.
    /// Every member must start the same operations in the same order. The place in the order is fixed when this
    /// returns, for calls from all threads. The segment can be accessed again once the operation has ended.
    ///
    /// Any number may be under way; the agent begins those that it has room for, in order. If the job was joined in a
    /// single-threaded runtime, requests are sent as soon as that thread awaits something.
    ///
    /// If one is refused (elements outside the segment, too little memory), all behind it end with
    /// [`ClientError::NotStarted`]; those that are started after this error was seen are requested as usual. If one
    /// ends with [`ClientError::Regroup`] or [`ClientError::Detached`], so do all behind it.
    ///
    /// # Errors
    /// [`ClientError::SegmentInUse`], [`ClientError::GivenUp`]. The [`Reduction`] returns all other errors.
    pub fn start(&self, segment: &mut Segment, operation: &Operation<'_>) -> Result<Reduction, ClientError> {
        self.start_for(segment, operation, 0)
    }

    /// Starts as [`start`](Self::start) does, and synchronises for the members that have joined in
    /// `regroup_generation`.
    pub(crate) fn start_for(
        &self,
        segment: &mut Segment,
        operation: &Operation<'_>,
        regroup_generation: u32,
    ) -> Result<Reduction, ClientError> {
        let Inner { session, watchdog, options, runtime, membership, requests, rank, host, .. } = &*self.0;
        let request = operation.request(&session.id, segment, options);
        let mut asked = (v1::AllReduceRequest { regroup_generation, ..request }, segment.lend()?);
        let mut requests = requests.lock();
        loop {
            watchdog.waits().check()?;
            match requests.ask(asked.0, asked.1) {
                Ok(answer) => return Ok(Reduction(answer)),
                Err(again) => asked = again,
            }
            let (client, who) = (session.client.clone(), who(*rank, host));
            *requests = RequestStream::open(runtime, client, Arc::clone(membership), watchdog.waits(), who);
        }
    }

    /// Reduces elements of a segment over all members, in place: [starts](Self::start) this and waits for
    /// its end. Returns what the result was summed over.
    ///
    /// # Errors
    /// [`ClientError::Refused`] when the contributions have no sum, the job is over or continues without this host, or
    /// the deadline has passed. [`ClientError::Regroup`] each time that others have joined or the members' share of the
    /// data has changed, until this process has synchronised. [`ClientError::Detached`] as long as the job continues
    /// without this process. [`ClientError::AgentSilent`] when the deadline has passed and the agent does not even say
    /// so: the process has left the job then, and all that is asked of this ends with [`ClientError::GivenUp`].
    /// [`ClientError::SegmentInUse`], [`ClientError::NotStarted`]. If the future is dropped, the operation continues
    /// all the same, and the segment can be used once it has ended.
    pub async fn all_reduce(
        &self,
        segment: &mut Segment,
        operation: Operation<'_>,
    ) -> Result<Vec<Run>, ClientError> {
        Ok(self.start(segment, &operation)?.await?.runs)
    }

    /// Hands in the profile of when this process's gradients were ready, and waits until all members have:
    /// all get the same answer.
    ///
    /// # Errors
    /// [`ClientError::Refused`]: the members' models differ, the deadline has passed (the message names the missing
    /// members), or the job is over. [`ClientError::BadAnswer`].
    pub async fn hand_in_profile(
        &self,
        number: ProfileNumber,
        profile: &Profile,
        deadline: Option<Duration>,
    ) -> Result<Decision, ClientError> {
        let Session { client, id } = &self.0.session;
        let request = schedule::request(id.clone(), number, profile, deadline.or(self.0.options.deadline));
        let mut client = client.clone();
        let handing_in = async { client.hand_in_profile(request).await.map_err(ClientError::refused) };
        let answer = self.call("a profile", deadline, handing_in).await?;
        Decision::read(answer.into_inner(), profile.gradients.len())
    }

    /// Reports what this process's collectives have moved since the last call, and which way, for
    /// the agent's metrics.
    ///
    /// # Errors
    /// [`ClientError::Refused`]: more than 64 counts, or a name that is not printable ASCII of up to 64 bytes.
    pub async fn count_collectives(&self, counts: Vec<v1::CollectiveCount>) -> Result<(), ClientError> {
        let Session { client, id } = &self.0.session;
        let request = v1::CountCollectivesRequest { session: id.clone(), counts };
        client.clone().count_collectives(request).await.map_err(ClientError::refused)?;
        Ok(())
    }

    /// The agent's counters for the job.
    ///
    /// # Errors
    /// [`ClientError::Refused`].
    pub async fn stats(&self) -> Result<v1::StatsResponse, ClientError> {
        let Session { client, id } = &self.0.session;
        let (request, mut client) = (v1::StatsRequest { session: id.clone() }, client.clone());
        let asking = async { client.stats(request).await.map_err(ClientError::refused) };
        Ok(self.call("a request for the agent's counters", None, asking).await?.into_inner())
    }

    /// Ends this process's part and leaves the host a member of the job, so that the others can finish and
    /// another process can continue. The job lives until it is ended at the controller.
    ///
    /// # Errors
    /// [`ClientError::Refused`], also when all-reduces are under way, or when abandoned all-reduces have no result yet;
    /// in the latter case the host leaves the job.
    pub async fn close(self) -> Result<(), ClientError> {
        self.close_job(false).await
    }

    /// Ends this process's part at the end of its training: the host leaves the job.
    /// When the last member has left, the job has ended, provided one of them has left in this way; processes that were
    /// not in it then get [`JobEnded`](ClientError::JobEnded).
    ///
    /// # Errors
    /// As for [`close`](Self::close).
    pub async fn finish(self) -> Result<(), ClientError> {
        self.close_job(true).await
    }

    async fn close_job(self, at_end: bool) -> Result<(), ClientError> {
        let Session { client, id } = &self.0.session;
        let (request, mut client) = (v1::CloseJobRequest { session: id.clone(), at_end }, client.clone());
        let closing = async { client.close_job(request).await.map_err(ClientError::refused) };
        self.call("the end of this process's part in the job", None, closing).await?;
        Ok(())
    }

    /// Waits for the answer to a call.
    /// While the agent is silent, the deadline of the job's all-reduces counts where the call has none of its own.
    async fn call<T>(
        &self,
        what: &str,
        deadline: Option<Duration>,
        call: impl Future<Output = Result<T, ClientError>>,
    ) -> Result<T, ClientError> {
        self.0.watchdog.waits().call(what, deadline.or(self.0.options.deadline), call).await
    }
}

/// The name of this member, for errors.
fn who(rank: u32, host: &str) -> String {
    format!("rank {rank} ({host})")
}

/// Reports what is being waited for, as long as the job lasts and the agent is not given up.
/// Answers say how it has ended.
async fn listen(mut events: Streaming<v1::JobEvent>, observer: Observer, waits: Arc<Waits>) {
    let telling = async {
        while let Ok(Some(event)) = events.message().await {
            waits.heard();
            if let Some(Event::Waiting(waiting)) = event.event {
                observer.tell(waiting);
            }
        }
    };
    tokio::select! {
        () = telling => {}
        () = waits.given_up() => {}
    }
}
