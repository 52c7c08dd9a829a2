use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::runtime::Handle;
use tokio::sync::oneshot;
use tokio::task::AbortHandle;
use tonic::Streaming;
use tonic::transport::Channel;
use tributary_api::agent::v1;
use tributary_api::agent::v1::agent_client::AgentClient;
use tributary_api::agent::v1::job_event::Event;

use crate::error::ClientError;
use crate::membership::Membership;
use crate::operation::{Operation, Reduced, Run};
use crate::options::{JoinOptions, Observer};
use crate::reduction::Reduction;
use crate::regroup::Regroup;
use crate::request_stream::{Reply, RequestStream};
use crate::schedule::{self, Decision, Profile, ProfileNumber};
use crate::segment::Segment;
use crate::session::Session;
use crate::waits::Waits;
use crate::watchdog::Watchdog;

/// This process's part in a job. Threads share it by reference or by cheap clones. If the last clone
/// is dropped without [`close`](Self::close), this host leaves the job. The job continues without this host, or fails
/// if it is rigid.
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
    /// The stream to which all-reduces are added. A new stream replaces it after an all-reduce was
    /// refused.
    requests: Mutex<Arc<RequestStream>>,
    /// The task that holds the stream of events. If the stream ends, the agent concludes that this
    /// process has ended.
    sign_of_life: AbortHandle,
}

impl Drop for Inner {
    fn drop(&mut self) {
        self.sign_of_life.abort();
        self.requests.get_mut().close();
    }
}

impl Job {
    /// Creates the job, whose background tasks run in the present tokio runtime. Must be called in a
    /// tokio runtime.
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

    /// Returns this member's rank.
    pub fn rank(&self) -> u32 {
        self.0.rank
    }

    /// Returns the ranks of all members, ascending, as of the last ended all-reduce or of the start.
    pub fn ranks(&self) -> Vec<u32> {
        self.membership().ranks()
    }

    /// Returns the ranks that have left the job while this process was a member, with the reasons, as of
    /// the last ended all-reduce.
    pub fn lost(&self) -> BTreeMap<u32, String> {
        self.membership().lost()
    }

    /// Returns the ranks whose data the members process, ascending, as of the start or the last
    /// [`Regroup`].
    pub fn shards(&self) -> Vec<u32> {
        self.membership().shards()
    }

    /// Returns the generation of the job's structure. Generations count from 1. Each change of the
    /// members or of the tree begins the next generation.
    pub fn generation(&self) -> u32 {
        self.membership().generation()
    }

    /// Returns this host's name in the topology.
    pub fn host(&self) -> &str {
        &self.0.host
    }

    /// Returns the number of values in a slice.
    pub fn values_per_slice(&self) -> u32 {
        self.0.values_per_slice
    }

    /// Returns the number of switches that added the job's gradients when this host joined.
    pub fn switches(&self) -> u32 {
        self.0.switches
    }

    pub(crate) fn membership(&self) -> &Membership {
        &self.0.membership
    }

    /// Allocates memory that this process shares with the agent.
    ///
    /// # Errors
    /// [`ClientError::SharedMemory`] if there is not enough memory; [`ClientError::Refused`] if the agent refuses it.
    pub async fn segment(&self, bytes: usize) -> Result<Segment, ClientError> {
        self.segment_within(bytes, None).await
    }

    /// Allocates shared memory like [`segment`](Self::segment), with the deadline of an operation. If the
    /// agent is silent, the call fails after `deadline`.
    ///
    /// # Errors
    /// The errors of [`segment`](Self::segment), and [`ClientError::AgentSilent`] after the deadline.
    pub async fn segment_within(
        &self,
        bytes: usize,
        deadline: Option<Duration>,
    ) -> Result<Segment, ClientError> {
        let opening = self.0.session.open_segment(bytes);
        self.call("a request for shared memory", deadline, opening).await
    }

    /// Releases a segment, and returns when the agent has released it. Dropping a segment notifies the
    /// agent in the background.
    ///
    /// # Errors
    /// [`ClientError::Refused`] if the agent refuses the release.
    pub async fn release(&self, mut segment: Segment) -> Result<(), ClientError> {
        match segment.take_closer() {
            Some(closer) => self.call("the release of shared memory", None, closer.close()).await,
            None => Ok(()),
        }
    }

    /// Starts an all-reduce of elements of a segment, in place, after all earlier operations. Every
    /// member must start the same operations in the same order. The position in the order is fixed when `start`
    /// returns, for calls from all threads. The segment can be accessed again when the operation has ended.
    ///
    /// Any number of operations may be under way. The agent begins them in order, as far as it has memory for them. If
    /// the process has joined the job in a single-threaded runtime, requests are sent as soon as that thread awaits a
    /// future.
    ///
    /// If an operation is refused (for example, elements are outside the segment, or memory is lacking), all operations
    /// behind it end with [`ClientError::NotStarted`]. Operations that are started after this error was returned are
    /// requested as usual. If an operation ends with [`ClientError::Regroup`] or [`ClientError::Detached`], all
    /// operations behind it end in the same way.
    ///
    /// # Errors
    /// [`ClientError::SegmentInUse`] or [`ClientError::GivenUp`]. The [`Reduction`] returns all other errors.
    pub fn start(&self, segment: &mut Segment, operation: &Operation<'_>) -> Result<Reduction, ClientError> {
        self.start_for(segment, operation, 0)
    }

    /// Starts an operation like [`start`](Self::start). When it has ended, a thread of the runtime calls
    /// `ended` with the outcome. `ended` must not block.
    ///
    /// # Errors
    /// The errors of [`start`](Self::start).
    pub fn start_with(
        &self,
        segment: &mut Segment,
        operation: &Operation<'_>,
        ended: impl FnOnce(Result<Reduced, ClientError>) + Send + 'static,
    ) -> Result<(), ClientError> {
        self.request(segment, operation, 0, Reply(Box::new(ended)))
    }

    /// Starts an operation like [`start`](Self::start), which synchronises with the members that have
    /// joined in `regroup_generation`; 0 for an ordinary operation.
    pub(crate) fn start_for(
        &self,
        segment: &mut Segment,
        operation: &Operation<'_>,
        regroup_generation: u32,
    ) -> Result<Reduction, ClientError> {
        let (reply, answer) = oneshot::channel();
        // The answer is dropped if the caller no longer waits for it.
        let ended = |answer| drop(reply.send(answer));
        self.request(segment, operation, regroup_generation, Reply(Box::new(ended)))?;
        Ok(Reduction(answer))
    }

    fn request(
        &self,
        segment: &mut Segment,
        operation: &Operation<'_>,
        regroup_generation: u32,
        reply: Reply,
    ) -> Result<(), ClientError> {
        let Inner { session, watchdog, options, runtime, membership, requests, rank, host, .. } = &*self.0;
        let request = operation.request(&session.id, segment, options);
        let mut asked = (v1::AllReduceRequest { regroup_generation, ..request }, segment.lend()?, reply);
        let mut requests = requests.lock();
        loop {
            watchdog.waits().check()?;
            match requests.ask(asked) {
                Ok(()) => return Ok(()),
                Err(again) => asked = *again,
            }
            let (client, who) = (session.client.clone(), who(*rank, host));
            *requests = RequestStream::open(runtime, client, Arc::clone(membership), watchdog.waits(), who);
        }
    }

    /// Adds elements of a segment over all members, in place. [Starts](Self::start) the operation and
    /// waits for its end. Returns the members and weights that the sums contain.
    ///
    /// # Errors
    /// [`ClientError::Refused`] if the contributions have no sum, the job is over or continues without this host, or
    /// the deadline has passed. [`ClientError::Regroup`] after each change of the members or of their share of the
    /// data, until this process has synchronised. [`ClientError::Detached`] while the job continues without this
    /// process. [`ClientError::AgentSilent`] if the deadline has passed and the agent does not report it; the process
    /// has then left the job, and all further calls return [`ClientError::GivenUp`]. [`ClientError::SegmentInUse`] and
    /// [`ClientError::NotStarted`] as for [`start`](Self::start).
    ///
    /// If the future is dropped, the operation continues. The segment can be used when the operation has ended.
    pub async fn all_reduce(
        &self,
        segment: &mut Segment,
        operation: Operation<'_>,
    ) -> Result<Vec<Run>, ClientError> {
        Ok(self.start(segment, &operation)?.await?.runs)
    }

    /// Sends the profile of the times at which this process's gradients were ready, and waits until all
    /// members have sent a profile. All members get the same answer.
    ///
    /// # Errors
    /// [`ClientError::Refused`] if the members' models differ, if the deadline has passed (the message names the
    /// missing members), or if the job is over. [`ClientError::BadAnswer`] if this version cannot interpret the answer.
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

    /// Reports this process's collectives since the last call, with the transport that each used, for the
    /// agent's metrics.
    ///
    /// # Errors
    /// [`ClientError::Refused`] if there are more than 64 counts, or if a name is not printable ASCII of up to 64
    /// bytes.
    pub async fn count_collectives(&self, counts: Vec<v1::CollectiveCount>) -> Result<(), ClientError> {
        let Session { client, id } = &self.0.session;
        let request = v1::CountCollectivesRequest { session: id.clone(), counts };
        client.clone().count_collectives(request).await.map_err(ClientError::refused)?;
        Ok(())
    }

    /// Returns the name of the job of a group of this job's ranks, which the group's processes then
    /// [join](crate::Agent::join_with) with the token of this job. The first call of a group creates the job. It ends
    /// when its members have [finished](Self::finish), and with this job at the latest.
    ///
    /// `group` is an id that all processes of the group give, and no other group of this job: 1 to 64 bytes. `ranks` are
    /// the group's ranks in this job.
    ///
    /// # Errors
    /// [`ClientError::Refused`] if the ranks are not on several hosts of this job, if switches have no slots or the
    /// creator's quota is used up, or if the controller is unreachable.
    pub async fn open_group(&self, group: &str, ranks: Vec<u32>) -> Result<String, ClientError> {
        let Session { client, id } = &self.0.session;
        let request = v1::OpenGroupRequest { session: id.clone(), group: group.to_owned(), ranks };
        let mut client = client.clone();
        let opening = async { client.open_group(request).await.map_err(ClientError::refused) };
        Ok(self.call("the job of a group", None, opening).await?.into_inner().job)
    }

    /// Returns the agent's counters for the job.
    ///
    /// # Errors
    /// [`ClientError::Refused`] if the agent refuses the request.
    pub async fn stats(&self) -> Result<v1::StatsResponse, ClientError> {
        let Session { client, id } = &self.0.session;
        let (request, mut client) = (v1::StatsRequest { session: id.clone() }, client.clone());
        let asking = async { client.stats(request).await.map_err(ClientError::refused) };
        Ok(self.call("a request for the agent's counters", None, asking).await?.into_inner())
    }

    /// Ends this process's part. The host stays a member of the job, so that the other members can finish
    /// and another process of this host can continue. The job exists until it is ended at the controller.
    ///
    /// # Errors
    /// [`ClientError::Refused`] if all-reduces are under way, or if abandoned all-reduces have no result yet. In the
    /// latter case, the host leaves the job.
    pub async fn close(self) -> Result<(), ClientError> {
        self.close_job(false).await
    }

    /// Ends this process's part at the end of its training; the host leaves the job. The job ends when
    /// its last member has left, if at least one member has left by `finish`. Processes that were not in the job then
    /// get [`JobEnded`](ClientError::JobEnded).
    ///
    /// # Errors
    /// The errors of [`close`](Self::close).
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

    /// Waits for the answer to a call. If the call has no deadline, the deadline of the job's all-reduces
    /// limits the wait for a silent agent.
    async fn call<T>(
        &self,
        what: &str,
        deadline: Option<Duration>,
        call: impl Future<Output = Result<T, ClientError>>,
    ) -> Result<T, ClientError> {
        self.0.watchdog.waits().call(what, deadline.or(self.0.options.deadline), call).await
    }
}

/// Returns the name of this member in errors.
fn who(rank: u32, host: &str) -> String {
    format!("rank {rank} ({host})")
}

/// Passes the agent's reports of waits to the observer until the stream ends or the process abandons
/// the agent. The end itself is reported by the answers to requests.
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
