//! A job's plan as text and as a picture.

mod embedded;
mod layout;
mod picture;
mod table;

use tributary_cli::drawing::drawing;
use tributary_cli::output::sentences;
use tributary_planner::Plan;
use tributary_topology::Topology;

pub(crate) use picture::picture;

/// Returns the plan as text for users.
pub fn text(topology: &Topology, plan: &Plan) -> String {
    let (headline, tree) = (sentences(&table::headline(topology, plan)), drawing(plan));
    let (stacks, links) = (table::stacks(topology, plan), table::links(plan));
    format!("{headline}\n\n{tree}\n{stacks}\n\n{links}\n\n{}", sentences(&table::summary(plan)))
}
