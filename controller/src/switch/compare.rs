//! Compares the state of a switch with its desired state.

use tokio::sync::oneshot;
use tokio::time::Instant;
use tributary_p4runtime::Session;

use super::connect::Connector;
use super::operations;
use crate::error::SwitchError;

/// The maximum number of differences that are listed.
const TOLD: usize = 10;

/// The differences between a switch's state and its desired state.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Comparison {
    /// True if the switch runs another program. The other fields are then empty.
    pub(crate) other_program: bool,
    /// The first changes that would bring the switch into its desired state, as text for users.
    pub(crate) differences: Vec<String>,
    /// The total number of necessary changes.
    pub(crate) count: usize,
}

/// An order to compare a switch with its desired state.
pub(super) struct Compare {
    /// The time at which the caller stops waiting.
    pub(super) deadline: Instant,
    pub(super) reply: oneshot::Sender<Result<Comparison, SwitchError>>,
}

impl Compare {
    /// Returns true if the caller still waits for the outcome.
    pub(super) fn is_wanted(&self) -> bool {
        !self.reply.is_closed() && self.deadline > Instant::now()
    }
}

/// Compares a switch with the desired state that was last written to it.
/// Returns `None` if the desired state changes during the comparison.
pub(super) async fn compare(
    session: &Session,
    connector: &Connector,
    deadline: Instant,
) -> Result<Option<Comparison>, SwitchError> {
    let patience = deadline.saturating_duration_since(Instant::now());
    if !operations::in_time(session, patience, connector.check_program(session)).await? {
        return Ok(Some(Comparison { other_program: true, ..Comparison::default() }));
    }
    let want = connector.desired.borrow().clone();
    let differences = operations::differences(session, &connector.pipeline, &want.state);
    let batches = operations::in_time(session, patience, differences).await?;
    // An error means that the controller is stopping, which is treated as unchanged.
    if connector.desired.has_changed().unwrap_or(false) {
        return Ok(None);
    }
    let changes: Vec<_> = batches.iter().flatten().collect();
    Ok(Some(Comparison {
        other_program: false,
        differences: changes.iter().take(TOLD).map(ToString::to_string).collect(),
        count: changes.len(),
    }))
}
