// SPDX-License-Identifier: Apache-2.0

// The header packet_out is not emitted, because it is for this switch only.
control SwitchDeparser(packet_out packet, in headers_t hdr) {
    apply {
        packet.emit(hdr.packet_in);
        packet.emit(hdr.ethernet);
        packet.emit(hdr.ipv4);
        packet.emit(hdr.udp);
        packet.emit(hdr.ina);
        packet.emit(hdr.hop);
        packet.emit(hdr.later_hops);
#define EMIT_VALUES(first, upto, next) packet.emit(hdr.values_##first);
        HEADERS(EMIT_VALUES)
    }
}
