//! The tables that the controller writes, one file for each family: a typed key and a typed action,
//! which are written and read by the same definition.
//!
//! `Pipeline` refuses a P4Info that lacks one of the names in a definition.

pub(crate) mod admission;
mod definition;
pub(crate) mod egress_guard;
pub(crate) mod identity;
pub(crate) mod mac_forward;
pub(crate) mod multicast;
pub(crate) mod result_group;

use tributary_p4runtime::entry::TableEntry;

use definition::TableAction;
pub(crate) use definition::{Fields, TableKey, TableSchema};

macro_rules! tables {
    ($($(#[$doc:meta])* $Table:ident($Key:ty)),+ $(,)?) => {
        /// The names of all tables in P4Info.
        pub(crate) const SCHEMAS: &[TableSchema] = &[$(<$Key as TableKey>::SCHEMA),+];

        /// The key of an entry of any table.
        ///
        /// Entries are added in the order of the variants. A job's entries of `admission` are added last, because they
        /// admit the job's packets to the switch.
        #[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
        pub(crate) enum Key {
            $($(#[$doc])* $Table($Key),)+
            /// The key of an entry that the controller never writes, and removes from the switch.
            Foreign(TableEntry),
        }

        /// The action of an entry of any table.
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        pub(crate) enum Action {
            $($Table(<$Key as TableKey>::Action)),+
        }

        $(
            impl From<$Key> for Key {
                fn from(key: $Key) -> Self {
                    Self::$Table(key)
                }
            }

            impl From<<$Key as TableKey>::Action> for Action {
                fn from(action: <$Key as TableKey>::Action) -> Self {
                    Self::$Table(action)
                }
            }
        )+

        /// Converts an entry to P4Runtime's form.
        pub(crate) fn to_entry(key: &Key, action: Option<&Action>) -> TableEntry {
            let entry = match key {
                $(Key::$Table(key) => key.to_entry(),)+
                Key::Foreign(entry) => entry.clone(),
            };
            let action = action.map(|action| match action {
                $(Action::$Table(action) => action.to_call()),+
            });
            TableEntry { action, ..entry }
        }

        /// Converts an entry from P4Runtime's form.
        /// The action is `None` if the controller never writes it.
        pub(crate) fn from_entry(entry: &TableEntry) -> (Key, Option<Action>) {
            let call = entry.action.as_ref();
            $(if let Some(key) = <$Key>::from_entry(entry) {
                let action = call.and_then(<$Key as TableKey>::Action::from_call);
                return (key.into(), action.map(Action::$Table));
            })+
            (Key::Foreign(entry.place()), None)
        }
    };
}

tables! {
    /// Gives the switch its node id.
    Identity(identity::Key),
    /// Forwards ordinary frames.
    MacForward(mac_forward::Key),
    /// Selects the multicast group of results.
    ResultGroup(result_group::Key),
    /// Limits the ports through which a job's packets may leave the switch.
    EgressGuard(egress_guard::Key),
    /// Admits packets of a job by their sender, for ports that several hosts share.
    SenderAdmission(admission::SenderKey),
    /// Admits packets of a job, and selects the slots that they reach.
    Admission(admission::Key),
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use tributary_p4runtime::entry::ActionCall;
    use tributary_wire::{JobId, MacAddr, NodeId, SliceWidth};

    use super::admission::{Admit, AdmitBySender};
    use super::identity::SetIdentity;
    use super::mac_forward::{Broadcast, ToController};
    use super::*;
    use crate::pipeline::{Pipeline, PipelineSource};
    use crate::testing::entries;

    #[test]
    fn an_entry_is_read_back_as_it_was_written_to_each_target() {
        let mut state = entries(7, 2);
        let (job, mac) = (JobId::new(7).unwrap(), |last| MacAddr::new(2, 0, 0, 0, 0, last));
        state.put(identity::Key {}, SetIdentity { node: NodeId::new(4711) });
        state.put(mac_forward::Key { dst: mac(1) }, Broadcast { group: 1 });
        state.put(mac_forward::Key { dst: mac(2) }, ToController {});
        state.put(admission::Key { job, ingress_port: 300 }, AdmitBySender {});
        for program in ["256", "tna-32"] {
            let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../p4/build").join(program);
            let pipeline = Pipeline::load(&PipelineSource::Directory(folder), SliceWidth::ETHERNET).unwrap();
            for (key, action) in &state.entries {
                let message = to_entry(key, action.as_ref()).to_proto(&pipeline.info).unwrap();
                let read = TableEntry::from_proto(&pipeline.info, &message).unwrap();
                assert_eq!(from_entry(&read), (key.clone(), *action), "{program}");
            }
        }
    }

    #[test]
    fn an_entry_that_the_controller_never_writes_keeps_its_key() {
        let admission = |job: u16| TableEntry::new("admission").exact("job", job).exact("ingress_port", 2u16);
        let no_job = admission(0).action(AdmitBySender {}.to_call());
        let (key, action) = from_entry(&no_job);
        assert_eq!((to_entry(&key, None), action), (no_job.place(), None));
        let odd_action = ActionCall::new("admit").with("kinds", 128u8);
        let key = admission::Key { job: JobId::new(7).unwrap(), ingress_port: 2 };
        assert_eq!(from_entry(&admission(7).action(odd_action)), (key.into(), None));
    }

    #[test]
    fn the_number_of_children_is_the_width_of_a_parameter() {
        assert!(Admit::FIELDS.contains(&admission::CHILDREN));
    }
}
