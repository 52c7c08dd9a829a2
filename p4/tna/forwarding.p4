// SPDX-License-Identifier: Apache-2.0
//
// Forwards all other frames, as in v1model. A frame without an entry of the controller is dropped.

control Forwarding(
    in headers_t hdr,
    inout metadata_t meta,
    inout ingress_intrinsic_metadata_for_deparser_t for_deparser,
    inout ingress_intrinsic_metadata_for_tm_t for_tm)
{
    action forward(bit<9> port) {
        for_tm.ucast_egress_port = port;
    }

    action broadcast(bit<16> group) {
        for_tm.mcast_grp_a = group;
        meta.bridge.prune_ingress_port = 1;
    }

    action to_controller() {
        for_tm.ucast_egress_port = TO_CONTROLLER;
    }

    action drop() {
        for_deparser.drop_ctl = 1;
    }

    table mac_forward {
        key = {
            hdr.ethernet.dst: exact @name("dst");
        }
        actions = { forward; broadcast; to_controller; drop; }
        default_action = drop();
        size = MAC_ENTRIES;
    }

    apply {
        mac_forward.apply();
    }
}
