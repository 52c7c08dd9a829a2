//! Tables `admission` and `sender_admission`: decide which packets of a job a switch admits at a port,
//! and which slots they reach.
//! If several hosts share the port, an entry of `admission` refers packets to `sender_admission`, which has an entry for
//! each sender.

use std::net::Ipv4Addr;

use tributary_wire::constants::{KIND_GRADIENT, KIND_RESULT};
use tributary_wire::{JobId, MacAddr, Rank};

use super::definition::{P4Value, actions, definitions};

definitions! {
    /// A job and an ingress port.
    Key = "admission" { job: JobId, ingress_port: u16 } => Action;

    /// A job, an ingress port, and the addresses of a sender.
    SenderKey = "sender_admission" {
        job: JobId,
        ingress_port: u16,
        source_mac: MacAddr,
        source_ip: Ipv4Addr,
    } => Admit;

    /// The conditions under which a packet is admitted, and the job's resources on the switch.
    Admit = "admit" {
        /// The index of the job's counters.
        job_index: u16,
        /// The first slot of the job on the switch; 0 if it has none.
        slot_base: u32,
        /// The bits of a sequence number that select a slot of the job; 0 if it has none.
        slot_mask: u32,
        /// A bit mask of the switch's children that send through this port.
        children: u64,
        /// The kinds of packets that the switch admits at this port.
        kinds: Kinds,
        /// The `aggregate` flag that the packets' hop for this switch must have.
        aggregate: bool,
        /// The fan-in that the packets' hop for this switch must have.
        fan_in: u8,
        /// The rank that gradients must have; [`Rank::ALL`] if several workers send them through this port.
        rank: Rank,
    }

    /// Refers the packet to the table `sender_admission`.
    AdmitBySender = "admit_by_sender" {}
}

actions! {
    /// The treatment of packets, from any sender.
    Action { Admit, AdmitBySender }
}

/// The parameter of [`Admit`] whose width is the number of children that the switch can distinguish.
pub(crate) const CHILDREN: &str = "children";

/// A set of kinds of packets.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Kinds {
    pub(crate) gradients: bool,
    pub(crate) results: bool,
}

/// A bit mask. The value of each kind is its bit.
impl P4Value for Kinds {
    fn to_number(self) -> u128 {
        let bit = |set, kind| if set { kind } else { 0 };
        (bit(self.gradients, KIND_GRADIENT) | bit(self.results, KIND_RESULT)).into()
    }

    fn from_number(number: u128) -> Option<Self> {
        let has = |kind: u8| number & u128::from(kind) != 0;
        let kinds = Self { gradients: has(KIND_GRADIENT), results: has(KIND_RESULT) };
        (kinds.to_number() == number).then_some(kinds)
    }
}
