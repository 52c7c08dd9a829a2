// SPDX-License-Identifier: Apache-2.0
//
// Forwards all other frames. A frame without an entry of the controller is dropped, because a switch that
// learns or floods by itself would cause loops in a topology with several paths.

control Forwarding(
    in headers_t hdr,
    inout metadata_t meta,
    inout standard_metadata_t standard_metadata)
{
    action forward(bit<9> port) {
        standard_metadata.egress_spec = port;
    }

    action broadcast(bit<16> group) {
        standard_metadata.mcast_grp = group;
        meta.prune_ingress_port = 1;
    }

    action to_controller() {
        standard_metadata.egress_spec = CPU_PORT;
    }

    action drop() {
        mark_to_drop(standard_metadata);
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
