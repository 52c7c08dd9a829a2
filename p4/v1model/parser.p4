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

    // What the controller sends goes out as it is, so nothing behind its header is looked at.
    state parse_packet_out {
        packet.extract(hdr.packet_out);
        transition accept;
    }

    state parse_fabric {
        fabric.apply(packet, hdr, meta.frame);
        transition accept;
    }
}
