//! The network that all loads share, and a run on it.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use tributary_lab::{Lab, LabOptions};
use tributary_topology::{Node, Topology};

use super::switch::SwitchProcess;
use super::tables::{self, Programming};
use super::{Run, SwitchLabError, SwitchLabOptions, SwitchUnderTest};
use crate::generator::{Generator, GeneratorError, Load, Receiver, SENDERS, Sender, Sending};

const TOPOLOGY: &str = include_str!("../../../../topologies/two-workers.toml");
const TOPOLOGY_NAME: &str = "topologies/two-workers.toml (built in)";
/// Time for which the switch and the generator run before items are counted.
const WARM_UP: Duration = Duration::from_millis(500);

/// A workload of a measurement: a load, and the settings that a switch needs for it.
pub(super) trait Workload {
    /// The traffic that the generator sends.
    type Load: Load;

    /// Returns the load, from its first item.
    fn load(&self) -> Result<Self::Load, SwitchLabError>;

    /// Returns the length of the load's frames in bytes.
    fn frame_bytes(&self) -> usize;

    /// Returns the way in which the hosts send to this switch.
    fn sending(&self, switch: SwitchUnderTest) -> Sending;

    /// Returns the program and the entries for a switch that runs programs.
    fn programming(&self) -> Result<Programming, SwitchLabError>;

    /// Starts one of the switches. The switch may not be ready yet when this returns.
    fn start(&self, bed: &TestBed<'_>, switch: SwitchUnderTest) -> Result<SwitchProcess, SwitchLabError>;
}

/// Returns the topology of the lab: a switch, two hosts that send, and one host that receives.
pub(super) fn topology(mtu: u16) -> Result<Topology, SwitchLabError> {
    let topology = Topology::parse(TOPOLOGY, TOPOLOGY_NAME).map_err(SwitchLabError::BadTopology)?;
    topology.with_mtu(mtu).map_err(SwitchLabError::BadMtu)
}

/// Brings the network up, with unlimited link rates.
/// The links carry joined frames if a host or switch joins frames.
pub(super) fn lab(topology: &Topology, options: &SwitchLabOptions) -> Result<Lab, SwitchLabError> {
    let lab_options = LabOptions { rates: false, offloads: true, ..LabOptions::new(&options.name) };
    Ok(Lab::up(topology, &lab_options)?)
}

/// The network, and the data that all runs share.
pub(super) struct TestBed<'a> {
    pub(super) lab: &'a Lab,
    options: &'a SwitchLabOptions,
    pub(super) switch: &'a Node,
    pub(super) receiver: &'a Node,
    pub(super) senders: [&'a Node; SENDERS],
    /// The switch's port to the receiver.
    pub(super) receiver_port: u16,
    /// The switch's ports to the senders.
    pub(super) sender_ports: [u16; SENDERS],
}

impl<'a> TestBed<'a> {
    pub(super) fn new(
        lab: &'a Lab,
        topology: &'a Topology,
        options: &'a SwitchLabOptions,
    ) -> Result<Self, SwitchLabError> {
        let unfit = || SwitchLabError::Topology;
        let (key, switch, _) = topology.switches().next().ok_or_else(unfit)?;
        let node = |key| topology.get(key).ok_or_else(unfit);
        let port_to = |key_of_host| {
            let neighbours = topology.neighbours(key);
            neighbours.iter().find(|to| to.node == key_of_host).map(|to| to.port).ok_or_else(unfit)
        };
        let receiver = topology.servers().first().copied().ok_or_else(unfit)?;
        let senders: [_; SENDERS] = topology.workers().try_into().map_err(|_| unfit())?;
        let [first, second] = senders;
        Ok(Self {
            lab,
            options,
            switch,
            receiver: node(receiver)?,
            senders: [node(first)?, node(second)?],
            receiver_port: port_to(receiver)?,
            sender_ports: [port_to(first)?, port_to(second)?],
        })
    }

    /// Starts a switch that runs programs.
    pub(super) fn start(&self, switch: SwitchUnderTest) -> Result<SwitchProcess, SwitchLabError> {
        SwitchProcess::start(self.lab, &self.options.program, self.switch, switch)
    }

    /// Makes all runs of one setting, with the switches in turn. Calls `done` with each run.
    pub(super) fn turns(
        &self,
        workload: &impl Workload,
        stop: &AtomicBool,
        mut done: impl FnMut(&Run),
    ) -> Result<Vec<Run>, SwitchLabError> {
        let mut runs = Vec::new();
        for number in 1..=self.options.runs {
            for switch in &self.options.switches {
                let run = self.run(workload, *switch, number, stop)?;
                done(&run);
                runs.push(run);
            }
        }
        Ok(runs)
    }

    fn run(
        &self,
        workload: &impl Workload,
        switch: SwitchUnderTest,
        number: usize,
        stop: &AtomicBool,
    ) -> Result<Run, SwitchLabError> {
        let process = workload.start(self, switch)?;
        if let Some(target) = process.target() {
            process.explain(tables::install(self.lab, target, workload.programming()?))?;
        }
        let mut generator = self.generator(workload, switch)?;
        process.explain(generator.run(WARM_UP, stop).map_err(Into::into))?;
        let before = process.cpu()?;
        let counted = process.explain(generator.run(self.options.seconds, stop).map_err(Into::into))?;
        let times = process.cpu()?.since(before);
        if stop.load(Ordering::Relaxed) {
            return Err(SwitchLabError::Stopped);
        }
        Ok(Run::new(switch, number, &counted, times))
    }

    /// Makes the generator, with its sockets at the hosts.
    fn generator<W: Workload>(
        &self,
        workload: &W,
        switch: SwitchUnderTest,
    ) -> Result<Generator<W::Load>, SwitchLabError> {
        let [first, second] = self.senders;
        let bytes = workload.frame_bytes();
        let load = workload.load()?;
        let (sending, sizes) = (workload.sending(switch), (bytes, load.window()));
        let sender = |host| self.at(host, |interface| Sender::open(interface, sending, sizes));
        let senders = [sender(first)?, sender(second)?];
        let receiver = self.at(self.receiver, |interface| match sending {
            Sending::Joined => Receiver::open_joined(interface),
            Sending::Single | Sending::PastQueue => Receiver::open(interface, sizes),
        })?;
        Ok(Generator::new(load, senders, receiver))
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
