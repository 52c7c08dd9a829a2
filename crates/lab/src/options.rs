//! The options of a lab.

use tributary_topology::Topology;

use crate::error::LabError;
use crate::names;

/// The content of the switches' namespaces.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SwitchKind {
    /// Only the interfaces; the creator of the lab starts a switch there.
    None,
    /// A kernel bridge on the ports of the topology's [spanning tree](tributary_topology::Forwarding). The
    /// other ports are up but not in the bridge, so that no frame circulates.
    Bridge,
}

impl SwitchKind {
    /// Returns the kind that the daemons of a fabric need. If no switch of the topology is programmable,
    /// these are kernel bridges. Otherwise only the interfaces exist, and the lab starts switches on them.
    pub fn for_daemons(topology: &Topology) -> Self {
        let programmable = topology.switches().any(|(_, _, switch)| switch.programmable);
        if programmable { Self::None } else { Self::Bridge }
    }
}

/// Options of a lab. [`LabOptions::new`] sets a default for each.
#[derive(Debug, Clone, PartialEq)]
pub struct LabOptions {
    /// The name, unique on the machine: 1 to 32 of a-z, A-Z, 0-9, '_' and '-'. The first character must not
    /// be '-'.
    pub name: String,
    /// The content of the switches' namespaces; only interfaces by default.
    pub switches: SwitchKind,
    /// True if links have the topology's rates (the default).
    ///
    /// Otherwise they are as fast as the machine allows.
    ///
    /// A link's rate counts Ethernet frames without checksum, preamble and gap, as the planner does.
    pub rates: bool,
    /// The probability with which each link loses a frame, independently in each direction; 0 by default.
    /// It has no seed, so each run loses other frames.
    pub loss: f64,
    /// True if the kernel may pass several frames as one; false by default, although the default of veth is
    /// true.
    ///
    /// Programs that read raw frames must then split them. The daemons do so, BMv2 does not.
    pub offloads: bool,
    /// True if each packet is a frame of its own, as with losses; false by default.
    ///
    /// A single frame costs the processors several times as much as a packet of a joined frame.
    pub single_frames: bool,
    /// The number of full-size frames that can wait at the sending end of a link before further frames are
    /// dropped; 512 by default. Only links with a rate have a queue.
    pub queue_frames: u32,
    /// True if hosts know each other's MAC addresses from the start; false by default.
    ///
    /// Otherwise a lost ARP request can delay a measurement for a second.
    pub static_arp: bool,
    /// True if all programs at a node run on one processor; false by default.
    ///
    /// Programs at neighbouring nodes share a processor if possible. This is faster if all nodes have about
    /// the same load and there are more nodes than processors.
    pub pinned: bool,
}

impl LabOptions {
    /// Creates options for links with the topology's rates and without losses. The switches' namespaces
    /// contain only interfaces.
    pub fn new(name: impl Into<String>) -> Self {
        Self {
            name: name.into(),
            switches: SwitchKind::None,
            rates: true,
            loss: 0.0,
            offloads: false,
            single_frames: false,
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
