//! Constants that hosts and switches share.
//!
//! Their source is `p4/include/constants.p4`. `tests/suite/constants.rs` fails if a number here differs from it.

/// UDP destination port of every INA packet.
pub const INA_UDP_PORT: u16 = 0x7472;
/// Version of the INA header that this crate reads and writes.
pub const INA_VERSION: u8 = 2;
/// Header kind of a packet on its way to the server.
pub const KIND_GRADIENT: u8 = 1;
/// Header kind of a packet on its way to the workers.
pub const KIND_RESULT: u8 = 2;
/// Header flag: the operator is MAX. If the flag is clear, the operator is SUM.
pub const FLAG_MAX: u8 = 0x01;
/// Header flag: the worker has sent this slice before.
pub const FLAG_RETRANSMIT: u8 = 0x02;
/// Header flag: the packet is a PROBE. It has no values and only requests a result.
pub const FLAG_PROBE: u8 = 0x04;
/// Header flag: one worker sends the slice to all workers. Switches do not read this flag.
/// In a GRADIENT, the values follow the hop stack of a PROBE, so that switches forward them unread.
pub const FLAG_RELAY: u8 = 0x08;
/// The rank that addresses every member of the job.
pub const RANK_ALL: u16 = 0xffff;
/// The job id that means "no job". An unused slot holds it.
pub const NO_JOB: u16 = 0;
/// The node id that means "none". A switch with this id forwards by MAC address only.
pub const NO_NODE: u16 = 0;
/// The number of values in one block.
pub const VALUES_PER_BLOCK: u16 = 32;
/// The maximum number of blocks in a slice.
pub const MAX_BLOCKS: u8 = 64;
/// The port number of a switch's connection to the controller.
pub const CPU_PORT: u16 = 510;
/// The maximum number of hop entries in a packet.
pub const MAX_HOPS: u8 = 8;
/// Length of the INA header in bytes.
pub const INA_HEADER_BYTES: usize = 28;
/// Length of one hop entry in bytes.
pub const HOP_BYTES: usize = 6;

/// The maximum number of children of one switch.
/// The limit is the slot's bitmap; the hop's child number has more bits.
pub const MAX_CHILDREN: usize = 64;
