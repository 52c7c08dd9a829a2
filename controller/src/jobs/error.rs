use std::num::NonZeroU16;

use thiserror::Error;

/// Reasons why the controller refuses a call for a job.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub(crate) enum JobError {
    /// No listed job has that name. Names from before the controller's start count only if the job is in
    /// the journal.
    #[error("there is no job {0:?}: create it first, or correct the name")]
    NoSuchJob(String),
    /// The token does not belong to the job.
    #[error(
        "wrong token for job {0:?}: give the file that `tributary jobs create` wrote when it created this job"
    )]
    WrongToken(String),
    /// The call has no token.
    #[error(
        "no token was given for job {0:?}: give the file that `tributary jobs create` wrote, by --token-file; without one, \
         only an operator's certificate ends a job"
    )]
    NoToken(String),
    /// The host is not a member of the job.
    #[error("host {host:?} is not a member of job {job:?}; its members are {members}")]
    NotAMember {
        /// The job.
        job: String,
        /// The host.
        host: String,
        /// The hosts that are members.
        members: String,
    },
    /// Another process has already joined the job for the host.
    #[error("host {host:?} has joined job {job:?} already")]
    AlreadyJoined {
        /// The job.
        job: String,
        /// The host.
        host: String,
    },
    /// The job is over.
    #[error("job {job:?} is over: it {how}; create a job for another run")]
    Over {
        /// The job.
        job: String,
        /// Text that says that the job ended, or why it failed.
        how: String,
    },
    /// A job with that name exists and is not over.
    #[error("job {0:?} exists and is not over: end it first, or use another name")]
    AlreadyExists(String),
    /// The job is running and does not admit the host.
    #[error(
        "job {job:?} is running and takes host {host:?} in no more: a job does that only where all of its processes \
         joined as elastic ones, and where it is not rigid"
    )]
    Closed {
        /// The job.
        job: String,
        /// The host.
        host: String,
    },
    /// The host's number of training processes is not the number that the job's creator set.
    #[error(
        "job {job:?} has {expected} ranks on each host, and host {host:?} came with {brought}: start {expected} processes \
         there, or create the job with another --ranks-per-host"
    )]
    OtherThanCreated {
        /// The job.
        job: String,
        /// The host.
        host: String,
        /// The number that the creator set.
        expected: NonZeroU16,
        /// The host's number.
        brought: NonZeroU16,
    },
    /// The host's number of training processes is not the number with which the job started.
    #[error(
        "job {job:?} started with {expected} ranks on host {host:?}, and the host came back with {brought}: start \
         {expected} processes there, or start all processes of the job again for a new run"
    )]
    OtherThanStarted {
        /// The job.
        job: String,
        /// The host.
        host: String,
        /// The number with which the job started.
        expected: NonZeroU16,
        /// The host's number.
        brought: NonZeroU16,
    },
    /// The member answers a change of generation that is no longer in progress.
    #[error("job {0:?} does not change over at the moment: the change that asked is off")]
    NotAsked(String),
}
