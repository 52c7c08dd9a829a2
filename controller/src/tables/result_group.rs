//! Table `result_group`: selects the multicast group of a job's results, and if they release slots of
//! the switch.

use tributary_p4runtime::entry::{ActionCall, TableEntry};
use tributary_wire::JobId;

use super::schema::{ActionSchema, TableSchema};

const DELIVER: &str = "deliver";

pub(crate) const SCHEMA: TableSchema = TableSchema {
    name: "result_group",
    key: &["job"],
    actions: &[ActionSchema { name: DELIVER, parameters: &["group", "release"] }],
};

/// Returns an entry that sends multicast results of `job` to `group`.
/// If `release` is true, each result also releases the slot of its slice.
pub(crate) fn entry(job: JobId, group: u16, release: bool) -> TableEntry {
    let action = ActionCall::new(DELIVER).with("group", group).with("release", u8::from(release));
    TableEntry::new(SCHEMA.name).exact("job", job.get()).action(action)
}
