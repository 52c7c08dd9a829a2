//! Operations on a switch over a session: reading and writing its state and its counters.

use std::collections::BTreeSet;
use std::time::Duration;

use tributary_p4runtime::entry::{CounterCell, Entity, EntryError, Query};
use tributary_p4runtime::p4::v1;
use tributary_p4runtime::session::UpdateFailure;
use tributary_p4runtime::{Session, SessionError};
use tributary_wire::JobId;

use crate::error::{RefusedChange, SwitchError};
use crate::pipeline::{CounterArray, Pipeline};
use crate::switch_diff::{self, Change, Operation};
use crate::switch_state::SwitchState;
use crate::tables::Key;

/// Reads the switch's state.
async fn read_state(session: &Session, pipeline: &Pipeline) -> Result<SwitchState, SwitchError> {
    let mut state = SwitchState::default();
    for entity in read(session, pipeline, &SwitchState::queries()).await? {
        state.put_read(entity);
    }
    Ok(state)
}

/// Reads the switch's state, and returns the changes that turn it into `want`, in batches.
pub(super) async fn differences(
    session: &Session,
    pipeline: &Pipeline,
    want: &SwitchState,
) -> Result<Vec<Vec<Change>>, SwitchError> {
    Ok(switch_diff::diff(&read_state(session, pipeline).await?, want))
}

/// Returns the number of jobs that have tables on the switch but not in `want`.
pub(super) async fn jobs_to_withdraw(
    session: &Session,
    pipeline: &Pipeline,
    want: &SwitchState,
) -> Result<usize, SwitchError> {
    let have = read_state(session, pipeline).await?;
    let job = |key: &Key| match key {
        Key::Admission(key) => Some(key.job),
        _ => None,
    };
    let unwanted = have.entries.keys().filter(|key| !want.entries.contains_key(key));
    let jobs: BTreeSet<JobId> = unwanted.filter_map(job).collect();
    Ok(jobs.len())
}

/// Brings the switch into the state `want`: reads its state, and writes the difference.
pub(super) async fn converge(
    session: &Session,
    pipeline: &Pipeline,
    want: &SwitchState,
) -> Result<(), SwitchError> {
    for batch in differences(session, pipeline, want).await? {
        tracing::debug!(switch = session.target().name, changes = batch.len(), first = %batch[0], "writing");
        write(session, pipeline, &batch).await?;
    }
    Ok(())
}

/// Reads the entities that match `queries`.
/// Entities for which the P4Info has no name are left out, because the controller must not change them. For example,
/// BMv2 reports its own clone sessions among the multicast groups.
async fn read(session: &Session, pipeline: &Pipeline, queries: &[Query]) -> Result<Vec<Entity>, SwitchError> {
    let switch = &session.target().name;
    let query = |query: &Query| {
        query
            .to_proto(&pipeline.info)
            .map_err(|reason| entry_error(session, format!("read {query:?}"), reason))
    };
    let patterns = queries.iter().map(query).collect::<Result<_, _>>()?;
    let known = |message: &v1::Entity| {
        let entity = Entity::from_proto(&pipeline.info, message);
        entity.inspect_err(|error| tracing::debug!(switch, %error, "not ours")).ok()
    };
    Ok(session.read(patterns).await?.iter().filter_map(known).collect())
}

async fn write(session: &Session, pipeline: &Pipeline, changes: &[Change]) -> Result<(), SwitchError> {
    let update = |change: &Change| {
        let update = change.to_update(&pipeline.info);
        update.map_err(|reason| entry_error(session, change.to_string(), reason))
    };
    let updates = changes.iter().map(update).collect::<Result<_, _>>()?;
    match session.write(updates).await {
        Err(SessionError::Write { switch, failures, .. }) => {
            let refusal = |failure: &UpdateFailure| RefusedChange {
                change: changes.get(failure.index).map(ToString::to_string).unwrap_or_default(),
                reason: format!("{}: {}", failure.code.as_str_name(), failure.reason),
            };
            Err(SwitchError::Refused { switch, refusals: failures.iter().map(refusal).collect() })
        }
        outcome => Ok(outcome?),
    }
}

/// Sets the counters of the job with index `job_index` to zero.
pub(super) async fn clear_counters(
    session: &Session,
    pipeline: &Pipeline,
    job_index: u16,
) -> Result<(), SwitchError> {
    let change = |counter: &CounterArray| Change {
        operation: Operation::Modify,
        entity: CounterCell::zero(&counter.name, job_index.into()).into(),
    };
    let changes: Vec<_> = pipeline.job_counters.iter().map(change).collect();
    write(session, pipeline, &changes).await
}

/// Reads all counters.
pub(super) async fn read_counters(
    session: &Session,
    pipeline: &Pipeline,
) -> Result<Vec<CounterCell>, SwitchError> {
    let counters = pipeline.job_counters.iter().chain(&pipeline.port_counters);
    let queries: Vec<_> = counters.map(|counter| Query::Counter(counter.name.clone())).collect();
    let cell = |entity| match entity {
        Entity::Counter(cell) => Some(cell),
        Entity::Table(_) | Entity::Multicast(_) => None,
    };
    Ok(read(session, pipeline, &queries).await?.into_iter().filter_map(cell).collect())
}

/// Returns the outcome of `work`; fails if it takes longer than `patience`.
pub(super) async fn in_time<T>(
    session: &Session,
    patience: Duration,
    work: impl Future<Output = Result<T, SwitchError>>,
) -> Result<T, SwitchError> {
    let switch = session.target().name.clone();
    let silent = |_| SessionError::NoAnswer { switch, what: "an order", seconds: patience.as_secs() };
    tokio::time::timeout(patience, work).await.map_err(silent)?
}

fn entry_error(session: &Session, change: String, reason: EntryError) -> SwitchError {
    SwitchError::Entry { switch: session.target().name.clone(), change, reason: Box::new(reason) }
}
