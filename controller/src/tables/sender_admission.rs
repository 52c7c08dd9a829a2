//! Table `sender_admission`: admits packets of a job by their sender, at a port that several hosts
//! share.

use tributary_api::Endpoint;
use tributary_p4runtime::entry::TableEntry;

use super::admission::{ADMIT_SCHEMA, Admit, Key};
use super::schema::{TableSchema, mac_number};

pub(crate) const SCHEMA: TableSchema = TableSchema {
    name: "sender_admission",
    key: &["job", "ingress_port", "source_mac", "source_ip"],
    actions: &[ADMIT_SCHEMA],
};

/// Returns an entry that admits packets of `key` from `sender` under the conditions of `admit`.
pub(crate) fn entry(key: Key, sender: Endpoint, admit: &Admit) -> TableEntry {
    key.of(SCHEMA.name)
        .exact("source_mac", mac_number(sender.mac))
        .exact("source_ip", u32::from(sender.ip))
        .action(admit.call())
}
