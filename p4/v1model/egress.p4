// SPDX-License-Identifier: Apache-2.0

control SwitchEgress(
    inout headers_t hdr,
    inout metadata_t meta,
    inout standard_metadata_t standard_metadata)
{
    // A flood goes to every port of its tree, except the ingress port.
    action leave() {
        if (meta.prune_ingress_port == 1
            && standard_metadata.egress_port == standard_metadata.ingress_port)
        {
            mark_to_drop(standard_metadata);
        } else {
            port_egress.count(standard_metadata.egress_port);
            if (standard_metadata.egress_port == CPU_PORT) {
                hdr.packet_in.setValid();
                hdr.packet_in.ingress_port = standard_metadata.ingress_port;
                hdr.packet_in.pad = 0;
            }
        }
    }

    apply {
        leave();
    }
}
