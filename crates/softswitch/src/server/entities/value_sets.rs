//! Converts value sets between P4Runtime's messages and the switch's own types.

use tributary_p4runtime::P4Info;
use tributary_p4runtime::p4::v1::{self as message, Entity, entity::Entity as Kind, update};

use crate::control::{FieldMatch, Part};
use crate::server::convert;
use crate::server::operation::Operation;
use crate::server::query::Query;
use crate::server::status::Refusal;

/// Plans an update; only MODIFY is valid.
pub(in crate::server) fn plan(
    kind: update::Type,
    entry: message::ValueSetEntry,
) -> Result<Operation, Refusal> {
    if kind != update::Type::Modify {
        return Err(Refusal::invalid("a value set is neither inserted nor deleted: modify it"));
    }
    let member = |member: message::ValueSetMember| convert::matches(member.r#match);
    let members: Vec<_> = entry.members.into_iter().map(member).collect::<Result<_, _>>()?;
    let id = entry.value_set_id;
    Ok(Operation::new(Part::ValueSet(id), move |switch| switch.set_value_set(id, &members)))
}

/// Plans a read of one value set, or of all value sets.
pub(in crate::server) fn query(entry: &message::ValueSetEntry, p4info: &P4Info) -> Vec<Query> {
    if entry.value_set_id != 0 {
        return vec![Query::ValueSet { value_set: entry.value_set_id }];
    }
    let known = p4info.message().value_sets.iter().filter_map(|set| set.preamble.as_ref());
    known.map(|preamble| Query::ValueSet { value_set: preamble.id }).collect()
}

/// Returns a value set as an entity.
pub(in crate::server) fn entity(value_set_id: u32, members: Vec<Vec<FieldMatch>>) -> Entity {
    let member = |member: Vec<FieldMatch>| message::ValueSetMember {
        r#match: member.into_iter().map(convert::match_message).collect(),
    };
    let members = members.into_iter().map(member).collect();
    Entity { entity: Some(Kind::ValueSetEntry(message::ValueSetEntry { value_set_id, members })) }
}
