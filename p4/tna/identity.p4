// SPDX-License-Identifier: Apache-2.0

control Identity(in headers_t hdr, inout metadata_t meta, in ingress_intrinsic_metadata_t intrinsic) {
    // Every frame from a port passes here first, so this is where it is counted.
    action set_identity(bit<16> node) {
        meta.node = node;
        meta.other_node = hdr.hop.node ^ node;
        port_ingress.count(intrinsic.ingress_port);
    }

    table identity {
        actions = { set_identity; }
        default_action = set_identity(NO_NODE);
    }

    apply {
        identity.apply();
    }
}
