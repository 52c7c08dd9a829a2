//! A forwarding switch: programs of the kind that people write and run on BMv2.
//!
//! The receiver is behind one port, and both senders' packets go to it. Packets match different entries. The
//! generator computes the expected output itself, without a switch.

mod acl;
mod frame;
mod l2;
mod router;

use std::fmt;
use std::sync::atomic::AtomicBool;

use rand::SeedableRng;
use rand_chacha::ChaCha8Rng;
use serde::{Deserialize, Serialize};
use tributary_p4runtime::entry::Entity;
use tributary_p4runtime::{P4Info, p4::v1::Update};

use super::bed::{self, TestBed, Workload};
use super::report::Versus;
use super::switch::SwitchProcess;
use super::tables::Programming;
use super::{Run, SettingResults, SwitchLabError, SwitchLabOptions, SwitchLabReport, SwitchUnderTest};
use crate::generator::{PacketFlow, Packets, Sending};

const WANTED: [Versus; 2] = [
    Versus { ours: SwitchUnderTest::Bypassing, other: SwitchUnderTest::Bmv2, limit: Some(5.0) },
    Versus { ours: SwitchUnderTest::Softswitch, other: SwitchUnderTest::Bmv2, limit: None },
];
/// The length of an Ethernet frame with the usual MTU.
const MAX_FRAME_BYTES: usize = 1514;
/// The usual MTU.
const MTU: u16 = 1500;
/// Number of flows to which packets belong.
const FLOWS: usize = 512;
/// The seed of the entries and flows, which are the same in every run.
const SEED: u64 = 1;

/// A program of `tools/bench/programs`, with entries.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Program {
    /// An L2 switch with 1,000 addresses.
    L2,
    /// An IPv4 router with 1,000 prefixes; it verifies and updates checksums.
    Router,
    /// 1,000 ternary entries over addresses, protocol and ports.
    Acl,
}

impl Program {
    /// All programs.
    pub const ALL: [Self; 3] = [Self::L2, Self::Router, Self::Acl];

    /// Returns p4c's JSON and the P4Info of the program.
    fn compiled(self) -> [&'static str; 2] {
        match self {
            Self::L2 => {
                [include_str!("../../../programs/l2.json"), include_str!("../../../programs/l2.p4info.txtpb")]
            }
            Self::Router => [
                include_str!("../../../programs/router.json"),
                include_str!("../../../programs/router.p4info.txtpb"),
            ],
            Self::Acl => [
                include_str!("../../../programs/acl.json"),
                include_str!("../../../programs/acl.p4info.txtpb"),
            ],
        }
    }

    fn traffic(self, ports: &Ports, bytes: usize) -> Traffic {
        let random = &mut ChaCha8Rng::seed_from_u64(SEED);
        match self {
            Self::L2 => l2::traffic(random, ports, bytes),
            Self::Router => router::traffic(random, ports, bytes),
            Self::Acl => acl::traffic(random, ports, bytes),
        }
    }
}

impl fmt::Display for Program {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::L2 => "l2",
            Self::Router => "router",
            Self::Acl => "acl",
        })
    }
}

/// The setting of a measurement.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct ForwardingSetting {
    /// The program.
    pub program: Program,
    /// The length of a frame, in bytes, without its check sequence.
    pub bytes: usize,
    /// Packets in flight at once.
    pub window: u32,
}

/// Measures each program with frames of `bytes`, and calls `done` with each run.
///
/// When `stop` is set, the measurement ends after the current run. A run's items are packets.
///
/// # Errors
/// [`SwitchLabError::FrameLength`], [`SwitchLabError::Stopped`], no root rights, or a switch that does not
/// start or forwards wrongly.
pub fn measure(
    options: &SwitchLabOptions,
    programs: &[Program],
    bytes: usize,
    stop: &AtomicBool,
    mut done: impl FnMut(&ForwardingSetting, &Run),
) -> Result<SwitchLabReport<ForwardingSetting>, SwitchLabError> {
    if !(PacketFlow::MIN_BYTES..=MAX_FRAME_BYTES).contains(&bytes) {
        return Err(SwitchLabError::FrameLength {
            bytes,
            least: PacketFlow::MIN_BYTES,
            most: MAX_FRAME_BYTES,
        });
    }
    let topology = bed::topology(MTU)?;
    let lab = bed::lab(&topology, options)?;
    let bed = TestBed::new(&lab, &topology, options)?;
    let ports = Ports { receiver: bed.receiver_port, senders: bed.sender_ports };
    let mut cases = Vec::new();
    for &program in programs {
        for &window in &options.windows {
            let setting = ForwardingSetting { program, bytes, window };
            let workload = Forwarding { setting, traffic: program.traffic(&ports, bytes) };
            let runs = bed.turns(&workload, stop, |run| done(&setting, run))?;
            cases.push(SettingResults::new(setting, &options.switches, &WANTED, runs)?);
        }
    }
    lab.down()?;
    Ok(SwitchLabReport::new(cases))
}

/// The switch's ports.
struct Ports {
    receiver: u16,
    senders: [u16; 2],
}

/// A program's entries, in the order in which they are written, and the flows that match them.
struct Traffic {
    inserted: Vec<Entity>,
    /// Default actions.
    modified: Vec<Entity>,
    flows: Vec<PacketFlow>,
}

struct Forwarding {
    setting: ForwardingSetting,
    traffic: Traffic,
}

impl Workload for Forwarding {
    type Load = Packets;

    fn load(&self) -> Result<Packets, SwitchLabError> {
        Ok(Packets::new(self.setting.window, self.traffic.flows.clone())?)
    }

    fn frame_bytes(&self) -> usize {
        self.setting.bytes
    }

    /// Returns the way to send that costs the generator least, so that the switch is the limit.
    fn sending(&self, _switch: SwitchUnderTest) -> Sending {
        Sending::PastQueue
    }

    fn programming(&self) -> Result<Programming, SwitchLabError> {
        let [json, p4info] = self.setting.program.compiled();
        let p4info = P4Info::parse(p4info).map_err(SwitchLabError::P4Info)?;
        let Traffic { inserted, modified, .. } = &self.traffic;
        let inserted = inserted.iter().map(|entity| entity.insert(&p4info));
        let modified = modified.iter().map(|entity| entity.modify(&p4info));
        let updates = inserted.chain(modified).collect::<Result<Vec<Update>, _>>()?;
        Ok(Programming { json, p4info, updates })
    }

    fn start(&self, bed: &TestBed<'_>, switch: SwitchUnderTest) -> Result<SwitchProcess, SwitchLabError> {
        bed.start(switch)
    }
}
