// SPDX-License-Identifier: Apache-2.0

parser SwitchParser(
    packet_in packet,
    out headers_t hdr,
    inout metadata_t meta,
    inout standard_metadata_t standard_metadata)
{
    FabricParser() fabric;

    state start {
        transition select(standard_metadata.ingress_port) {
            CPU_PORT: parse_packet_out;
            default: parse_fabric;
        }
    }

    // A packet-out is sent unchanged, so the parser stops after its header.
    state parse_packet_out {
        packet.extract(hdr.packet_out);
        transition accept;
    }

    state parse_fabric {
        fabric.apply(packet, hdr, meta.frame);
        transition accept;
    }
}
