//! Writes and reads.

use prost::Message;

use super::error::update_failures;
use super::{Session, SessionError, UpdateFailure, to_wire};
use crate::p4::v1::{self as message, Entity, Update};

/// The name of a Write in errors.
const WRITE: &str = "a write";
/// The maximum number of bytes of updates in a Write. Most gRPC servers refuse messages above 4
/// MiB; the rest of the request takes the difference.
const WRITE_BYTES: usize = 3 << 20;
/// The maximum number of updates in a Write. The answer has one error message for each update, in a
/// trailer of limited size.
const WRITE_UPDATES: usize = 1000;

impl Session {
    /// Sends updates, which the switch carries out in order. The error lists the updates that
    /// failed: see [`SessionError::Write`].
    pub async fn write(&self, updates: Vec<Update>) -> Result<(), SessionError> {
        let total = updates.len();
        let mut failures = Vec::new();
        let mut done = 0;
        for batch in batches(updates) {
            let count = batch.len();
            let failed = self.write_batch(batch).await?;
            failures.extend(failed.into_iter().map(|one| UpdateFailure { index: one.index + done, ..one }));
            done += count;
        }
        if failures.is_empty() {
            return Ok(());
        }
        Err(SessionError::Write { switch: self.target.name.clone(), total, failures })
    }

    async fn write_batch(&self, updates: Vec<Update>) -> Result<Vec<UpdateFailure>, SessionError> {
        let count = updates.len();
        let request = message::WriteRequest {
            device_id: self.target.device_id,
            election_id: Some(to_wire(self.election_id)),
            updates,
            ..Default::default()
        };
        let mut client = self.client.clone();
        match self.answer(WRITE, client.write(request)).await? {
            Ok(_) => Ok(Vec::new()),
            Err(status) => update_failures(&status, count)
                .ok_or_else(|| SessionError::from_status(&self.target.name, WRITE, &status)),
        }
    }

    /// Reads all entities that the patterns cover, in the order in which the switch sends them.
    pub async fn read(&self, patterns: Vec<Entity>) -> Result<Vec<Entity>, SessionError> {
        let request = message::ReadRequest {
            device_id: self.target.device_id,
            entities: patterns,
            ..Default::default()
        };
        let mut client = self.client.clone();
        self.success("a read", async {
            let mut responses = client.read(request).await?.into_inner();
            let mut found = Vec::new();
            while let Some(response) = responses.message().await? {
                found.extend(response.entities);
            }
            Ok(found)
        })
        .await
    }
}

/// Splits updates into as few requests as the message size allows, in order.
fn batches(updates: Vec<Update>) -> Vec<Vec<Update>> {
    let mut batches: Vec<Vec<Update>> = Vec::new();
    let mut filled = WRITE_BYTES;
    for update in updates {
        // The tag and length of a repeated message take at most 6 bytes at these sizes.
        let size = update.encoded_len() + 6;
        match batches.last_mut() {
            Some(batch) if filled + size <= WRITE_BYTES && batch.len() < WRITE_UPDATES => batch.push(update),
            _ => {
                batches.push(vec![update]);
                filled = 0;
            }
        }
        filled += size;
    }
    batches
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::entry::{MulticastGroup, kind};

    fn group(id: u32, ports: u32) -> Update {
        let group = MulticastGroup::to_ports(id, 0..ports).to_proto().unwrap();
        let replication = message::PacketReplicationEngineEntry {
            r#type: Some(message::packet_replication_engine_entry::Type::MulticastGroupEntry(group)),
        };
        let entity = message::entity::Entity::PacketReplicationEngineEntry(replication);
        assert_eq!(kind(Some(&entity)), "a replication entry");
        Update { r#type: 1, entity: Some(Entity { entity: Some(entity) }) }
    }

    #[test]
    fn batches_keep_the_order_and_stay_below_the_limit() {
        let updates: Vec<_> = (1..=400).map(|id| group(id, 2_000)).collect();
        let batches = batches(updates.clone());
        assert!(batches.len() > 1, "{} bytes", updates.iter().map(Message::encoded_len).sum::<usize>());
        for batch in &batches {
            let request = message::WriteRequest { updates: batch.clone(), ..Default::default() };
            assert!(request.encoded_len() <= WRITE_BYTES);
        }
        assert_eq!(batches.concat(), updates);
    }

    #[test]
    fn an_update_above_the_limit_goes_alone() {
        let batches = batches(vec![group(1, 2), group(2, 1_000_000), group(3, 2)]);
        assert_eq!(batches.iter().map(Vec::len).collect::<Vec<_>>(), [1, 1, 1]);
    }

    #[test]
    fn a_batch_is_as_long_as_its_errors_can_be_told() {
        let batches = batches(vec![group(1, 2); 2 * WRITE_UPDATES + 1]);
        assert_eq!(batches.iter().map(Vec::len).collect::<Vec<_>>(), [WRITE_UPDATES, WRITE_UPDATES, 1]);
    }

    #[test]
    fn nothing_to_write_is_no_request() {
        assert!(batches(Vec::new()).is_empty());
    }
}
