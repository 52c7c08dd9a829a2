//! `tributary-bench agent`: the processor time that an all-reduce takes on a host.

mod report;

use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context, Result};
use bytesize::ByteSize;
use clap::Args;
use serde::Deserialize;
use tokio::time::timeout;
use tributary_bench::comparison::Machine;
use tributary_bench::cpu::{self, ProcessTimes};
use tributary_cli::options::size;
use tributary_cli::output;
use tributary_lab::Lab;
use tributary_topology::Topology;
use tributary_wire::SliceWidth;

use super::allreduce::{reduce_on_all, tensors_of_a_turn, timing};
use super::common::{mtu, topology_file, until_stopped};
use super::counters::Counters;
use super::networks::Network;
use report::{AgentReport, AgentTurn, WidthResults};
use tributary::Stop;
use tributary::lab::{FabricArgs, Record, up_fabric};

/// The smallest network, so that as few other processes as possible share the cores with the agents.
const TOPOLOGY: &str = include_str!("../../../../../topologies/two-workers.toml");
/// The measured daemon's name in a lab's record.
const AGENT: &str = "agent";
/// Time limit of one turn, which normally takes seconds.
const PATIENCE: Duration = Duration::from_secs(300);

/// Measures the processor time that an all-reduce takes on a host: the time of the agent's process in
/// user mode and in the kernel for each GiB of the tensor. All daemons run as on real hosts, in network namespaces,
/// over veth pairs without a rate limit
///
/// The slice widths take turns; the first turn of each width does not count. Every sum is checked; the exit status is
/// 1 if a sum is wrong.
#[derive(Debug, Clone, Args)]
pub(crate) struct AgentArgs {
    /// Topology file [default: the built-in topologies/two-workers.toml]
    #[arg(long, value_name = "FILE")]
    topology: Option<PathBuf>,

    /// MTUs of the links, in bytes, which determine the slice width: 256 values with 1500, 2,048 with 9000
    #[arg(long, value_name = "BYTES", value_delimiter = ',', default_value = "1500,9000",
          value_parser = mtu)]
    mtu: Vec<u16>,

    /// Size of the tensor
    #[arg(long, value_name = "BYTES", default_value = "64MiB", value_parser = size)]
    size: ByteSize,

    /// All-reduces in each turn
    #[arg(long, value_name = "N", default_value_t = 8, value_parser = clap::value_parser!(u32).range(1..))]
    iterations: u32,

    /// Number of turns of each width; the table holds the medians
    #[arg(long, value_name = "N", default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..))]
    rounds: u32,

    /// Print one JSON object instead of a table
    #[arg(long)]
    json: bool,
}

/// Measures and reports.
///
/// # Errors
/// No rights to make a lab, a network that fails, a sum that is wrong.
pub(crate) fn run(args: &AgentArgs) -> Result<()> {
    let report = until_stopped(measure(args))?;
    match args.json {
        true => output::print(serde_json::to_string(&report)?)?,
        false => output::print(report.text())?,
    }
    Ok(())
}

async fn measure(args: &AgentArgs) -> Result<AgentReport> {
    let folder = tempfile::tempdir()?;
    let file = topology_file(args.topology.as_deref(), TOPOLOGY, &folder)?;
    let topology = Topology::load(&file)?;
    let mut stop = Stop::new()?;
    let mut networks = Vec::new();
    for (at, &mtu) in args.mtu.iter().enumerate() {
        let name = format!("bench-{}-{at}", std::process::id());
        let fabric = FabricArgs::without_rates().with_mtu(Some(mtu));
        let (lab, record) = up_fabric(&name, &file, &fabric, &mut stop).await?;
        networks.push((mtu, Network { lab, record }, Vec::new()));
    }
    // The first round does not count, because the agents allocate memory and the processor raises its clock
    // during it.
    for round in 0..=args.rounds {
        for (mtu, network, turns) in &mut networks {
            let turn = turn(network, args).await?;
            if round > 0 {
                output::complain(format_args!("round {round} of {}, MTU {mtu}: {turn}", args.rounds));
                turns.push(turn);
            }
        }
    }
    let cases = networks.iter().map(|(mtu, _, turns)| {
        let width =
            SliceWidth::widest_within((*mtu).into()).context("no slice fits into a packet of this size")?;
        WidthResults::of(*mtu, width.values(), turns)
    });
    Ok(AgentReport {
        topology: topology.name().to_owned(),
        workers: topology.workers().len(),
        bytes: args.size.as_u64(),
        iterations: args.iterations,
        cases: cases.collect::<Result<_>>()?,
        machine: Machine::this(),
    })
}

/// The fields of a rank's report besides its times.
#[derive(Debug, Deserialize)]
struct RankCounters {
    retransmissions: u64,
}

/// Runs one turn on one network.
async fn turn(Network { lab, record }: &Network, args: &AgentArgs) -> Result<AgentTurn> {
    let (bytes, iterations) = (args.size.as_u64(), args.iterations);
    let before = Taken::read(lab, record)?;
    let lines = timeout(PATIENCE, reduce_on_all(lab, record, (bytes, 1), iterations, &[])).await;
    let lines = lines.with_context(|| format!("a turn has not ended after {PATIENCE:?}"))??;
    let after = Taken::read(lab, record)?;
    let timings = timing::of_all(lines.iter().map(String::as_str), iterations)?;
    let said = lines.iter().map(|line| {
        serde_json::from_str(line).with_context(|| format!("unexpected output of a rank: {line:?}"))
    });
    let said = said.collect::<Result<Vec<RankCounters>>>()?;
    Ok(AgentTurn {
        agents: after.agents.len(),
        bytes: bytes as f64 * tensors_of_a_turn(iterations),
        times: after.times().since(before.times()),
        carried: after.counters.total_since(&before.counters),
        // The ranks do not report the time of the warm-up, so it is estimated: the warm-up runs at the same
        // speed.
        seconds: timings.iter().map(|timing| timing.slowest).sum::<f64>() / f64::from(iterations)
            * tensors_of_a_turn(iterations),
        retransmissions: said.iter().map(|said| said.retransmissions).sum(),
    })
}

/// The resources that all agents have used since they started.
struct Taken {
    agents: Vec<ProcessTimes>,
    /// Counters of the interfaces of the agents' hosts.
    counters: Counters,
}

impl Taken {
    fn read(lab: &Lab, record: &Record) -> Result<Self> {
        let agents = || record.daemons().filter(|(_, daemon, _)| *daemon == AGENT);
        let times = |(station, _, process)| {
            cpu::of_process(process)
                .with_context(|| format!("cannot read the times of the agent on {station}"))
        };
        Ok(Self {
            agents: agents().map(times).collect::<Result<_>>()?,
            counters: Counters::read_at(lab, agents().map(|(station, ..)| station))?,
        })
    }

    fn times(&self) -> ProcessTimes {
        let sum = |of: fn(&ProcessTimes) -> Duration| self.agents.iter().map(of).sum();
        ProcessTimes { user: sum(|times| times.user), system: sum(|times| times.system) }
    }
}
