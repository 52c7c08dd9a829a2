use std::path::{Path, PathBuf};
use std::time::Duration;

use tonic::transport::{Channel, Endpoint};
use tributary_api::agent::v1;
use tributary_api::agent::v1::agent_client::AgentClient;
use tributary_api::agent::v1::job_event::Event;
use tributary_api::agent::v1::training_event::Event as TrainingEvent;

use crate::error::ClientError;
use crate::job::Job;
use crate::options::JoinOptions;
use crate::session::Session;
use crate::training::{Training, TrainingOptions};
use crate::waits::{Limit, Place};
use crate::watchdog::Watchdog;

/// A connection to the agent of this host.
#[derive(Debug, Clone)]
pub struct Agent {
    client: AgentClient<Channel>,
    socket: PathBuf,
}

impl Agent {
    /// Connects to the agent that listens on a Unix socket.
    ///
    /// # Errors
    /// [`ClientError::NoAgent`] if the connection fails.
    pub async fn connect(socket: impl AsRef<Path>) -> Result<Self, ClientError> {
        let socket = socket.as_ref();
        let no_agent = |reason: String| ClientError::NoAgent { socket: socket.into(), reason };
        let name = socket.to_str().ok_or_else(|| no_agent("its name is not UTF-8".into()))?;
        let endpoint =
            Endpoint::from_shared(format!("unix://{name}")).map_err(|error| no_agent(error.to_string()))?;
        let channel = endpoint.connect().await.map_err(|error| no_agent(cause(&error)))?;
        Ok(Self { client: AgentClient::new(channel), socket: socket.into() })
    }

    /// Joins a job, and waits until all of its members have joined. Also waits for an agent that does not
    /// answer.
    ///
    /// # Errors
    /// [`ClientError::Refused`] with the agent's or the controller's reason; [`ClientError::JobFailed`] or
    /// [`ClientError::JobEnded`] if the job is over.
    pub async fn join(&self, job: &str, token: Vec<u8>) -> Result<Job, ClientError> {
        self.join_with(job, token, JoinOptions::default()).await
    }

    /// Joins a job like [`join`](Self::join), with `options`. An elastic process may also join a running
    /// job, even a job that has continued without it.
    ///
    /// # Errors
    /// The errors of [`join`](Self::join).
    pub async fn join_with(
        &self,
        job: &str,
        token: Vec<u8>,
        options: JoinOptions,
    ) -> Result<Job, ClientError> {
        let JoinOptions { elastic, new_run, process: (process, processes), .. } = options;
        let mut client = self.client.clone();
        let watchdog = Watchdog::keep(client.clone(), self.socket.clone(), options.observer.clone());
        // The call has no deadline, because the members of a job may join at very different times.
        let wait = watchdog.waits().begin(Place::Alone, Limit::Never);
        let request = v1::OpenJobRequest { job: job.into(), token, elastic, new_run, process, processes };
        let mut events = client.open_job(request).await.map_err(ClientError::refused)?.into_inner();
        loop {
            let event = events.message().await.map_err(ClientError::refused)?;
            watchdog.waits().heard();
            match event.and_then(|event| event.event) {
                Some(Event::Started(started)) => {
                    drop(wait);
                    return Job::new(client, watchdog, events, options, started);
                }
                Some(Event::Waiting(waiting)) => options.observer.tell(waiting),
                Some(Event::Failed(failed)) => return Err(ClientError::JobFailed(failed.reason)),
                Some(Event::Ended(_)) => return Err(ClientError::JobEnded(format!("job {job:?} has ended"))),
                None => return Err(ClientError::BadAnswer("it did not say that the job has started")),
            }
        }
    }

    /// Opens this process's part in a training with parameter servers. It joins as a worker in
    /// [`Training::begin`]. Must be called in a tokio runtime.
    ///
    /// # Errors
    /// [`ClientError::Refused`] if the options are invalid; [`ClientError::AgentSilent`] if the agent does not answer.
    pub async fn train(&self, options: TrainingOptions) -> Result<Training, ClientError> {
        let mut client = self.client.clone();
        let TrainingOptions {
            servers,
            job,
            token,
            worker,
            workers,
            settings,
            codec,
            parameters_codec,
            patience,
            observer,
        } = options;
        let request = v1::OpenTrainingRequest {
            job,
            token,
            worker: worker.into(),
            servers,
            codec,
            parameters_codec,
            patience_milliseconds: patience.map_or(0, milliseconds),
            workers: workers.map_or(0, |workers| workers.get().into()),
            settings,
        };
        let watchdog = Watchdog::keep(client.clone(), self.socket.clone(), observer.clone());
        let limit = patience.map_or(Limit::Never, Limit::Silence);
        let opening = async {
            let mut events = client.open_training(request).await.map_err(ClientError::refused)?.into_inner();
            let event = events.message().await.map_err(ClientError::refused)?;
            Ok((event.and_then(|event| event.event), events))
        };
        match watchdog.waits().call("a request to take part in a training", limit, opening).await? {
            (Some(TrainingEvent::Opened(v1::TrainingOpened { session, host })), events) => {
                let session = Session { client, id: session };
                Ok(Training::new(session, watchdog, limit, events, observer, host))
            }
            _ => Err(ClientError::BadAnswer("it did not say that the training is open")),
        }
    }
}

/// Returns the milliseconds for the request. They are at least 1, because 0 means the agent's default
/// patience.
fn milliseconds(patience: Duration) -> u64 {
    u64::try_from(patience.as_millis()).unwrap_or(u64::MAX).max(1)
}

/// Returns the innermost cause of an error, because tonic's own text is only "transport error".
fn cause(error: &dyn std::error::Error) -> String {
    let mut cause = error;
    while let Some(deeper) = cause.source() {
        cause = deeper;
    }
    cause.to_string()
}
