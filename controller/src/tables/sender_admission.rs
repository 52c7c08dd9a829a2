//! `sender_admission`: what may come in for a job through a port from one of the hosts that share it.

use tributary_api::Endpoint;
use tributary_p4runtime::entry::TableEntry;

use super::admission::{ADMIT_SCHEMA, Admit, Key};
use super::{TableSchema, mac_number};

pub(crate) const SCHEMA: TableSchema = TableSchema {
    name: "sender_admission",
    key: &["job", "ingress_port", "source_mac", "source_ip"],
    actions: &[ADMIT_SCHEMA],
};

/// What `sender` sends of `key` is admitted as `admit` says.
pub(crate) fn entry(key: Key, sender: Endpoint, admit: &Admit) -> TableEntry {
    key.of(SCHEMA.name)
        .exact("source_mac", mac_number(sender.mac))
        .exact("source_ip", u32::from(sender.ip))
        .action(admit.call())
}
