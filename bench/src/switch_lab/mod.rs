//! One switch between three veth interfaces, under the load of the [`generator`](crate::generator). The embedded switch
//! and BMv2 take turns, with the same program, tables and load, and so does a bare loop, which shows the most that the
//! machine can do.
//!
//! Each run starts a new switch process, in a [`Lab`] that is made for each MTU and removed after it.

mod bare_loop;
mod error;
mod report;
mod switch;
mod tables;

use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use tributary_lab::{Lab, LabOptions};
use tributary_topology::{Host, Node, Topology};
use tributary_wire::frame::FrameHeader;
use tributary_wire::{JobId, MacAddr, SliceWidth};

use crate::generator::{CHILDREN, Flow, Generator, GeneratorError, Receiver, Sender};

pub use error::SwitchLabError;
pub use report::{Candidate, Case, Comparison, Report, Run, Setting};
pub use switch::SwitchUnderTest;

const TOPOLOGY: &str = include_str!("../../../topologies/two-workers.toml");
const TOPOLOGY_NAME: &str = "topologies/two-workers.toml (built in)";
/// An arbitrary job number.
const JOB: u16 = 1;
/// Time for switch and generator to come up to speed before anything is counted.
const WARM_UP: Duration = Duration::from_millis(500);
/// Nobody's address: the hosts' kernels ignore such frames, while packet sockets see them. The switch goes by the hop
/// stack.
const DESTINATION: MacAddr = MacAddr(0x02, 0x7b, 0, 0, 0, 1);

/// Options of the measurement.
#[derive(Debug, Clone, PartialEq)]
pub struct SwitchLabOptions {
    /// The lab's name, unique on this machine.
    pub name: String,
    /// The `tributary` binary.
    pub program: PathBuf,
    /// The switches, in the order in which they take turns.
    pub switches: Vec<SwitchUnderTest>,
    /// Number of runs of each switch.
    pub runs: usize,
    /// The longest packets of the links, in bytes; slices are as wide as fits each of these.
    pub mtus: Vec<u16>,
    /// Slices in flight at once, powers of two.
    pub windows: Vec<u32>,
    /// The measured time of a run.
    pub seconds: Duration,
}

/// Measures, and calls `done` with each run. When `stop` is set, it ends after the current run.
///
/// # Errors
/// [`SwitchLabError::Stopped`]; no root; a switch that does not start, or aggregates wrongly.
pub fn measure(
    options: &SwitchLabOptions,
    stop: &AtomicBool,
    mut done: impl FnMut(&Setting, &Run),
) -> Result<Report, SwitchLabError> {
    let mut cases = Vec::new();
    for &mtu in &options.mtus {
        let width = SliceWidth::widest_within(mtu.into())
            .ok_or(SwitchLabError::Mtu(mtu, SliceWidth::NARROWEST.mtu()))?;
        let topology = Topology::parse(TOPOLOGY, TOPOLOGY_NAME).map_err(SwitchLabError::BadTopology)?;
        let topology = topology.with_mtu(mtu).map_err(SwitchLabError::BadMtu)?;
        let lab_options = LabOptions { rates: false, ..LabOptions::new(&options.name) };
        let lab = Lab::up(&topology, &lab_options)?;
        let bed = TestBed::new(&lab, &topology, options, width)?;
        for &window in &options.windows {
            let setting = Setting { mtu, values: width.values(), window };
            let runs = bed.turns(setting, stop, &mut done)?;
            cases.push(Case::new(setting, &options.switches, runs)?);
        }
        lab.down()?;
    }
    Ok(Report::new(cases))
}

/// The network, and what all runs share.
struct TestBed<'a> {
    lab: &'a Lab,
    options: &'a SwitchLabOptions,
    switch: &'a Node,
    server: &'a Node,
    workers: [&'a Node; CHILDREN],
    /// The job's flow, with a window of a single slice.
    flow: Flow,
    /// The switch's ports to the workers.
    child_ports: [u16; CHILDREN],
}

impl<'a> TestBed<'a> {
    fn new(
        lab: &'a Lab,
        topology: &'a Topology,
        options: &'a SwitchLabOptions,
        width: SliceWidth,
    ) -> Result<Self, SwitchLabError> {
        let unfit = || SwitchLabError::Topology;
        let (key, switch, _) = topology.switches().next().ok_or_else(unfit)?;
        let node = |key| topology.get(key).ok_or_else(unfit);
        let port_to = |key_of_host| {
            let neighbours = topology.neighbours(key);
            neighbours.iter().find(|to| to.node == key_of_host).map(|to| to.port).ok_or_else(unfit)
        };
        let server = topology.servers().first().copied().ok_or_else(unfit)?;
        let workers: [_; CHILDREN] = topology.workers().try_into().map_err(|_| unfit())?;
        let [first, second] = workers;
        let (server_node, worker_nodes) = (node(server)?, [node(first)?, node(second)?]);
        let frames = [header(worker_nodes[0], server_node)?, header(worker_nodes[1], server_node)?];
        let flow = Flow {
            job: JobId::new(JOB).ok_or_else(unfit)?,
            switch: switch.id,
            server: server_node.id,
            parent_port: port_to(server)?,
            window: 1,
            width,
            frames,
        };
        let child_ports = [port_to(first)?, port_to(second)?];
        Ok(Self { lab, options, switch, server: server_node, workers: worker_nodes, flow, child_ports })
    }

    /// All runs of one setting, with the switches in turn.
    fn turns(
        &self,
        setting: Setting,
        stop: &AtomicBool,
        done: &mut impl FnMut(&Setting, &Run),
    ) -> Result<Vec<Run>, SwitchLabError> {
        let flow = Flow { window: setting.window, ..self.flow };
        let mut runs = Vec::new();
        for number in 1..=self.options.runs {
            for switch in &self.options.switches {
                let run = self.run(&flow, *switch, number, stop)?;
                done(&setting, &run);
                runs.push(run);
            }
        }
        Ok(runs)
    }

    fn run(
        &self,
        flow: &Flow,
        switch: SwitchUnderTest,
        number: usize,
        stop: &AtomicBool,
    ) -> Result<Run, SwitchLabError> {
        let process = switch::Process::start(
            self.lab,
            &self.options.program,
            (self.switch, self.child_ports),
            switch,
            flow,
        )?;
        if let Some(target) = process.target() {
            process.explain(tables::install(self.lab, target, flow, self.child_ports))?;
        }
        let mut generator = self.generator(flow)?;
        process.explain(generator.run(WARM_UP, stop).map_err(Into::into))?;
        let before = process.cpu()?;
        let counted = process.explain(generator.run(self.options.seconds, stop).map_err(Into::into))?;
        let times = process.cpu()?.since(before);
        if stop.load(Ordering::Relaxed) {
            return Err(SwitchLabError::Stopped);
        }
        Ok(Run::new(switch, number, &counted, times))
    }

    fn generator(&self, flow: &Flow) -> Result<Generator, SwitchLabError> {
        let [first, second] = self.workers;
        let bytes = flow.frame_bytes();
        let sender = |worker| self.at(worker, |interface| Sender::open(interface, bytes));
        let children = [sender(first)?, sender(second)?];
        let parent = self.at(self.server, |interface| Receiver::open(interface, bytes))?;
        Ok(Generator::new(*flow, children, parent))
    }

    /// Opens a socket on a host's interface.
    fn at<T: Send>(
        &self,
        host: &Node,
        open: impl FnOnce(&str) -> Result<T, GeneratorError> + Send,
    ) -> Result<T, SwitchLabError> {
        let interface = self.lab.interfaces(&host.name)?.first().ok_or(SwitchLabError::Topology)?;
        Ok(self.lab.inside(&host.name, || open(&interface.name))??)
    }
}

fn header(worker: &Node, server: &Node) -> Result<FrameHeader, SwitchLabError> {
    let host = |node: &Node| node.host().cloned().ok_or(SwitchLabError::Topology);
    let (Host { mac, ip, .. }, to) = (host(worker)?, host(server)?);
    Ok(FrameHeader { source_mac: mac, destination_mac: DESTINATION, source_ip: ip, destination_ip: to.ip })
}
