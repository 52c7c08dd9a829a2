//! The origin of a packet in a pipeline.

/// `standard_metadata.instance_type`, with simple_switch's values.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Instance {
    /// A packet that a port received.
    Normal = 0,
    /// A clone that ingress requested.
    IngressClone = 1,
    /// A clone that egress requested.
    EgressClone = 2,
    /// A packet that begins ingress again after the end of egress.
    Recirculated = 4,
    /// A copy that a multicast group made.
    Replica = 5,
    /// A packet that begins ingress again after the end of ingress.
    Resubmitted = 6,
}

impl From<Instance> for u64 {
    fn from(instance: Instance) -> Self {
        instance as Self
    }
}
