//! Actions with their arguments.

/// An action with its arguments.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ActionCall {
    /// Id of the action.
    pub action_id: u32,
    /// Ids (1, 2, ...) and values of all parameters of the action. Writers may give them in any
    /// order.
    pub params: Vec<(u32, Vec<u8>)>,
}
