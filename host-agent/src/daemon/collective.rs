//! Conversions of broadcasts and reduce-scatters to the protocol's operations.

use std::sync::Arc;

use tonic::Status;
use tributary_protocol::{Broadcast, Collective, JointAllReduce, OwnedPart};

use super::gathering::Root;
use super::results::copy;
use super::segment::{ElementRange, Segment};
use super::segments;
use crate::worker::StepPart;

/// Returns the host's part in a broadcast.
/// If its root runs on this host, `segment` must have its elements.
pub(super) async fn broadcast(
    name: String,
    root: Root,
    segment: Arc<Segment>,
    (place, vector): (ElementRange, Vec<u32>),
) -> Result<JointAllReduce, Status> {
    let words = move || segment.words(place, vector, root.is_here);
    let words = copy(place, words).await.map_err(segments::unusable)?;
    Ok(Broadcast { name, words, root: root.worker, process: root.process }.into())
}

/// Returns the collective of an operation with these parts.
pub(super) fn collective_of(parts: Vec<OwnedPart>) -> Collective {
    if parts.is_empty() { Collective::AllReduce } else { Collective::ReduceScatter(parts) }
}

/// Returns the part of an operation in the training. A broadcast belongs to no step.
pub(super) fn step_part(root: Option<Root>, samples: u32, goes_on: bool, regroup: u32) -> StepPart {
    if root.is_some() { StepPart::Other } else { StepPart::of(samples, goes_on, regroup) }
}
