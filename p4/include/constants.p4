// SPDX-License-Identifier: Apache-2.0
//
// The constants of the packet format, and the sizes of the switch. A test compares the Rust constants with
// the lines of this file: keep one plain literal on each line.
#ifndef TRIBUTARY_CONSTANTS_P4
#define TRIBUTARY_CONSTANTS_P4

// Packet format.
const bit<16> INA_UDP_PORT = 0x7472;
const bit<4> INA_VERSION = 2;
const bit<4> KIND_GRADIENT = 1;
const bit<4> KIND_RESULT = 2;
const bit<8> FLAG_MAX = 0x01;
const bit<8> FLAG_RETRANSMIT = 0x02;
const bit<8> FLAG_PROBE = 0x04;
const bit<16> RANK_ALL = 0xffff;
const bit<16> NO_JOB = 0;
const bit<16> NO_NODE = 0;
const bit<16> VALUES_PER_BLOCK = 32;
const bit<8> MAX_BLOCKS = 64;
const bit<8> MAX_HOPS = 8;
const bit<16> INA_HEADER_BYTES = 28;
const bit<16> HOP_BYTES = 6;

// Sizes of the switch.
const bit<32> SLOTS = 4096;
const bit<32> MAX_JOBS = 256;
const bit<32> PORTS = 512;
const bit<9> CPU_PORT = 510;
const bit<9> DROP_PORT = 511;

// Sizes of the tables. A job has up to 64 children and one parent on a switch. If a port leads to a plain
// switch, the job has an entry for the server and for each worker behind that switch.
const bit<32> ADMISSION_ENTRIES = 4096;
const bit<32> SENDER_ADMISSION_ENTRIES = 4096;
const bit<32> EGRESS_GUARD_ENTRIES = 4096;
const bit<32> MAC_ENTRIES = 4096;

// Other protocols.
const bit<16> ETHERTYPE_IPV4 = 0x0800;
const bit<16> ETHERTYPE_VLAN = 0x8100;
const bit<16> ETHERTYPE_SERVICE_VLAN = 0x88a8;
// Stacked tags from before 802.1ad, which bridges of providers still remove.
const bit<16> ETHERTYPE_QINQ_1 = 0x9100;
const bit<16> ETHERTYPE_QINQ_2 = 0x9200;
const bit<16> ETHERTYPE_QINQ_3 = 0x9300;
const bit<8> IP_PROTOCOL_UDP = 17;

#endif
