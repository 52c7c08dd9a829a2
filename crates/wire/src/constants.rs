//! The numbers that hosts and switches must agree on.
//!
//! `p4/include/constants.p4` is their source; `tests/constants.rs` fails when one differs from it.

/// UDP destination port of every INA packet.
pub const INA_UDP_PORT: u16 = 0x7472;
/// Version of the INA header that this crate reads and writes.
pub const INA_VERSION: u8 = 2;
/// Header kind of a packet on its way to the server.
pub const KIND_GRADIENT: u8 = 1;
/// Header kind of a packet on its way to the workers.
pub const KIND_RESULT: u8 = 2;
/// Header flag: the operator is MAX; SUM where it is clear.
pub const FLAG_MAX: u8 = 0x01;
/// Header flag: the worker has sent this slice before.
pub const FLAG_RETRANSMIT: u8 = 0x02;
/// Header flag: no values, only a request for a result.
pub const FLAG_PROBE: u8 = 0x04;
/// The rank that stands for every member of the job.
pub const RANK_ALL: u16 = 0xffff;
/// Stands for "no job": an unused slot holds this data-plane job id.
pub const NO_JOB: u16 = 0;
/// Stands for "no node id": a switch with this id forwards by MAC address only.
pub const NO_NODE: u16 = 0;
/// Values in one block.
pub const VALUES_PER_BLOCK: u16 = 32;
/// The most blocks that a slice may have.
pub const MAX_BLOCKS: u8 = 64;
/// The switches' port to their controller.
pub const CPU_PORT: u16 = 510;
/// The most hop entries that a packet can carry.
pub const MAX_HOPS: u8 = 8;
/// Length of the INA header in bytes.
pub const INA_HEADER_BYTES: usize = 28;
/// Length of one hop entry in bytes.
pub const HOP_BYTES: usize = 6;

/// The most children that one switch can distinguish: the hop's child number has room for more,
/// but not the slot's bitmap.
pub const MAX_CHILDREN: usize = 64;
