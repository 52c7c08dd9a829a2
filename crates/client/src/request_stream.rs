//! A stream of all-reduces to the agent, which are started one after another, and their answers.
//!
//! The order of the requests in a stream is the order of the operations. It is fixed under a lock, without waiting; a
//! task then sends the requests.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::runtime::Handle;
use tokio::sync::mpsc;
use tokio_stream::wrappers::UnboundedReceiverStream;
use tonic::transport::Channel;
use tonic::{Code, Status};
use tributary_api::agent::v1;
use tributary_api::agent::v1::agent_client::AgentClient;

use crate::error::{ClientError, all_reduce};
use crate::membership::Membership;
use crate::operation::{NotFinite, Reduced};
use crate::segment::Loan;
use crate::waits::{Place, Wait, Waits};

pub(crate) type Answer = Result<Reduced, ClientError>;

/// A function that gets the answer to an all-reduce.
pub(crate) struct Reply(pub(crate) Box<dyn FnOnce(Answer) + Send>);

impl fmt::Debug for Reply {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Reply")
    }
}

/// A stream of requests to the agent.
#[derive(Debug)]
pub(crate) struct RequestStream {
    state: Mutex<Requests>,
    /// The name of this member in errors.
    who: String,
    membership: Arc<Membership>,
    waits: Arc<Waits>,
}

/// The channel for further requests, and the requests without an answer.
#[derive(Debug)]
struct Requests {
    /// The channel to the task that sends the requests; `None` if the stream accepts no further requests.
    requests: Option<mpsc::UnboundedSender<v1::AllReduceRequest>>,
    asked: u64,
    under_way: BTreeMap<u64, PendingAllReduce>,
}

/// An all-reduce without an answer.
#[derive(Debug)]
struct PendingAllReduce {
    loan: Loan,
    wait: Wait,
    tensor: String,
    reply: Reply,
}

impl PendingAllReduce {
    /// Delivers the answer.
    fn end(self, answer: Answer) {
        drop((self.loan, self.wait));
        (self.reply.0)(answer);
    }

    /// Ends the wait without an answer, because the stream has broken or this process has abandoned the
    /// agent. The segment stays lent, because the agent may still write to it.
    fn lose(self, who: &str, broken: Option<&Status>) {
        let error = match broken {
            Some(status) => ClientError::lost(who, &self.tensor, status),
            None => self.wait.lost(|| all_reduce(who, &self.tensor)),
        };
        self.loan.keep();
        (self.reply.0)(Err(error));
    }
}

impl RequestStream {
    /// Opens a stream of requests to this agent.
    pub(crate) fn open(
        runtime: &Handle,
        client: AgentClient<Channel>,
        membership: Arc<Membership>,
        waits: &Arc<Waits>,
        who: String,
    ) -> Arc<Self> {
        let (sender, requests) = mpsc::unbounded_channel();
        let state = Requests { requests: Some(sender), asked: 0, under_way: BTreeMap::new() };
        let stream = Self { state: Mutex::new(state), who, membership, waits: Arc::clone(waits) };
        let stream = Arc::new(stream);
        runtime.spawn(Arc::clone(&stream).follow(client, requests));
        stream
    }

    /// Requests an all-reduce after all earlier requests. Returns the arguments if the stream accepts no
    /// more requests.
    pub(crate) fn ask(
        &self,
        (request, loan, reply): (v1::AllReduceRequest, Loan, Reply),
    ) -> Result<(), Box<(v1::AllReduceRequest, Loan, Reply)>> {
        let mut state = self.state.lock();
        let Some(requests) = &state.requests else { return Err((request, loan, reply).into()) };
        let (tensor, deadline) = (request.name.clone(), request.deadline_milliseconds);
        if let Err(mpsc::error::SendError(request)) = requests.send(request) {
            return Err((request, loan, reply).into());
        }
        let deadline = Some(deadline).filter(|deadline| *deadline > 0).map(Duration::from_millis);
        let wait = self.waits.begin(Place::InOrder, deadline.into());
        let number = state.asked;
        state.asked += 1;
        state.under_way.insert(number, PendingAllReduce { loan, wait, tensor, reply });
        Ok(())
    }

    /// Closes the stream for further requests.
    pub(crate) fn close(&self) {
        self.state.lock().requests = None;
    }

    async fn follow(
        self: Arc<Self>,
        client: AgentClient<Channel>,
        requests: mpsc::UnboundedReceiver<v1::AllReduceRequest>,
    ) {
        let broken = tokio::select! {
            broken = self.converse(client, requests) => Some(broken),
            () = self.waits.given_up() => None,
        };
        let lost = {
            let mut state = self.state.lock();
            state.requests = None;
            std::mem::take(&mut state.under_way)
        };
        for under_way in lost.into_values() {
            under_way.lose(&self.who, broken.as_ref());
        }
    }

    /// Sends the requests, and delivers the answers until the stream breaks. Returns the error that broke
    /// it.
    async fn converse(
        &self,
        mut client: AgentClient<Channel>,
        requests: mpsc::UnboundedReceiver<v1::AllReduceRequest>,
    ) -> Status {
        let mut answers = match client.all_reduce(UnboundedReceiverStream::new(requests)).await {
            Ok(answers) => answers.into_inner(),
            Err(status) => return status,
        };
        loop {
            match answers.message().await {
                Ok(Some(answer)) => self.answered(answer),
                Ok(None) => return Status::new(Code::Unavailable, "the agent has ended the all-reduces"),
                Err(status) => return status,
            }
        }
    }

    fn answered(&self, answer: v1::AllReduceResponse) {
        self.waits.heard();
        let number = answer.request;
        let not_started = answer.failure.as_ref().is_some_and(|failure| failure.not_started);
        let (own, behind) = {
            let mut state = self.state.lock();
            let own = state.under_way.remove(&number);
            let behind = match not_started {
                true => {
                    state.requests = None;
                    state.under_way.split_off(&number)
                }
                false => BTreeMap::new(),
            };
            (own, behind)
        };
        // The agent may also answer an all-reduce whose entry was removed because an earlier all-reduce was not
        // started.
        if let Some(own) = own {
            own.end(self.outcome(answer));
        }
        for behind in behind.into_values() {
            behind.end(Err(ClientError::NotStarted));
        }
    }

    fn outcome(&self, answer: v1::AllReduceResponse) -> Answer {
        let v1::AllReduceResponse {
            runs,
            regroup,
            generation,
            ranks,
            detached,
            failure,
            agent_nanoseconds,
            not_finite,
            lost,
            ..
        } = answer;
        if let Some(v1::Failure { code, message, job_ended, .. }) = failure {
            return Err(match job_ended {
                true => ClientError::JobEnded(message),
                false => ClientError::Refused { code: Code::from(code.cast_signed()), message },
            });
        }
        if let Some(detached) = detached {
            return Err(ClientError::Detached(detached.into()));
        }
        let lost = lost.into_iter().map(|v1::Lost { rank, reason }| (rank, reason)).collect();
        self.membership.update(generation, ranks, lost);
        if let Some(regroup) = regroup {
            return Err(ClientError::Regroup(self.membership.regroup(regroup.into())));
        }
        let runs = runs.into_iter().map(Into::into).collect();
        let not_finite = not_finite.map(|v1::NotFinite { element, rank, processes }| NotFinite {
            element,
            rank,
            processes: processes.max(1),
        });
        Ok(Reduced { runs, not_finite, in_agent: Duration::from_nanos(agent_nanoseconds) })
    }
}
