"""INA messages and their sums (section 3)."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from dataclasses import dataclass, replace

GRADIENT, RESULT = 1, 2
MAX, RETRANSMIT, PROBE = 0x01, 0x02, 0x04
ALL = 0xFFFF
WORD = 1 << 32


@dataclass(frozen=True)
class Packet:
    """An INA message. Its values are unsigned."""

    kind: int
    flags: int
    job: int
    rank: int
    seq: int
    contributors: int
    weight: int
    tag: tuple[int, int]
    values: tuple[int, ...]
    hops: tuple[bytes, ...] = ()

    def header(self) -> bytes:
        """Encodes the 28 bytes in front of the hop stack (section 3.2)."""
        first = (2 << 4 | self.kind, self.flags, self.job, self.rank, len(self.hops), len(self.values) // 32)
        return struct.pack(">BBHHBB5I", *first, self.seq, self.contributors, self.weight, *self.tag)


def hop(node: int, egress_port: int, child: int, fan_in: int) -> bytes:
    """Encodes the entry of a node that aggregates (section 3.3)."""
    return struct.pack(">HHBB", node, egress_port, 0x80 | child, fan_in)


def probe(packet: Packet) -> Packet:
    """Returns the PROBE that a switch makes of a GRADIENT and forwards (section 3.7)."""
    empty = replace(packet, contributors=0, weight=0, tag=(0, 0), values=())
    return replace(empty, flags=packet.flags | PROBE, hops=packet.hops[1:])


def aggregate(packets: Sequence[Packet]) -> Packet:
    """Returns the sum that a switch forwards when the last of these packets has come (sections 3.5 and 5.2)."""
    last = packets[-1]
    columns = zip(*(packet.values for packet in packets), strict=True)
    is_max = last.flags & MAX
    values = tuple(max(v & 0x7FFFFFFF for v in column) if is_max else sum(column) % WORD for column in columns)
    high, low = (sum(packet.tag[digit] for packet in packets) % WORD for digit in (0, 1))
    contributors, weight = (sum(getattr(p, name) for p in packets) % WORD for name in ("contributors", "weight"))
    total = replace(last, contributors=contributors, weight=weight, tag=(high, low))
    return replace(total, values=values, hops=last.hops[1:])
