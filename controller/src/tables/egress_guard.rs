//! `egress_guard`: out of which ports a job's packets may be sent by their hop entries.

use tributary_p4runtime::entry::{ActionCall, TableEntry};
use tributary_wire::JobId;

use super::schema::{ActionSchema, TableSchema};

const ALLOW: &str = "allow";

pub(crate) const SCHEMA: TableSchema = TableSchema {
    name: "egress_guard",
    key: &["job", "egress_port"],
    actions: &[ActionSchema { name: ALLOW, parameters: &[] }],
};

/// Allows packets of `job` to leave by `egress_port`.
pub(crate) fn entry(job: JobId, egress_port: u16) -> TableEntry {
    TableEntry::new(SCHEMA.name)
        .exact("job", job.get())
        .exact("egress_port", egress_port)
        .action(ActionCall::new(ALLOW))
}
