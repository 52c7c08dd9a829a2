//! The plan as tables.

use std::collections::{BTreeMap, HashMap};

use bytesize::ByteSize;
use comfy_table::{CellAlignment, Table};
use tributary_planner::{Aggregation, Downlink, LinkTraffic, Plan};
use tributary_topology::{LinkKey, Topology, format_rate};
use tributary_wire::Hop;

use super::embedded::busiest_switch;
use tributary_cli::output;

/// Returns a headline with the topology and the job.
pub(crate) fn headline(topology: &Topology, plan: &Plan) -> String {
    format!("{}: {}\n{}", plan.topology, topology.description(), job(plan))
}

/// Describes the job in one line.
pub(crate) fn job(plan: &Plan) -> String {
    let aggregation = match plan.aggregation {
        Aggregation::Tree => "aggregation on the whole tree",
        Aggregation::Leaf => "aggregation at the workers' switches",
        Aggregation::TwoLevels => "aggregation at the workers' switches and the next ones",
        Aggregation::None => "no aggregation in the network",
    };
    let downlink = match plan.downlink {
        Downlink::Multicast => "multicast results",
        Downlink::Unicast => "unicast results",
    };
    let size = bytes(plan.gradient_bytes);
    format!("gradients of {size}, {aggregation}, {downlink}, window of {} slices", plan.window)
}

/// Returns the hop stacks of every worker, with a legend.
pub(crate) fn stacks(topology: &Topology, plan: &Plan) -> String {
    let names: HashMap<_, _> = topology.nodes().map(|(_, node)| (node.id, node.name.as_str())).collect();
    let name = |hop: &Hop| names.get(&hop.node).copied().unwrap_or("?");
    let up = |hop: &Hop| match (hop.aggregate, hop.node == plan.server.node) {
        (true, true) => format!("{} +{}/{}", name(hop), hop.child, hop.fan_in),
        (true, false) => format!("{}:{} +{}/{}", name(hop), hop.egress_port, hop.child, hop.fan_in),
        (false, _) => format!("{}:{}", name(hop), hop.egress_port),
    };
    let down = |hop: &Hop| {
        let release = if hop.aggregate { " ○" } else { "" };
        format!("{}:{}{release}", name(hop), hop.egress_port)
    };
    let mut table = output::table(&["rank", "worker", "hop stack to the server", "hop stack back"]);
    for worker in &plan.workers {
        let join = |hops: &[Hop], entry: &dyn Fn(&Hop) -> String| {
            hops.iter().map(entry).collect::<Vec<_>>().join(" → ")
        };
        let (rank, name) = (worker.rank.to_string(), worker.name.clone());
        table.add_row([rank, name, join(&worker.up, &up), join(&worker.down, &down)]);
    }
    let legend =
        "switch:port of departure; +c/n: aggregated there as child c of n; ○: the slot is released there";
    format!("{table}\n{}", output::sentences(legend))
}

/// Returns a table of the traffic on every link of the tree in one all-reduce.
pub(crate) fn links(plan: &Plan) -> Table {
    let header = ["link", "rate", "in use", "gradients up", "results down", "busy for", ""];
    let mut table = output::table(&header);
    for column in table.column_iter_mut().skip(1).take(5) {
        column.set_cell_alignment(CellAlignment::Right);
    }
    for LinkPair { up, down } in pairs(plan).into_values() {
        let busy = up.seconds.max(down.seconds);
        let in_use = up.load.max(down.load);
        table.add_row([
            format!("{} – {}", down.from, down.to),
            format_rate(up.rate),
            if in_use == 0 { String::new() } else { format_rate(in_use) },
            bytes(up.bytes),
            bytes(down.bytes),
            seconds(busy),
            if busy == plan.traffic.seconds { "busiest".to_owned() } else { String::new() },
        ]);
    }
    table
}

/// Returns the totals, speed-ups and notes.
pub(crate) fn summary(plan: &Plan) -> String {
    let traffic = &plan.traffic;
    let mut text = format!(
        "into the server {}, out of it {}, on all links {}\n",
        bytes(traffic.into_server),
        bytes(traffic.out_of_server),
        bytes(traffic.all_links)
    );
    text.extend(worth(plan).into_iter().map(|line| line + "\n"));
    text.extend(plan.notes.iter().map(|note| format!("note: {note}\n")));
    text.trim_end().to_owned()
}

/// Returns the expected times, compared with other methods of all-reduce.
pub(crate) fn worth(plan: &Plan) -> Vec<String> {
    let comparison = &plan.comparison;
    let mut lines =
        vec![format!("one all-reduce is done on its busiest link after {}", seconds(plan.traffic.seconds))];
    let embedded = busiest_switch(plan);
    if embedded > plan.traffic.seconds {
        lines.push(format!(
            "with embedded switches it takes about {}, the working time of the busiest switch (docs/results/switch)",
            seconds(embedded)
        ));
    }
    if let Some(speedup) = comparison.speedup_over_ring {
        lines.push(format!(
            "{speedup:.2} × as fast as a ring all-reduce ({} a link, {})",
            bytes(comparison.ring_bytes),
            seconds(comparison.ring_seconds)
        ));
    }
    lines.push(format!(
        "{:.2} × as fast as a plain parameter server ({} on its busiest link, {})",
        comparison.speedup_over_parameter_server,
        bytes(comparison.parameter_server_bytes),
        seconds(comparison.parameter_server_seconds)
    ));
    lines
}

/// Both directions of a link of the tree.
#[derive(Clone, Copy)]
pub(crate) struct LinkPair<'a> {
    /// The traffic towards the server.
    pub(crate) up: &'a LinkTraffic,
    /// The traffic towards the workers.
    pub(crate) down: &'a LinkTraffic,
}

/// Returns the links of the tree with their traffic in both directions, in the topology's order.
pub(crate) fn pairs(plan: &Plan) -> BTreeMap<LinkKey, LinkPair<'_>> {
    let (up, down): (Vec<_>, Vec<_>) = plan.traffic.links.iter().partition(|link| link.towards_server);
    let down: BTreeMap<_, _> = down.into_iter().map(|link| (link.direction.link, link)).collect();
    let mut pairs = BTreeMap::new();
    for up in up {
        let link = up.direction.link;
        pairs.extend(down.get(&link).map(|down| (link, LinkPair { up, down })));
    }
    pairs
}

/// Formats a number of bytes for users.
pub(crate) fn bytes(count: u64) -> String {
    ByteSize::b(count).to_string()
}

/// Formats seconds for users.
pub(crate) fn seconds(time: f64) -> String {
    match time {
        t if t >= 100.0 => format!("{t:.0} s"),
        t if t >= 1.0 => format!("{t:.1} s"),
        t if t >= 1e-3 => format!("{:.1} ms", t * 1e3),
        t => format!("{:.1} µs", t * 1e6),
    }
}
