//! `tributary-bench plan`: the time that planning takes for clusters of growing size.

use std::fmt;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use clap::Args;
use rustix::time::{ClockId, clock_gettime};
use serde::Serialize;
use tributary_bench::comparison::Machine;
use tributary_cli::output;
use tributary_controller::built_in_slots;
use tributary_planner::{FabricState, JobRequest, Plan, plan, replan};
use tributary_protocol::DEFAULT_WINDOW;
use tributary_topology::{FatTree, NodeKey, Topology};

use tributary::present::plan::text;
use tributary_cli::output::number_table;

/// The number of ports of each switch, and the number of workers.
///
/// The numbers of hosts and workers double from each size to the next.
const SIZES: [(usize, usize); 4] = [(24, 512), (30, 1024), (38, 2048), (48, 4096)];
const RATE: &str = "100 Gbit/s";
const GRADIENT_BYTES: u64 = 64 << 20;
/// The time limit for the largest size.
///
/// It applies to the time from the file to the tables, and to a new plan after a switch has died.
const MOST: Duration = Duration::from_secs(1);
const MOST_AGAIN: Duration = Duration::from_millis(100);
/// The greatest allowed growth of the time when the numbers of workers and hosts double.
const MOST_GROWTH: f64 = 2.5;

/// Measures the time to plan a job on fat trees of four sizes, from the text of the topology file to
/// the tables that `tributary plan` prints, and the time to plan it again after a switch of its tree has died.
/// Planning runs in one thread that never blocks. Times are the processor time of this thread, so other work on the
/// machine does not count.
#[derive(Debug, Clone, Args)]
pub(crate) struct PlanArgs {
    /// Rounds of each size; the fastest round of each step counts
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u16).range(1..))]
    rounds: u16,

    /// Print one JSON object instead of a table
    #[arg(long)]
    json: bool,
}

/// The results of the measurement.
#[derive(Debug, Serialize)]
struct PlanReport {
    machine: Machine,
    rounds: u16,
    sizes: Vec<Size>,
    limits: Vec<CheckedLimit>,
    passed: bool,
}

/// The results for one size. Times are in seconds.
#[derive(Debug, Serialize)]
struct Size {
    ports: usize,
    switches: usize,
    hosts: usize,
    workers: usize,
    #[serde(flatten)]
    times: Times,
    /// The time from the file to the tables, relative to the previous size; `None` for the first size.
    growth: Option<f64>,
    /// The time to plan again, relative to the previous size; `None` for the first size.
    replan_growth: Option<f64>,
}

#[derive(Debug, Clone, Copy, Serialize)]
struct Times {
    /// Time from the text of the file to the validated topology.
    read: f64,
    /// Time from the topology to the plan.
    plan: f64,
    /// Time from the plan to the text for people.
    print: f64,
    /// The sum of the three times `read`, `plan` and `print`.
    whole: f64,
    /// Time to plan again after one switch has died.
    ///
    /// It is the longer of the times for a core and for an aggregation switch.
    replan: f64,
}

/// A limit, and the measured value.
#[derive(Debug, Serialize)]
struct CheckedLimit {
    what: &'static str,
    most: f64,
    measured: f64,
    passed: bool,
}

/// Measures, and prints the results.
///
/// # Errors
/// A limit is missed.
pub(crate) fn run(args: &PlanArgs) -> Result<()> {
    let slots = built_in_slots()?;
    let mut sizes: Vec<Size> = Vec::new();
    for (ports, workers) in SIZES {
        let tree = FatTree::new(ports, workers)?;
        let times = measure(&tree, slots, args.rounds)?;
        let before = sizes.last().map(|size| size.times);
        sizes.push(Size {
            ports,
            switches: tree.switches(),
            hosts: tree.hosts(),
            workers,
            times,
            growth: before.map(|before| times.whole / before.whole),
            replan_growth: before.map(|before| times.replan / before.replan),
        });
    }
    let limits = limits(&sizes);
    let passed = limits.iter().all(|limit| limit.passed);
    let report = PlanReport { machine: Machine::this(), rounds: args.rounds, sizes, limits, passed };
    if args.json {
        output::print(serde_json::to_string_pretty(&report)?)?;
    } else {
        output::print(&report)?;
    }
    if !passed {
        bail!("planning takes longer than its limits");
    }
    Ok(())
}

/// Measures each step in several rounds, and returns its shortest time.
fn measure(tree: &FatTree, slots: u32, rounds: u16) -> Result<Times> {
    let file = tree.to_toml(RATE);
    let mut fastest: Option<Times> = None;
    for _ in 0..rounds {
        let times = round(&file, slots)?;
        fastest = Some(fastest.map_or(times, |best| Times {
            read: best.read.min(times.read),
            plan: best.plan.min(times.plan),
            print: best.print.min(times.print),
            whole: best.whole.min(times.whole),
            replan: best.replan.min(times.replan),
        }));
    }
    fastest.context("at least one round is needed")
}

fn round(file: &str, slots: u32) -> Result<Times> {
    let (read, topology) = timed(|| Topology::parse(file, "fat-tree.toml"));
    let topology = topology?;
    let job =
        JobRequest::of(&topology, DEFAULT_WINDOW, GRADIENT_BYTES).context("a fat tree without a server")?;
    let (of_plan, planned) = timed(|| {
        let state = FabricState::of(&topology, slots);
        plan(&topology, &state, &job).map(|plan| (state, plan))
    });
    let (state, planned) = planned?;
    let (print, _) = timed(|| text(&topology, &planned));
    let mut again: f64 = 0.0;
    for dead in victims(&planned) {
        let mut state = state.clone();
        state.dead_nodes.insert(dead);
        let (seconds, repaired) = timed(|| replan(&topology, &state, &job, &planned));
        repaired?;
        again = again.max(seconds);
    }
    Ok(Times { read, plan: of_plan, print, whole: read + of_plan + print, replan: again })
}

/// Returns a core of the tree, and the first aggregation switch in a pod other than the server's pod.
///
/// Neither switch disconnects a worker when it dies.
fn victims(plan: &Plan) -> impl Iterator<Item = NodeKey> {
    let is_core = |name: &str| name.starts_with("core");
    let is_aggregation = |name: &str| name.starts_with("agg") && !name.starts_with("agg0-");
    let first =
        |is: &dyn Fn(&str) -> bool| plan.switches.iter().find(|role| is(&role.name)).map(|role| role.key);
    [first(&is_core), first(&is_aggregation)].into_iter().flatten()
}

/// Runs `work`; returns the processor time of this thread in seconds, and the result of `work`.
fn timed<T>(work: impl FnOnce() -> T) -> (f64, T) {
    let now = || {
        let now = clock_gettime(ClockId::ThreadCPUTime);
        now.tv_sec as f64 + now.tv_nsec as f64 / 1e9
    };
    let before = now();
    let done = work();
    (now() - before, done)
}

fn limits(sizes: &[Size]) -> Vec<CheckedLimit> {
    let limit = |what, most, measured| CheckedLimit { what, most, measured, passed: measured <= most };
    let last = |of: fn(&Times) -> f64| sizes.last().map_or(0.0, |size| of(&size.times));
    let most = |of: fn(&Size) -> Option<f64>| sizes.iter().filter_map(of).fold(0.0, f64::max);
    vec![
        limit("seconds to plan the largest size", MOST.as_secs_f64(), last(|times| times.whole)),
        limit("seconds to plan the largest size again", MOST_AGAIN.as_secs_f64(), last(|times| times.replan)),
        limit("growth of the planning time when the size doubles", MOST_GROWTH, most(|size| size.growth)),
        limit(
            "growth of the time to plan again when the size doubles",
            MOST_GROWTH,
            most(|size| size.replan_growth),
        ),
    ]
}

impl fmt::Display for PlanReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut table = number_table(&[
            "switch ports",
            "switches",
            "hosts",
            "workers",
            "read",
            "plan",
            "print",
            "in all",
            "growth",
            "again",
            "growth",
        ]);
        let milliseconds = |seconds: f64| format!("{:.1} ms", seconds * 1e3);
        let times = |factor: Option<f64>| factor.map_or_else(String::new, |factor| format!("{factor:.2} ×"));
        for Size { ports, switches, hosts, workers, times: t, growth, replan_growth } in &self.sizes {
            let counts = [ports, switches, hosts, workers].map(|count| count.to_string());
            let steps = [t.read, t.plan, t.print, t.whole].map(milliseconds);
            let rest = [times(*growth), milliseconds(t.replan), times(*replan_growth)];
            table.add_row(counts.into_iter().chain(steps).chain(rest));
        }
        write!(f, "{table}")?;
        for CheckedLimit { what, most, measured, passed } in &self.limits {
            let verdict = if *passed { "holds" } else { "is missed" };
            write!(f, "\n{what}: {measured:.3}; the limit of {most} {verdict}")?;
        }
        Ok(())
    }
}
