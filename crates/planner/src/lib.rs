//! Where a job aggregates: the aggregation tree, its hop stacks and the bytes on every link.
//!
//! [`plan`] is a pure function of the topology, the state of the fabric and the job. It grows candidate trees
//! (`candidates`, `grow`), lets each switch on them aggregate where it can (`roles`), counts the bytes that each link
//! will carry (`traffic`) and keeps the tree whose busiest link is done first (`search`). Only for that tree it works
//! out hop stacks (`stacks`), table entries (`assemble`) and the expected gain (`compare`). The result is checked
//! against the rules of `docs/specification.md`, section 4 (`check`), before anyone may act on it.
//!
//! When something has died, [`choose`] says who is to serve and which workers can be kept; [`replan`] plans for
//! these, with what is left of their tree. When something has come back, [`is_better`] says whether moving is worth a
//! pause. [`degraded`] says whether a job is better off without processes that have become slow.
//!
//! [`schedule`] is about time in place of the network: when gradients leave, from the profile of a backward pass.

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
