//! The answer to a Read.
//!
//! The server looks up the answer piece by piece, so that it delays neither packets nor other
//! readers. It does so no faster than the reader receives the pieces.

use std::sync::Arc;
use std::time::{Duration, Instant};

use prost::Message;
use tokio::sync::{OwnedSemaphorePermit, mpsc};
use tokio::time::{sleep, timeout};
use tokio_stream::wrappers::ReceiverStream;
use tonic::Status;
use tributary_p4runtime::p4::v1::{Entity, ReadResponse};

use super::device::{Device, DeviceProgram};
use super::query::{Query, QueryResult};
use super::status::{self, Refusal};

/// The size of a response at which a new one begins. Most clients refuse messages above 4 MiB.
const RESPONSE_BYTES: usize = 1 << 20;
/// Time after which a reader that receives nothing counts as disconnected.
const READER_PATIENCE: Duration = Duration::from_secs(30);
/// The pause of all readers after a lookup, as a multiple of its duration.
/// The switch serves packets meanwhile.
const TO_PACKETS: u32 = 4;
/// The shortest pause. Shorter pauses are added up until they reach it.
const REST: Duration = Duration::from_millis(1);

/// Looks up the requested entities, piece by piece.
/// Returns at the first part of the answer, or at an error.
///
/// Each part shows the state at its own lookup; other requests may come between two parts. If the
/// only pattern of a read fails, the read fails with the code of this pattern, as on
/// simple_switch_grpc. If a read has several patterns, the other patterns are answered, and the
/// status at the end has an error for each pattern.
pub(super) async fn answer(
    device: Arc<Device>,
    program: Arc<DeviceProgram>,
    patterns: Vec<Result<Vec<Query>, Refusal>>,
    place: OwnedSemaphorePermit,
) -> Result<ReceiverStream<Result<ReadResponse, Status>>, Status> {
    // The channel holds one part, so that the next part is made while one part is sent.
    let (parts, mut taken) = mpsc::channel(1);
    let (first, begun) = tokio::sync::oneshot::channel();
    tokio::spawn(async move {
        let _place = place;
        let mut answer = Answer { parts, first: Some(first), part: Batch::default() };
        if let Err(status) = answer.fill(&device, &program, patterns).await {
            answer.end(status).await;
        }
    });
    match begun.await {
        Ok(Ok(())) => Ok(ReceiverStream::new(taken)),
        Ok(Err(status)) => Err(status),
        Err(_) => {
            taken.close();
            Err(Status::internal("the read broke off"))
        }
    }
}

struct Answer {
    parts: mpsc::Sender<Result<ReadResponse, Status>>,
    /// Signals that the first part goes out, or the error before it.
    first: Option<tokio::sync::oneshot::Sender<Result<(), Status>>>,
    part: Batch,
}

impl Answer {
    async fn fill(
        &mut self,
        device: &Device,
        program: &Arc<DeviceProgram>,
        patterns: Vec<Result<Vec<Query>, Refusal>>,
    ) -> Result<(), Status> {
        let alone = patterns.len() == 1;
        let mut results = Vec::with_capacity(patterns.len());
        for queries in patterns {
            let result = match queries {
                Ok(queries) => self.pattern(device, program, queries).await?,
                Err(refusal) => Err(refusal),
            };
            match result {
                Err(refusal) if alone => return Err(refusal.into()),
                result => results.push(result),
            }
        }
        let failed = status::of_read(&results);
        if failed.is_err() && self.part.entities.is_empty() {
            return failed;
        }
        let last = std::mem::take(&mut self.part);
        // At least one part is sent, even if it is empty, because clients of BMv2 expect it.
        if self.first.is_some() || !last.entities.is_empty() {
            self.send(last.entities).await?;
        }
        failed
    }

    /// Answers one pattern. The outer error fails the whole read.
    async fn pattern(
        &mut self,
        device: &Device,
        program: &Arc<DeviceProgram>,
        queries: Vec<Query>,
    ) -> Result<Result<(), Refusal>, Status> {
        for query in queries {
            let found = match look_up(device, program, query).await? {
                Ok(found) => found,
                Err(refusal) => return Ok(Err(refusal)),
            };
            for entity in found {
                if let Some(full) = self.part.push(entity) {
                    self.send(full).await?;
                }
            }
        }
        Ok(Ok(()))
    }

    async fn send(&mut self, entities: Vec<Entity>) -> Result<(), Status> {
        if let Some(first) = self.first.take() {
            // If the caller no longer waits, the send below fails, too.
            let _ = first.send(Ok(()));
        }
        let gone = || Status::deadline_exceeded("the reader takes nothing");
        let sent = timeout(READER_PATIENCE, self.parts.send(Ok(ReadResponse { entities }))).await;
        sent.map_err(|_| gone())?.map_err(|_| gone())
    }

    /// Sends the error to the reader if the reader is still connected.
    async fn end(mut self, status: Status) {
        match self.first.take() {
            Some(first) => drop(first.send(Err(status))),
            None => drop(timeout(READER_PATIENCE, self.parts.send(Err(status))).await),
        }
    }
}

/// Runs one query.
async fn look_up(
    device: &Device,
    program: &Arc<DeviceProgram>,
    query: Query,
) -> Result<Result<Vec<Entity>, Refusal>, Status> {
    // The lock is held from the pause until the end of the lookup, so that all readers together do
    // not exceed their share.
    let mut owed = device.readers.owed.lock().await;
    if *owed >= REST {
        sleep(std::mem::take(&mut *owed)).await;
    }
    let programs = device.programs.read().await;
    if !Arc::ptr_eq(programs.current()?, program) {
        return Err(Status::aborted("the program was replaced while its state was read: read again"));
    }
    let (found, took) = programs
        .run(&device.control, move |switch| {
            let began = Instant::now();
            (query.gather(switch), began.elapsed())
        })
        .await?;
    drop(programs);
    *owed += took * TO_PACKETS;
    drop(owed);
    let entities = |found: Option<QueryResult>| found.map(QueryResult::into_entities).unwrap_or_default();
    Ok(found.map(entities).map_err(Refusal::from))
}

/// Entities that are sent together.
#[derive(Debug, Default)]
struct Batch {
    entities: Vec<Entity>,
    bytes: usize,
}

impl Batch {
    /// Adds an entity. If the message would become too long, returns the earlier entities
    /// and begins a new message.
    fn push(&mut self, entity: Entity) -> Option<Vec<Entity>> {
        // The tag and length of a repeated message take at most 6 bytes at these sizes.
        let size = entity.encoded_len() + 6;
        let is_full = self.bytes + size > RESPONSE_BYTES && self.bytes > 0;
        let full = is_full.then(|| std::mem::take(self).entities);
        self.entities.push(entity);
        self.bytes += size;
        full
    }
}

#[cfg(test)]
mod tests {
    use tributary_p4runtime::p4::v1::{TableEntry, entity};

    use super::*;

    fn entity(metadata: usize) -> Entity {
        let entry = TableEntry { metadata: vec![7; metadata], ..TableEntry::default() };
        Entity { entity: Some(entity::Entity::TableEntry(entry)) }
    }

    fn parts(entities: impl IntoIterator<Item = Entity>) -> Vec<Vec<Entity>> {
        let mut part = Batch::default();
        let mut parts: Vec<_> = entities.into_iter().filter_map(|entity| part.push(entity)).collect();
        parts.push(part.entities);
        parts
    }

    #[test]
    fn a_long_answer_comes_in_several_messages_in_order() {
        let entities: Vec<_> = (0..5000).map(|n| entity(n % 700)).collect();
        let parts = parts(entities.clone());
        assert!(parts.len() > 1);
        for entities in &parts {
            assert!(ReadResponse { entities: entities.clone() }.encoded_len() <= RESPONSE_BYTES);
        }
        assert_eq!(parts.concat(), entities);
    }

    #[test]
    fn an_entity_above_the_limit_goes_alone() {
        let sizes: Vec<_> =
            parts([entity(1), entity(2 * RESPONSE_BYTES), entity(1)]).iter().map(Vec::len).collect();
        assert_eq!(sizes, [1, 1, 1]);
    }
}
