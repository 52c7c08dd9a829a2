"""Tags, vouchers and masks (sections 11 to 13)."""

from __future__ import annotations

import hashlib
import struct
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cache

from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes

from reference.numbers import Operation, log2_up, signed
from reference.packets import WORD, Packet

PRIMES = {29: 27, 28: 5, 27: 33, 26: 47, 25: 27, 24: 59, 23: 21, 22: 17, 21: 11, 20: 87, 19: 45, 18: 5, 17: 41}
"""The distance of the prime P from 2^(2k), by k."""


@cache
def cipher(secret: bytes, purpose: bytes) -> Callable[[int], int]:
    """Returns AES-128 with the key of section 11.2, from and to numbers of 128 bits."""
    key = hashlib.sha256(secret + purpose).digest()[:16]
    encryptor = Cipher(algorithms.AES(key), modes.ECB()).encryptor()
    return lambda block: int.from_bytes(encryptor.update(block.to_bytes(16, "big")), "big")


def vouched(packet: Packet, secret: bytes, finished: int, present: int) -> Packet:
    """Combines a packet's tag with the server's word; a second time yields the tag again (section 12)."""
    key = hashlib.sha256(secret + b"key of the server's word").digest()
    word = cipher(key, b"vouchers")(finished << 112 | present << 96 | packet.seq)
    return replace(packet, tag=(packet.tag[0] ^ word >> 32 & 0xFFFFFFFF, packet.tag[1] ^ word & 0xFFFFFFFF))


@dataclass(frozen=True)
class Generation:
    """A job id and the members who sum under it, by ascending rank."""

    job: int
    members: tuple[int, ...]

    def row(self, rank: int) -> list[tuple[int, int]]:
        """Returns a member with the sign 1 and, unless it is the last one, the next member with the sign -1."""
        at = self.members.index(rank)
        return list(zip(self.members[at : at + 2], (1, -1), strict=False))


@dataclass(frozen=True)
class Slice:
    """One slice of an operation in one generation."""

    secret: bytes
    operation: Operation
    generation: Generation
    seq: int

    @property
    def index(self) -> int:
        """The number of the slice behind the MAX slices; it is negative for MAX slices."""
        return self.operation.at(self.seq) - self.operation.max_slices

    @property
    def is_max(self) -> bool:
        """True for MAX slices."""
        return self.index < 0

    @property
    def is_rest(self) -> bool:
        """True for rest slices."""
        return self.index >= self.operation.sum_slices

    @property
    def digit(self) -> int:
        """The bits of a digit, k."""
        return min(29, 32 - log2_up(len(self.generation.members)))

    @property
    def prime(self) -> int:
        """The prime P of the field (section 11.1)."""
        return (1 << 2 * self.digit) - PRIMES[self.digit]

    def coefficient(self, i: int) -> int:
        """Returns number(i) of section 11.3."""
        return (cipher(self.secret, b"coefficients of tags")(i) >> 8) % self.prime

    def digest(self) -> int:
        """Returns D, the digest of the agreed lanes (section 11.3)."""
        op = self.operation
        if self.is_max or self.is_rest:
            return 0
        maximum = op.maximum(self.index)
        covered = [*op.lanes(self.index), maximum.weight, maximum.values[0]]
        first = op.width + 3 * op.blocks + 1
        return sum(self.coefficient(first + i) * value for i, value in enumerate(covered)) % self.prime

    def number(self, rank: int) -> int:
        """Returns N(rank), of which pads are made (section 11.4)."""
        op = self.operation
        subjects = cipher(self.secret, b"subjects of tags")
        block = self.is_max << 104 | op.kind.number << 96 | op.first_seq << 64 | op.number
        name = int.from_bytes(hashlib.sha256(op.name.encode()).digest()[:8], "big")
        subject = subjects(subjects(block) ^ (op.length << 64 | name))
        members = b"".join(struct.pack(">H", member) for member in self.generation.members)
        pads = cipher(self.secret, b"pads of tags" + members)
        return pads(subject ^ (self.digest() << 64 | self.seq << 32 | self.generation.job << 16 | rank)) >> 8

    def products(self, values: Sequence[int], weight: int, owners: Sequence[int]) -> int:
        """Returns what a tag adds to its pad: products of values, of a weight and of the lanes of these ranks."""
        op = self.operation
        total = self.coefficient(op.width) * weight
        if not self.is_max:
            total += sum(self.coefficient(i) * signed(value) for i, value in enumerate(values))
        lanes = [] if self.is_max or self.is_rest else op.lanes(self.index)
        owned = [i for i, lane in enumerate(lanes) if lane and lane & 0xFFFF in owners]
        return total + sum(self.coefficient(op.width + 1 + i) for i in owned)

    def tag(self, rank: int, values: Sequence[int], weight: int) -> tuple[int, int]:
        """Returns the digits of a member's tag (section 11.4)."""
        pad = sum(sign * self.number(member) for member, sign in self.generation.row(rank))
        return divmod((self.products(values, weight, [rank]) + pad) % self.prime, 1 << self.digit)

    def fits(self, total: Packet) -> bool:
        """Returns true if the digits of a sum are right (section 11.5)."""
        members = self.generation.members
        expected = self.number(members[0]) + self.products(total.values, total.weight, members)
        return ((total.tag[0] << self.digit) + total.tag[1] - expected) % self.prime == 0

    def masked(self, values: Sequence[int], ranks: Sequence[tuple[int, int]]) -> tuple[int, ...]:
        """Adds the streams of ranks to the values, each with its sign; not to those of MAX slices (section 13)."""
        result = list(values)
        for rank, sign in ranks if not self.is_max else []:
            for i in range(0, len(result), 4):
                high = self.generation.job << 48 | self.seq << 16 | rank
                low = (self.operation.number << 16 | i // 4) % (1 << 64)
                stream = cipher(self.secret, b"masks of values")(high << 64 | low)
                masks = struct.unpack("<4I", stream.to_bytes(16, "big"))
                result[i : i + 4] = [(result[i + k] + sign * mask) % WORD for k, mask in enumerate(masks)]
        return tuple(result)
