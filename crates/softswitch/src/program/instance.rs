//! Where a packet in a pipeline comes from.

/// `standard_metadata.instance_type`, with simple_switch's values.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Instance {
    /// From a port.
    Normal = 0,
    /// A clone that ingress requested.
    IngressClone = 1,
    /// A clone that egress requested.
    EgressClone = 2,
    /// Back from the end of egress.
    Recirculated = 4,
    /// One of a multicast group's copies.
    Replica = 5,
    /// Back from the end of ingress.
    Resubmitted = 6,
}

impl From<Instance> for u64 {
    fn from(instance: Instance) -> Self {
        instance as Self
    }
}
