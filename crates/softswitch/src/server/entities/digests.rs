//! Converts digests between P4Runtime's messages and the switch's own types.

use std::time::Duration;

use tributary_p4runtime::P4Info;
use tributary_p4runtime::p4::v1::{
    self as message, Entity, digest_entry::Config, entity::Entity as Kind, update,
};

use crate::control::{DigestConfig, Part};
use crate::server::convert;
use crate::server::operation::Operation;
use crate::server::query::Query;
use crate::server::status::Refusal;

/// Plans an update of a digest's configuration.
pub(in crate::server) fn plan(
    kind: update::Type,
    entry: &message::DigestEntry,
) -> Result<Operation, Refusal> {
    let id = entry.digest_id;
    let config = match kind {
        update::Type::Delete => None,
        _ => Some(entry.config.as_ref().map(config).transpose()?.unwrap_or_default()),
    };
    Ok(Operation::new(Part::Digests, move |switch| match (kind, config) {
        (update::Type::Insert, Some(config)) => switch.insert_digest(id, config),
        _ => switch.change_digest(id, config),
    }))
}

fn config(message: &Config) -> Result<DigestConfig, Refusal> {
    let negative = |_| Refusal::invalid("a digest's times and sizes can't be negative");
    let time = |nanoseconds: i64| u64::try_from(nanoseconds).map(Duration::from_nanos);
    Ok(DigestConfig {
        max_timeout: time(message.max_timeout_ns).map_err(negative)?,
        max_list_size: usize::try_from(message.max_list_size).map_err(negative)?,
        ack_timeout: time(message.ack_timeout_ns).map_err(negative)?,
    })
}

/// Plans a read of the configuration of one digest, or of all digests.
pub(in crate::server) fn query(entry: &message::DigestEntry, p4info: &P4Info) -> Vec<Query> {
    if entry.digest_id != 0 {
        return vec![Query::Digest { digest: entry.digest_id }];
    }
    let known = p4info.message().digests.iter().filter_map(|digest| digest.preamble.as_ref());
    known.map(|preamble| Query::Digest { digest: preamble.id }).collect()
}

/// Returns a digest's configuration as an entity.
pub(in crate::server) fn entity(digest_id: u32, config: DigestConfig) -> Entity {
    let config = Config {
        max_timeout_ns: convert::nanoseconds(config.max_timeout),
        max_list_size: i32::try_from(config.max_list_size).unwrap_or(i32::MAX),
        ack_timeout_ns: convert::nanoseconds(config.ack_timeout),
    };
    let entry = message::DigestEntry { digest_id, config: Some(config) };
    Entity { entity: Some(Kind::DigestEntry(entry)) }
}
