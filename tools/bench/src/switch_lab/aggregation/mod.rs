//! An aggregating switch: the program of Tributary with one job of two children, and a bare loop that
//! shows the most that the machine can do.

mod bare_loop;
mod tables;

use std::sync::atomic::AtomicBool;

use serde::{Deserialize, Serialize};
use tributary_topology::{Host, Node};
use tributary_wire::frame::FrameHeader;
use tributary_wire::{JobId, MacAddr, SliceWidth};

use super::bed::{self, TestBed, Workload};
use super::report::Versus;
use super::switch::SwitchProcess;
use super::tables::Programming;
use super::{Run, SettingResults, SwitchLabError, SwitchLabOptions, SwitchLabReport, SwitchUnderTest};
use crate::generator::{CHILDREN, Flow, Sending, SliceContributions};

/// An arbitrary job number.
const JOB: u16 = 1;
/// An unused address. The hosts' kernels ignore frames to it, but packet sockets receive them.
///
/// The switch forwards by the hop stack.
const DESTINATION: MacAddr = MacAddr(0x02, 0x7b, 0, 0, 0, 1);
/// The limits apply to the embedded switch as labs run it.
///
/// With single frames, no switch on packet sockets can be faster than the loop. So the ratio to the loop is
/// the cost of the switch's program.
const WANTED: [Versus; 4] = [
    Versus { ours: SwitchUnderTest::Joined, other: SwitchUnderTest::Loop, limit: Some(1.0) },
    Versus { ours: SwitchUnderTest::Joined, other: SwitchUnderTest::Bmv2, limit: Some(10.0) },
    Versus { ours: SwitchUnderTest::Softswitch, other: SwitchUnderTest::Loop, limit: None },
    Versus { ours: SwitchUnderTest::Softswitch, other: SwitchUnderTest::Bmv2, limit: None },
];

/// The setting of a measurement.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct AggregationSetting {
    /// The longest packet that the links carry, in bytes.
    pub mtu: u16,
    /// Number of values in a slice.
    pub values: usize,
    /// Slices in flight at once.
    pub window: u32,
}

/// Measures at each MTU, in bytes, with the widest slices that fit, and calls `done` with each run.
///
/// When `stop` is set, the measurement ends after the current run. A run's items are slices.
///
/// # Errors
/// [`SwitchLabError::Stopped`], no root rights, or a switch that does not start or aggregates wrongly.
pub fn measure(
    options: &SwitchLabOptions,
    mtus: &[u16],
    stop: &AtomicBool,
    mut done: impl FnMut(&AggregationSetting, &Run),
) -> Result<SwitchLabReport<AggregationSetting>, SwitchLabError> {
    let mut cases = Vec::new();
    for &mtu in mtus {
        let width = SliceWidth::widest_within(mtu.into())
            .ok_or(SwitchLabError::Mtu(mtu, SliceWidth::NARROWEST.mtu()))?;
        let topology = bed::topology(mtu)?;
        let lab = bed::lab(&topology, options)?;
        let bed = TestBed::new(&lab, &topology, options)?;
        for &window in &options.windows {
            let setting = AggregationSetting { mtu, values: width.values(), window };
            let workload = Aggregation { flow: flow(&bed, width, window)?, child_ports: bed.sender_ports };
            let runs = bed.turns(&workload, stop, |run| done(&setting, run))?;
            cases.push(SettingResults::new(setting, &options.switches, &WANTED, runs)?);
        }
        lab.down()?;
    }
    Ok(SwitchLabReport::new(cases))
}

/// One job, and the switch's ports to its children.
struct Aggregation {
    flow: Flow,
    child_ports: [u16; CHILDREN],
}

impl Workload for Aggregation {
    type Load = SliceContributions;

    fn load(&self) -> Result<SliceContributions, SwitchLabError> {
        Ok(SliceContributions::new(self.flow))
    }

    fn frame_bytes(&self) -> usize {
        self.flow.frame_bytes()
    }

    /// Returns the way in which hosts send: they join frames if the switch does.
    fn sending(&self, switch: SwitchUnderTest) -> Sending {
        if switch.joins() { Sending::Joined } else { Sending::Single }
    }

    fn programming(&self) -> Result<Programming, SwitchLabError> {
        tables::programming(&self.flow, self.child_ports)
    }

    fn start(&self, bed: &TestBed<'_>, switch: SwitchUnderTest) -> Result<SwitchProcess, SwitchLabError> {
        let Self { flow, child_ports } = self;
        match switch {
            SwitchUnderTest::Loop => SwitchProcess::with_log(bed.lab, switch, |log| {
                bare_loop::start(bed.lab, bed.switch, flow, *child_ports, log)
            }),
            switch => bed.start(switch),
        }
    }
}

fn flow(bed: &TestBed<'_>, width: SliceWidth, window: u32) -> Result<Flow, SwitchLabError> {
    let [first, second] = bed.senders;
    Ok(Flow {
        job: JobId::new(JOB).ok_or(SwitchLabError::Topology)?,
        switch: bed.switch.id,
        server: bed.receiver.id,
        parent_port: bed.receiver_port,
        window,
        width,
        frames: [header(first, bed.receiver)?, header(second, bed.receiver)?],
    })
}

fn header(worker: &Node, server: &Node) -> Result<FrameHeader, SwitchLabError> {
    let host = |node: &Node| node.host().cloned().ok_or(SwitchLabError::Topology);
    let (Host { mac, ip, .. }, to) = (host(worker)?, host(server)?);
    Ok(FrameHeader { source_mac: mac, destination_mac: DESTINATION, source_ip: ip, destination_ip: to.ip })
}
