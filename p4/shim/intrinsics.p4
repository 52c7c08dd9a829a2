// SPDX-License-Identifier: Apache-2.0
//
// The part of TNA's intrinsic metadata that our controls use, with TNA's names and widths.
#ifndef TRIBUTARY_SHIM_INTRINSICS_P4
#define TRIBUTARY_SHIM_INTRINSICS_P4

struct ingress_intrinsic_metadata_t {
    bit<9> ingress_port;
}

struct ingress_intrinsic_metadata_from_parser_t {}

struct ingress_intrinsic_metadata_for_deparser_t {
    bit<3> drop_ctl;
}

struct ingress_intrinsic_metadata_for_tm_t {
    bit<9> ucast_egress_port;
    bit<16> mcast_grp_a;
}

struct egress_intrinsic_metadata_t {
    bit<9> egress_port;
}

struct egress_intrinsic_metadata_from_parser_t {}

struct egress_intrinsic_metadata_for_deparser_t {
    bit<3> drop_ctl;
}

struct egress_intrinsic_metadata_for_output_port_t {}

#endif
