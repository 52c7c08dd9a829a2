//! Handles the messages of the server.

use std::num::NonZeroU32;
use std::sync::Arc;

use tonic::{Code, Status};
use tributary_api::ps::server_message::Message as Told;
use tributary_api::ps::worker_message::Message;
use tributary_api::ps::{Contribute, FabricFailed, Step as StepMessage, Urge};

use super::Outgoing;
use super::ServerTask;
use crate::client::host_fabric::Contribution;
use crate::client::session::{Heard, Trouble};
use crate::client::{ClientError, Step, Waiting};
use crate::policy::Worker;
use crate::values;

impl ServerTask {
    /// Handles an event of the session; returns the step, if the server has sent one.
    pub(super) async fn handle(&mut self, heard: Heard) -> Result<Option<Step>, Trouble> {
        let told = match heard {
            Heard::Told(told) => told.map_err(|status| self.judge(status))?,
            Heard::Failure(group, reason) => {
                self.fabric_failed(group, reason).await;
                return Ok(None);
            }
            Heard::Released => {
                self.send(Message::Urge(Urge {})).await;
                return Ok(None);
            }
        };
        let told = told.ok_or_else(|| Trouble::Passing("the server has ended the session".to_owned()))?;
        match told.message {
            Some(Told::Step(step)) => return self.accept(&step).map(Some),
            Some(Told::JoinGroup(join)) => {
                let group = join.group;
                if let Err(reason) = self.groups.join(join) {
                    self.fabric_failed(group, reason.to_owned()).await;
                }
            }
            Some(Told::Contribute(contribute)) => self.contribute(&contribute).await,
            Some(Told::PushPlain(plain)) => {
                // Without a whole gradient of this iteration there is nothing to push. Pieces that were
                // pushed in this session are at the server already.
                let whole = self.outgoing.as_ref().filter(|outgoing| outgoing.gradient().is_some());
                if whole.is_some_and(|outgoing| outgoing.iteration == plain.iteration) {
                    self.push().await?;
                }
            }
            Some(Told::LeaveGroup(leave)) => self.groups.leave(leave.group),
            Some(Told::Waiting(waiting)) => self.tell(Waiting::told(&self.server(), &waiting)),
            None => tracing::debug!(server = self.server(), "a message that this version does not know"),
        }
        Ok(None)
    }

    async fn contribute(&mut self, contribute: &Contribute) {
        let Contribute { group, round, weight } = *contribute;
        let gradient = self.outgoing.as_ref().and_then(Outgoing::gradient);
        let contribution = match (NonZeroU32::new(weight), gradient) {
            (None, _) => Contribution::Zeros,
            (Some(weight), Some(gradient)) => Contribution::Gradient { values: Arc::clone(gradient), weight },
            (Some(_), None) => {
                self.groups.leave(group);
                return self
                    .fabric_failed(group, "a gradient was asked for where none waits".to_owned())
                    .await;
            }
        };
        if let Err(reason) = self.groups.contribute(group, round, contribution) {
            self.fabric_failed(group, reason.to_owned()).await;
        }
    }

    /// Notifies the server that the group must continue without this host's fabric.
    async fn fabric_failed(&mut self, group: u64, reason: String) {
        tracing::warn!(server = self.server(), group, reason, "this host goes on without the fabric");
        self.send(Message::FabricFailed(FabricFailed { group, reason })).await;
    }

    fn accept(&mut self, step: &StepMessage) -> Result<Step, Trouble> {
        self.agreement.note(&self.server(), step.job_settings).map_err(Trouble::Lasting)?;
        let parameters = self.parameters(step)?;
        if step.iteration < self.iteration {
            // The server has restarted from its checkpoint. The residuals belong to updates that the server
            // has lost, and these iterations are computed again.
            self.encoder.forget();
        }
        (self.iteration, self.updates, self.group) = (step.iteration, step.updates, step.group);
        if let Some(session) = &mut self.session {
            session.good = true;
        }
        let released_by = Worker::try_from(step.released_by).unwrap_or(Worker::MAX);
        let StepMessage { iteration, updates, in_group, .. } = *step;
        Ok(Step { iteration, updates, parameters, released_by, in_group })
    }

    fn parameters(&mut self, step: &StepMessage) -> Result<Vec<f32>, Trouble> {
        let (server, expected) = (self.server(), self.length);
        let Some(session) = &mut self.session else {
            return Err(Trouble::Passing("the session has ended".to_owned()));
        };
        if !step.change.is_empty() {
            let known = session.known.change(&step.change).map(<[f32]>::to_vec);
            return known.map_err(|error| Trouble::Lasting(ClientError::Decode { server, error }));
        }
        let parameters = values::decode(&step.parameters).filter(|values| values.len() == expected);
        let Some(parameters) = parameters else {
            let got = step.parameters.len() / size_of::<f32>();
            return Err(Trouble::Lasting(ClientError::Step { server, expected, got }));
        };
        // Without a codec the known parameters are never needed.
        if self.hello.parameters_codec.is_empty() {
            return Ok(parameters);
        }
        Ok(session.known.set(parameters).to_vec())
    }

    /// Decides whether a status concerns this worker or the connection to the server.
    pub(super) fn judge(&self, status: Status) -> Trouble {
        match status.code() {
            Code::InvalidArgument
            | Code::PermissionDenied
            | Code::Unauthenticated
            | Code::FailedPrecondition
            | Code::OutOfRange
            | Code::ResourceExhausted
            | Code::Aborted
            | Code::Unimplemented => Trouble::Lasting(ClientError::Refused { server: self.server(), status }),
            _ => Trouble::Passing(status.message().to_owned()),
        }
    }
}
