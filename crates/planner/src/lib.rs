//! The planner of a job's aggregation tree, its hop stacks and the bytes on every link.
//!
//! [`plan`] is a pure function of the topology, the state of the fabric and the job. It grows candidate trees
//! (`candidates`, `grow`), lets each switch on them aggregate if it can (`roles`), and counts the bytes on each link
//! (`traffic`). It keeps the tree whose busiest link is done first (`search`). Only for that tree, it computes hop
//! stacks (`stacks`), table entries (`assemble`) and the expected gain (`compare`). Before the plan is returned, it is
//! checked against the rules of `docs/specification.md`, section 4 (`check`).
//!
//! After a failure, [`choose`] selects the server and the workers that can continue, and [`replan`] plans for them with
//! the rest of their tree. After a repair, [`is_better`] decides if a change is worth a pause. [`degraded`] decides if
//! a job is faster without processes that have become slow.
//!
//! [`schedule`] plans the times at which gradients are sent, from the profile of a backward pass.

mod assemble;
mod better;
mod candidates;
mod check;
mod choose;
mod compare;
mod costed_tree;
pub mod degraded;
mod edges;
mod error;
mod fabric;
mod grow;
mod loads;
mod notes;
mod plain;
mod plan;
mod replan;
mod request;
mod roles;
pub mod schedule;
mod search;
mod slice_width;
mod stacks;
mod stored;
mod traffic;
mod tree;
mod widest;

pub use better::is_better;
pub use choose::{Chosen, choose, reachable};
pub use compare::Comparison;
pub use error::PlanError;
pub use fabric::FabricState;
pub use plan::{Admission, Plan, ResultGroup, Sender, ServerRole, SwitchRole, TreePort, WorkerRoute};
pub use replan::replan;
pub use request::{Aggregation, DownlinkName, JobRequest, Member};
pub use search::plan;
pub use slice_width::{widest_slices, widest_slices_over};
pub use stored::{StoredPlan, StoredPlanError};
pub use traffic::{LinkTraffic, Traffic};
pub use tributary_wire::Downlink;
