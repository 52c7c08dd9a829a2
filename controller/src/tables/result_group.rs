//! `result_group`: to whom a job's multicast results go, and whether they empty its slots here.

use tributary_p4runtime::entry::{ActionCall, TableEntry};
use tributary_wire::JobId;

use super::{ActionSchema, TableSchema};

const DELIVER: &str = "deliver";

pub(crate) const SCHEMA: TableSchema = TableSchema {
    name: "result_group",
    key: &["job"],
    actions: &[ActionSchema { name: DELIVER, parameters: &["group", "release"] }],
};

/// Multicast results of `job` go to `group`, and `release` the slot of their slice.
pub(crate) fn entry(job: JobId, group: u16, release: bool) -> TableEntry {
    let action = ActionCall::new(DELIVER).with("group", group).with("release", u8::from(release));
    TableEntry::new(SCHEMA.name).exact("job", job.get()).action(action)
}
