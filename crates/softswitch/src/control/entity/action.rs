//! Actions with their arguments.

/// An action with its arguments.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ActionCall {
    /// Id of the action.
    pub action_id: u32,
    /// Parameter ids (1, 2, ...) and values; all of the action's, in any order when written.
    pub params: Vec<(u32, Vec<u8>)>,
}
