//! The messages, the client and the server that are generated from `proto/`.
//! The generated files are checked in. After a change of `proto/`, `make protos` regenerates
//! `src/generated`.
#![allow(missing_docs, unreachable_pub, unused_qualifications, clippy::all)]

/// The packages `p4.v1` and `p4.config.v1`.
pub mod p4 {
    /// P4Runtime: the service and its messages.
    pub mod v1 {
        include!("generated/p4.v1.rs");
    }
    /// The description of a P4 program.
    pub mod config {
        /// P4Info.
        pub mod v1 {
            include!("generated/p4.config.v1.rs");
        }
    }
}

/// Messages that Google's APIs, including P4Runtime, share.
pub mod google {
    /// The status of a call.
    pub mod rpc {
        include!("generated/google.rpc.rs");
    }
}

/// The descriptors of all these messages, as a serialised `FileDescriptorSet`.
pub(crate) const DESCRIPTORS: &[u8] = include_bytes!("generated/descriptors.bin");
