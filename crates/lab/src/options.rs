//! The kind of network that a lab is.

use tributary_topology::Topology;

use crate::error::LabError;
use crate::names;

/// The contents of the switches' namespaces.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SwitchKind {
    /// Only the interfaces: the lab's creator starts a switch on them.
    None,
    /// A kernel bridge on the ports of the topology's [spanning tree](tributary_topology::Forwarding); the
    /// other ports are up but not in the bridge, so that no frame circulates.
    Bridge,
}

impl SwitchKind {
    /// The kind that a fabric's daemons need: kernel bridges if no switch of the topology is programmable,
    /// otherwise interfaces for the switches that are started there.
    pub fn for_daemons(topology: &Topology) -> Self {
        let programmable = topology.switches().any(|(_, _, switch)| switch.programmable);
        if programmable { Self::None } else { Self::Bridge }
    }
}

/// Options of a lab. [`LabOptions::new`] gives each one a sensible value.
#[derive(Debug, Clone, PartialEq)]
pub struct LabOptions {
    /// The name, unique on the machine: 1 to 32 of a-z, A-Z, 0-9, '_' and, but not first, '-'.
    pub name: String,
    /// The contents of the switches' namespaces; nothing by default.
    pub switches: SwitchKind,
    /// True if links have the topology's rates (the default).
    ///
    /// Otherwise they are as fast as the machine allows.
    ///
    /// A link's rate counts Ethernet frames without checksum, preamble and gap, as the planner does.
    pub rates: bool,
    /// The probability with which each link loses each frame, in either direction, independently; 0 by
    /// default. It is not seeded: each run loses other frames.
    pub loss: f64,
    /// True if the kernel may carry many frames as one; off by default, although virtual
    /// cables default to on.
    ///
    /// Programs that read raw frames have to split them: the daemons do, BMv2 does not.
    pub offloads: bool,
    /// The number of full-size frames that can wait at the sending end of a link before more are dropped;
    /// 512 by default. Only links with a rate have a queue.
    pub queue_frames: u32,
    /// True if hosts know each other's MAC addresses from the start; false by default.
    ///
    /// Otherwise a lost ARP request can delay a measurement for a second.
    pub static_arp: bool,
    /// True if programs at a node run on one processor only; false by default.
    ///
    /// Programs at the node's neighbours run on the same processor as far as possible. It is faster if all nodes have
    /// about the same load, and there are more nodes than processors.
    pub pinned: bool,
}

impl LabOptions {
    /// Links with the topology's rates, no losses, nothing in the switches.
    pub fn new(name: impl Into<String>) -> Self {
        Self {
            name: name.into(),
            switches: SwitchKind::None,
            rates: true,
            loss: 0.0,
            offloads: false,
            queue_frames: 512,
            static_arp: false,
            pinned: false,
        }
    }

    pub(crate) fn check(&self) -> Result<(), LabError> {
        if !names::is_lab_name(&self.name) {
            return Err(LabError::BadName(self.name.clone()));
        }
        if !(0.0..1.0).contains(&self.loss) {
            return Err(LabError::BadLoss(self.loss));
        }
        if self.queue_frames == 0 {
            return Err(LabError::BadQueue);
        }
        Ok(())
    }
}
