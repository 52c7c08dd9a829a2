//! Updates of a Write, from messages to operations of the switch.

use std::collections::BTreeSet;

use tributary_p4runtime::P4Info;
use tributary_p4runtime::entry;
use tributary_p4runtime::google::rpc::Code;
use tributary_p4runtime::p4::v1::entity::Entity as Kind;
use tributary_p4runtime::p4::v1::{self as message, update, write_request::Atomicity};

use super::entities::{counters, digests, meters, profiles, registers, replication, tables, value_sets};
use super::operation::Operation;
use super::status::Refusal;
use crate::control::Part;
use crate::switch::Switch;

impl Operation {
    /// Plans an update, except the checks that need the switch's state.
    pub(super) fn plan(update: message::Update, p4info: &P4Info) -> Result<Self, Refusal> {
        let kind = match update.r#type() {
            update::Type::Unspecified => return Err(Refusal::invalid("the update's type is not set")),
            kind => kind,
        };
        match update.entity.and_then(|entity| entity.entity) {
            Some(Kind::TableEntry(entry)) => tables::plan(kind, entry, p4info),
            Some(Kind::CounterEntry(entry)) => counters::plan(kind, &entry),
            Some(Kind::DirectCounterEntry(entry)) => counters::plan_direct(kind, entry),
            Some(Kind::MeterEntry(entry)) => meters::plan(kind, &entry),
            Some(Kind::DirectMeterEntry(entry)) => meters::plan_direct(kind, entry),
            Some(Kind::RegisterEntry(entry)) => registers::plan(kind, entry, p4info),
            Some(Kind::ValueSetEntry(entry)) => value_sets::plan(kind, entry),
            Some(Kind::DigestEntry(entry)) => digests::plan(kind, &entry),
            Some(Kind::ActionProfileMember(entry)) => profiles::plan_member(kind, entry),
            Some(Kind::ActionProfileGroup(entry)) => profiles::plan_group(kind, &entry),
            Some(Kind::PacketReplicationEngineEntry(entry)) => replication::plan(kind, &entry),
            None => {
                Err(Refusal::invalid("the update has no entity, or one of a kind that is not known here"))
            }
            Some(other) => Err(Refusal::unimplemented(entry::kind(Some(&other)))),
        }
    }
}

/// Carries out the operations in order. With every atomicity, packets see all changes at once.
pub(super) fn carry_out_batch(
    planned: Vec<Result<Operation, Refusal>>,
    atomicity: Atomicity,
    switch: &mut Switch,
) -> Vec<Result<(), Refusal>> {
    let carry_out = |operation: Result<Operation, Refusal>, switch: &mut Switch| {
        operation?.carry_out(switch).map_err(Refusal::from)
    };
    if atomicity == Atomicity::ContinueOnError {
        return planned.into_iter().map(|operation| carry_out(operation, switch)).collect();
    }
    let parts: BTreeSet<Part> = planned.iter().flatten().map(|operation| operation.part).collect();
    let before = switch.checkpoint(parts);
    let count = planned.len();
    for (at, operation) in planned.into_iter().enumerate() {
        if let Err(refusal) = carry_out(operation, switch) {
            switch.restore(before);
            let reason = format!("nothing of the batch is carried out, since update {at} failed");
            let mut results = vec![Err(Refusal::new(Code::Aborted, reason)); count];
            results[at] = Err(refusal);
            return results;
        }
    }
    vec![Ok(()); count]
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A P4Info that restricts actions to entries or defaults, which the project's program does not
    /// do.
    const INFO: &str = r#"
        tables {
          preamble { id: 0x02000001 name: "t" alias: "t" }
          match_fields { id: 1 name: "k" bitwidth: 8 match_type: EXACT }
          action_refs { id: 0x01000001 scope: TABLE_ONLY }
          action_refs { id: 0x01000002 scope: DEFAULT_ONLY }
        }
        actions { preamble { id: 0x01000001 name: "only_entries" alias: "only_entries" } }
        actions { preamble { id: 0x01000002 name: "only_default" alias: "only_default" } }"#;

    fn planned(action_id: u32, is_default_action: bool) -> Result<(), Refusal> {
        let action = message::Action { action_id, params: Vec::new() };
        let entry = message::TableEntry {
            table_id: 0x0200_0001,
            action: Some(message::TableAction { r#type: Some(message::table_action::Type::Action(action)) }),
            is_default_action,
            ..Default::default()
        };
        let entity = message::Entity { entity: Some(Kind::TableEntry(entry)) };
        let update = message::Update { r#type: update::Type::Modify.into(), entity: Some(entity) };
        Operation::plan(update, &P4Info::parse(INFO).unwrap()).map(drop)
    }

    #[test]
    fn an_action_in_the_wrong_place_is_denied_by_name() {
        let in_entry = planned(0x0100_0002, false).unwrap_err();
        assert_eq!(in_entry.code, Code::PermissionDenied);
        assert_eq!(in_entry.reason, "the table t does not allow the action only_default in its entries");
        let as_default = planned(0x0100_0001, true).unwrap_err();
        assert_eq!(as_default.code, Code::PermissionDenied);
        assert!(as_default.reason.ends_with("only_entries as its default action"), "{}", as_default.reason);
        assert!(planned(0x0100_0001, false).is_ok() && planned(0x0100_0002, true).is_ok());
    }
}
