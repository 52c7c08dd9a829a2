// SPDX-License-Identifier: Apache-2.0

control Identity(inout metadata_t meta, in standard_metadata_t standard_metadata) {
    // Every frame from a port passes this control first, so it is counted here.
    action set_identity(bit<16> node) {
        meta.node = node;
        port_ingress.count(standard_metadata.ingress_port);
    }

    table identity {
        actions = { set_identity; }
        default_action = set_identity(NO_NODE);
    }

    apply {
        identity.apply();
    }
}
