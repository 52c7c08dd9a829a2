//! The program that a switch runs.

use super::{Session, SessionError, to_wire};
use crate::google::rpc::Code;
use crate::p4::v1::forwarding_pipeline_config::Cookie;
use crate::p4::v1::get_forwarding_pipeline_config_request::ResponseType;
use crate::p4::v1::set_forwarding_pipeline_config_request::Action;
use crate::p4::v1::{self as message, ForwardingPipelineConfig};
use crate::p4info::P4Info;

impl Session {
    /// Makes the switch run this program, with empty tables. `device_config` is p4c's JSON for BMv2 and for the
    /// embedded switch; the cookie comes back from [`Session::pipeline_cookie`].
    pub async fn set_pipeline(
        &self,
        device_config: &[u8],
        p4info: &P4Info,
        cookie: u64,
    ) -> Result<(), SessionError> {
        self.configure(Action::VerifyAndCommit, Some(config(device_config, p4info, cookie))).await
    }

    /// Makes the switch run this program and keep the entries it has, where it can.
    pub async fn replace_pipeline(
        &self,
        device_config: &[u8],
        p4info: &P4Info,
        cookie: u64,
    ) -> Result<(), SessionError> {
        self.configure(Action::ReconcileAndCommit, Some(config(device_config, p4info, cookie))).await
    }

    /// Asks whether the switch could run this program.
    pub async fn verify_pipeline(&self, device_config: &[u8], p4info: &P4Info) -> Result<(), SessionError> {
        self.configure(Action::Verify, Some(config(device_config, p4info, 0))).await
    }

    /// Any other form of SetForwardingPipelineConfig.
    pub async fn configure(
        &self,
        action: Action,
        config: Option<ForwardingPipelineConfig>,
    ) -> Result<(), SessionError> {
        let request = message::SetForwardingPipelineConfigRequest {
            device_id: self.target.device_id,
            election_id: Some(to_wire(self.election_id)),
            action: action.into(),
            config,
            ..Default::default()
        };
        let mut client = self.client.clone();
        self.success("the pipeline", client.set_forwarding_pipeline_config(request)).await.map(drop)
    }

    /// What the switch runs; `None` while it runs nothing.
    pub async fn pipeline(&self) -> Result<Option<ForwardingPipelineConfig>, SessionError> {
        self.fetch_pipeline(ResponseType::All).await
    }

    /// The cookie of what the switch runs; `None` while it runs nothing, or nothing with a cookie.
    pub async fn pipeline_cookie(&self) -> Result<Option<u64>, SessionError> {
        let config = self.fetch_pipeline(ResponseType::CookieOnly).await?;
        Ok(config.and_then(|config| config.cookie).map(|cookie| cookie.cookie))
    }

    /// A part of what the switch runs.
    pub async fn fetch_pipeline(
        &self,
        part: ResponseType,
    ) -> Result<Option<ForwardingPipelineConfig>, SessionError> {
        let request = message::GetForwardingPipelineConfigRequest {
            device_id: self.target.device_id,
            response_type: part.into(),
        };
        let mut client = self.client.clone();
        match self.success("to say what it runs", client.get_forwarding_pipeline_config(request)).await {
            Ok(response) => Ok(response.into_inner().config),
            Err(SessionError::Refused { code: Code::FailedPrecondition, .. }) => Ok(None),
            Err(error) => Err(error),
        }
    }
}

fn config(device_config: &[u8], p4info: &P4Info, cookie: u64) -> ForwardingPipelineConfig {
    ForwardingPipelineConfig {
        p4info: Some(p4info.message().clone()),
        p4_device_config: device_config.to_vec(),
        cookie: Some(Cookie { cookie }),
    }
}
