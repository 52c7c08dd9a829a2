//! A host's side of the controller's API.

use tonic::Streaming;
use tonic::transport::Channel;
use tributary_api::v1;
use tributary_api::v1::controller_client::ControllerClient;
use tributary_api::{ConfigError, JobConfig};
use tributary_transport::Remote;

use crate::error::JoinError;

/// Who wants to take part in what.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct JobMember {
    /// The job's name.
    pub job: String,
    /// The job's token, as its creator got it.
    pub token: Vec<u8>,
    /// This host, as the topology names it.
    pub host: String,
}

/// What a member is told about its job.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum JobEvent {
    /// Everyone has joined and the fabric is ready: start an agent with this.
    Start(Box<JobConfig>),
    /// The job is over before its end.
    Failed {
        /// Why, with the name of the host or switch at fault.
        reason: String,
    },
    /// The job is over.
    Ended,
}

/// A host's membership in a job. It lasts as long as this value: when it is dropped before the job is over,
/// the controller lets the job fail.
#[derive(Debug)]
pub struct Membership {
    speaker: Speaker,
    events: Streaming<v1::JobEvent>,
}

impl Membership {
    /// Joins a job at the controller.
    ///
    /// # Errors
    /// [`JoinError::Connect`], or [`JoinError::Refused`] with the controller's reason.
    pub async fn join(controller: &Remote, member: JobMember) -> Result<Self, JoinError> {
        let mut client = ControllerClient::new(controller.connect().await?);
        let request = v1::JoinRequest {
            job: member.job.clone(),
            token: member.token.clone(),
            host: member.host.clone(),
            role: v1::MemberRole::Unspecified.into(),
            elastic: false,
            resume_generation: 0,
        };
        let events =
            client.join(request).await.map_err(JoinError::refused("let this host join"))?.into_inner();
        Ok(Self { speaker: Speaker { client, member }, events })
    }

    /// The job's name.
    pub fn job(&self) -> &str {
        &self.speaker.member.job
    }

    /// Waits for the next event. After [`JobEvent::Failed`] and [`JobEvent::Ended`] none comes.
    ///
    /// # Errors
    /// [`JoinError::BadConfig`] for a start that makes no sense, [`JoinError::Closed`] and
    /// [`JoinError::Refused`] when the controller or the connection to it has gone away.
    pub async fn next_event(&mut self) -> Result<JobEvent, JoinError> {
        let message = self.events.message().await.map_err(JoinError::refused("go on with the job"))?;
        let event = message.ok_or(JoinError::Closed)?.event.ok_or(JoinError::UnknownEvent)?;
        event.try_into().map_err(JoinError::BadConfig)
    }

    /// Whom to speak through while someone else waits for events.
    pub fn speaker(&self) -> Speaker {
        self.speaker.clone()
    }

    /// Leaves the job, which fails for that.
    ///
    /// # Errors
    /// [`JoinError::Refused`].
    pub async fn leave(self, reason: &str) -> Result<(), JoinError> {
        let Speaker { mut client, member: JobMember { job, token, host } } = self.speaker;
        let request = v1::LeaveRequest { job, token, host, reason: reason.into() };
        client.leave(request).await.map_err(JoinError::refused("let this host leave"))?;
        Ok(())
    }
}

/// A member's voice at the controller.
#[derive(Debug, Clone)]
pub struct Speaker {
    client: ControllerClient<Channel>,
    member: JobMember,
}

impl Speaker {
    /// Tells the controller that something must not be believed; the job fails for that.
    ///
    /// # Errors
    /// [`JoinError::Refused`].
    pub async fn report_fault(&mut self, description: &str) -> Result<(), JoinError> {
        let JobMember { job, token, host } = self.member.clone();
        let request = v1::ReportFaultRequest { job, token, host, description: description.into() };
        self.client.report_fault(request).await.map_err(JoinError::refused("take a report"))?;
        Ok(())
    }
}

impl TryFrom<v1::job_event::Event> for JobEvent {
    type Error = ConfigError;

    fn try_from(event: v1::job_event::Event) -> Result<Self, ConfigError> {
        Ok(match event {
            v1::job_event::Event::Start(config) => Self::Start(Box::new(config.try_into()?)),
            v1::job_event::Event::Failed(failed) => Self::Failed { reason: failed.reason },
            v1::job_event::Event::Ended(v1::JobEnded {}) => Self::Ended,
        })
    }
}
