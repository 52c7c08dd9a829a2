//! Table `result_group`: selects the multicast group of a job's results, and if they release slots of
//! the switch.

use tributary_wire::JobId;

use super::definition::definitions;

definitions! {
    /// The job of a result.
    Key = "result_group" { job: JobId } => Deliver;

    /// Sends multicast results to `group`.
    Deliver = "deliver" {
        group: u16,
        /// True if each result also releases the slot of its slice.
        release: bool,
    }
}
