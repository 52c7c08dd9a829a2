//! Table `egress_guard`: limits the ports through which hops may send a job's packets.

use tributary_wire::JobId;

use super::definition::definitions;

definitions! {
    /// A job, and a port through which its packets may leave.
    Key = "egress_guard" { job: JobId, egress_port: u16 } => Allow;

    /// Lets packets leave.
    Allow = "allow" {}
}
