//! `result_group`: where a job's multicast results go, and whether they release its slots here.

use tributary_p4runtime::entry::{ActionCall, TableEntry};
use tributary_wire::JobId;

use super::schema::{ActionSchema, TableSchema};

const DELIVER: &str = "deliver";

pub(crate) const SCHEMA: TableSchema = TableSchema {
    name: "result_group",
    key: &["job"],
    actions: &[ActionSchema { name: DELIVER, parameters: &["group", "release"] }],
};

/// Sends multicast results of `job` to `group`; `release`: they also release the slot of their slice.
pub(crate) fn entry(job: JobId, group: u16, release: bool) -> TableEntry {
    let action = ActionCall::new(DELIVER).with("group", group).with("release", u8::from(release));
    TableEntry::new(SCHEMA.name).exact("job", job.get()).action(action)
}
