//! Table `egress_guard`: limits the ports through which hops may send a job's packets.

use tributary_p4runtime::entry::{ActionCall, TableEntry};
use tributary_wire::JobId;

use super::schema::{ActionSchema, TableSchema};

const ALLOW: &str = "allow";

pub(crate) const SCHEMA: TableSchema = TableSchema {
    name: "egress_guard",
    key: &["job", "egress_port"],
    actions: &[ActionSchema { name: ALLOW, parameters: &[] }],
};

/// Returns an entry that allows packets of `job` to leave through `egress_port`.
pub(crate) fn entry(job: JobId, egress_port: u16) -> TableEntry {
    TableEntry::new(SCHEMA.name)
        .exact("job", job.get())
        .exact("egress_port", egress_port)
        .action(ActionCall::new(ALLOW))
}
