//! Action profiles: members, groups, and the actions of one-shot entries.

use std::collections::BTreeSet;

use super::ActionCall;

/// The port that must be up for a selector to choose a member.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Watch {
    /// The member may always be chosen.
    #[default]
    Nothing,
    /// The member is not chosen while this port is down.
    Port(u16),
    /// Like `Port`, but the controller gave the port in P4Runtime's older form.
    PortNumber(u16),
}

impl Watch {
    /// Returns the port, if there is one.
    pub fn port(self) -> Option<u16> {
        match self {
            Self::Nothing => None,
            Self::Port(port) | Self::PortNumber(port) => Some(port),
        }
    }

    /// Returns true if the port is up or there is none; `down` are the ports that are down.
    pub(crate) fn is_up(self, down: &BTreeSet<u16>) -> bool {
        self.port().is_none_or(|port| !down.contains(&port))
    }
}

/// One of the actions between which a selector chooses.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WeightedCall {
    /// The action.
    pub call: ActionCall,
    /// The weight of the action in the selector's choice.
    pub weight: u32,
    /// The port that must be up for the selector to choose the action.
    pub watch: Watch,
}

/// A member of an action profile or selector: an action that entries refer to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProfileMember {
    /// Id of the action profile.
    pub profile_id: u32,
    /// Id of the member in the profile.
    pub member_id: u32,
    /// The action of the member.
    pub action: ActionCall,
}

/// A group of an action selector.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProfileGroup {
    /// Id of the selector.
    pub profile_id: u32,
    /// Id of the group in the selector.
    pub group_id: u32,
    /// The members of the group.
    pub members: Vec<GroupMember>,
    /// The maximum sum of the members' weights; 0 for the selector's limit.
    pub max_size: u32,
}

/// A member of a group.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct GroupMember {
    /// The member's id.
    pub member_id: u32,
    /// The weight of the member in the selector's choice.
    pub weight: u32,
    /// The port that must be up for the selector to choose the member.
    pub watch: Watch,
}
