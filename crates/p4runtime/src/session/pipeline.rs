//! The program that a switch runs.

use super::{Session, SessionError, to_wire};
use crate::entry::LAST_GROUP;
use crate::google::rpc::Code;
use crate::p4::v1::entity::Entity as Kind;
use crate::p4::v1::forwarding_pipeline_config::Cookie;
use crate::p4::v1::get_forwarding_pipeline_config_request::ResponseType;
use crate::p4::v1::packet_replication_engine_entry::Type as Replication;
use crate::p4::v1::set_forwarding_pipeline_config_request::Action;
use crate::p4::v1::{self as message, Entity, ForwardingPipelineConfig, Update, update};
use crate::p4info::P4Info;

/// The result of comparing the switch's program with another program.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Running {
    /// The switch runs no program.
    Nothing,
    /// The switch runs the program. All bytes were compared, because a controller can give another
    /// program the same cookie.
    Same,
    /// The switch runs another program.
    Other,
}

impl Session {
    /// Loads this program, with empty tables and no multicast groups.
    /// `device_config` is p4c's JSON for BMv2 and for the embedded switch; [`Session::running`]
    /// compares it and the cookie.
    pub async fn set_pipeline(
        &self,
        device_config: &[u8],
        p4info: &P4Info,
        cookie: u64,
    ) -> Result<(), SessionError> {
        self.withdraw_groups().await?;
        let config = config(device_config, p4info, cookie);
        match self.configure(Action::VerifyAndCommit, Some(config.clone())).await {
            // BMv2 may have installed a program only partly. Then it refuses every other program
            // until the controller commits that one.
            Err(error) if error.code() == Some(Code::Unknown) => {
                self.configure(Action::Commit, None).await.map_err(|_| error)?;
                self.configure(Action::VerifyAndCommit, Some(config)).await
            }
            outcome => outcome,
        }
    }

    /// Deletes all multicast groups.
    /// Otherwise BMv2 would replicate to the ports of the old groups under a new program, while it
    /// reports no groups.
    async fn withdraw_groups(&self) -> Result<(), SessionError> {
        let groups = match self.read(vec![every_group()]).await {
            Ok(groups) => groups,
            // The switch runs no program, or has no groups.
            Err(SessionError::Refused { .. }) => return Ok(()),
            Err(error) => return Err(error),
        };
        let delete = |group| Update { r#type: update::Type::Delete.into(), entity: Some(group) };
        self.write(groups.into_iter().filter(is_group).map(delete).collect()).await
    }

    /// Sends SetForwardingPipelineConfig with any action.
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

    /// Returns the switch's program; `None` if it runs none.
    pub async fn pipeline(&self) -> Result<Option<ForwardingPipelineConfig>, SessionError> {
        self.fetch_pipeline(ResponseType::All).await
    }

    /// Compares the switch's program and cookie with this program and cookie.
    pub async fn running(&self, device_config: &[u8], cookie: u64) -> Result<Running, SessionError> {
        let Some(config) = self.fetch_pipeline(ResponseType::DeviceConfigAndCookie).await? else {
            return Ok(Running::Nothing);
        };
        // Some targets do not store the program that they received.
        let is_same = config.p4_device_config.is_empty() || config.p4_device_config == device_config;
        let has_cookie = config.cookie.is_some_and(|its| its.cookie == cookie);
        Ok(if is_same && has_cookie { Running::Same } else { Running::Other })
    }

    /// Returns a part of the switch's program and its description.
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

fn every_group() -> Entity {
    let pattern = Replication::MulticastGroupEntry(message::MulticastGroupEntry::default());
    let entry = message::PacketReplicationEngineEntry { r#type: Some(pattern) };
    Entity { entity: Some(Kind::PacketReplicationEngineEntry(entry)) }
}

/// Returns true if the entity is a controller's group, and not one of the switch's own clone
/// sessions.
fn is_group(entity: &Entity) -> bool {
    let Some(Kind::PacketReplicationEngineEntry(entry)) = &entity.entity else { return false };
    matches!(&entry.r#type, Some(Replication::MulticastGroupEntry(group)) if group.multicast_group_id <= LAST_GROUP)
}

fn config(device_config: &[u8], p4info: &P4Info, cookie: u64) -> ForwardingPipelineConfig {
    ForwardingPipelineConfig {
        p4info: Some(p4info.message().clone()),
        p4_device_config: device_config.to_vec(),
        cookie: Some(Cookie { cookie }),
    }
}
