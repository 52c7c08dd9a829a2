// SPDX-License-Identifier: Apache-2.0

control Identity(in headers_t hdr, inout metadata_t meta, in ingress_intrinsic_metadata_t intrinsic) {
    // A default action that the controller sets cannot use a counter.
    action set_identity(bit<16> node) {
        meta.node = node;
        meta.other_node = hdr.hop.node ^ node;
    }

    action count_at_port() {
        port_ingress.count(intrinsic.ingress_port);
    }

    table identity {
        actions = { set_identity; }
        default_action = set_identity(NO_NODE);
    }

    apply {
        identity.apply();
        // Every frame from a port passes this control first.
        count_at_port();
    }
}
