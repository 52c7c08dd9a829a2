"""Elements, bounds, scales, limbs and the slices of an operation (section 10)."""

from __future__ import annotations

import math
import struct
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from typing import TypeVar

from reference.packets import WORD, Packet

BIAS = 1100
FORMATS = {">f": (24, -149, 128), ">d": (53, -1074, 1024)}
"""Bits of the significand, and the exponents of the smallest number above 0 and of the first power of two too large."""

Number = int | float
T = TypeVar("T")


def signed(value: int, bits: int = 32) -> int:
    """Reads the lowest bits of a value as a signed integer."""
    value %= 1 << bits
    return value - (1 << bits) if value >> (bits - 1) else value


def log2_up(value: int) -> int:
    """Returns the binary logarithm, rounded up; 0 for values below 1."""
    return max(value - 1, 0).bit_length()


def divided_up(value: int, divisor: int) -> int:
    """Divides, and rounds up."""
    return -(-value // divisor)


def chunks(values: Sequence[T], size: int) -> list[list[T]]:
    """Cuts a sequence into pieces of a size; the last one may be shorter."""
    return [list(values[i : i + size]) for i in range(0, len(values), size)]


@dataclass(frozen=True)
class ElementType:
    """An element type (sections 10.1 and 10.3), with the layouts of elements and of sums."""

    number: int
    layout: str
    sum_layout: str
    d: int = 0
    q: int = 0
    in_value: int = 1
    """The number of elements in a value of a SUM slice."""

    @property
    def is_float(self) -> bool:
        """True for floats, false for integers."""
        return self.sum_layout in FORMATS

    def decode(self, digits: str) -> Number:
        """Reads one element from the hexadecimal digits of its bytes; those of bf16 are the upper half of an f32."""
        digits = digits.ljust(2 * struct.calcsize(self.layout), "0")
        element: Number = struct.unpack(self.layout, bytes.fromhex(digits))[0]
        return element

    def encode(self, total: Fraction | float) -> str:
        """Rounds a total to the sum's type, and writes it in hexadecimal digits."""
        if not self.is_float:
            return struct.pack(self.sum_layout, int(total)).hex()
        precision, smallest, limit = FORMATS[self.sum_layout]
        if isinstance(total, Fraction) and total:
            exponent = abs(total.numerator).bit_length() - total.denominator.bit_length()
            exponent -= abs(total) < Fraction(2) ** exponent
            unit = Fraction(2) ** max(exponent - precision + 1, smallest)
            total = round(total / unit) * unit
            if abs(total) >= 2**limit:
                total = math.inf if total > 0 else -math.inf
        return struct.pack(self.sum_layout, float(total)).hex()

    def product(self, weight: int, element: Number) -> Fraction:
        """Returns w · x, rounded to f64 for the types that section 10.1 names; 0 if x is not finite."""
        if not math.isfinite(element):
            return Fraction(0)
        return Fraction(weight * element) if self.sum_layout == ">f" else weight * Fraction(element)

    def bounds(self, block: Sequence[Number], weight: int, rank: int) -> list[int]:
        """Returns the lanes of a block: top, fine and floor (section 10.3)."""
        finite = [abs(x) if math.isfinite(x) else 0 for x in block]
        if self.in_value == 2:
            finite = [max(group) for group in chunks(finite, 8)]
        magnitudes = [x for x in finite if x]
        if not magnitudes or not weight:
            return [0, 0, 0]
        if not self.is_float:
            return [int(max(magnitudes)).bit_length() << 16 | rank, 0, 0]
        e, f = math.frexp(max(magnitudes))[1], math.frexp(min(magnitudes))[1] - 1
        c = weight.bit_length() - 1 if self.number in (1, 8, 9) else 0
        top, fine, floor = BIAS + e, max(1, BIAS - max(f - self.d + c, self.q)), 0
        if self.number in (1, 8, 9):
            is_floor = len(magnitudes) == len(finite) and all(map(math.isfinite, block))
            floor = BIAS + f + c if is_floor else 0
        return [bound << 16 | rank if bound else 0 for bound in (top, fine, floor)]

    def scale(self, lanes: Sequence[int], total: int, members: int) -> Scale | None:
        """Returns the scale of a block with these agreed lanes; `None` if it holds zeros only (section 10.4)."""
        top, fine, floor = (lane >> 16 for lane in lanes)
        b, m = log2_up(total), min(log2_up(members), 15)
        if not top:
            return None
        if not self.is_float:
            step = 31 - m
            further = divided_up(max(0, top + b - 31), step)
            return Scale(further * step, further, step)
        u = BIAS - fine
        if self.in_value == 2:
            first = top - BIAS + b - (15 if m <= (4 if self.layout == ">e" else 7) else 14)
        else:
            first = top - BIAS + b - (31 if self.sum_layout == ">f" and b <= 7 else 30)
        if floor:
            u = max(u, floor - BIAS - self.d - (m if self.in_value == 1 else 0))
        if self.in_value == 2 and u > self.q:
            u += m // 2
        missing = max(0, first - u)
        if not missing:
            return Scale(first)
        if missing + m + 1 <= 15:
            return Scale(first, 1, missing, missing + m + 1)
        return Scale(first, divided_up(missing, 31 - m), 31 - m)


TYPES = {
    "f32": ElementType(1, ">f", ">f", 11, -149),
    "f16": ElementType(2, ">e", ">f", 10, -24),
    "bf16": ElementType(3, ">f", ">f", 7, -133),
    "i32": ElementType(4, ">i", ">i"),
    "f32, precision float32": ElementType(5, ">f", ">f", 23, -149),
    "f64": ElementType(6, ">d", ">d", 52, -1074),
    "i64": ElementType(7, ">q", ">q"),
    "f16 (paired)": ElementType(8, ">e", ">f", 9, -24, 2),
    "bf16 (paired)": ElementType(9, ">f", ">f", 9, -133, 2),
}


@dataclass(frozen=True)
class Scale:
    """The units of a block's limbs (section 10.4)."""

    first: int
    further: int = 0
    step: int = 0
    field: int = 0

    def unit(self, limb: int) -> Fraction:
        """Returns the unit of a limb."""
        return Fraction(2) ** (self.first - limb * self.step)

    def limbs(self, y: Fraction) -> list[int]:
        """Divides a product into limbs (section 10.5)."""
        result = []
        for limb in range(1 + self.further):
            result.append(round(y / self.unit(limb)))
            y -= result[-1] * self.unit(limb)
        return result

    def packed_length(self, elements: int) -> int:
        """Returns the number of values that the further limbs of elements take."""
        return divided_up(elements, 31 // self.field) if self.field else self.further * elements

    def pack(self, limbs: list[list[int]]) -> list[int]:
        """Arranges the further limbs of a block's elements for rest slices (section 10.6)."""
        if not self.field:
            return [element[k] for k in range(1, 1 + self.further) for element in limbs]
        groups = chunks([element[1] for element in limbs], 31 // self.field)
        return [sum(limb << i * self.field for i, limb in enumerate(group)) % WORD for group in groups]

    def unpack(self, rest: Iterator[int], elements: int) -> list[list[int]]:
        """Reads sums of what `pack` arranges; returns the further limbs of each element."""
        if not self.field:
            columns = [[signed(next(rest)) for _ in range(elements)] for _ in range(self.further)]
            return [[column[i] for column in columns] for i in range(elements)]
        result = []
        for _ in range(self.packed_length(elements)):
            value = signed(next(rest))
            for _ in range(31 // self.field):
                limb = signed(value, self.field)
                result.append([limb])
                value = (value - limb) >> self.field
        return result[:elements]


def classify(element: Number) -> int:
    """Returns the class of a contribution (section 10.6)."""
    if math.isnan(element):
        return 0x00010001
    return 0 if math.isfinite(element) else 0x00000001 if element > 0 else 0x00010000


@dataclass
class Operation:
    """One all-reduce. `results` holds the verified results of its slices, unmasked, by sequence number."""

    width: int
    number: int
    first_seq: int
    name: str
    kind: ElementType
    length: int
    results: dict[int, Packet] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.block = min(self.width, 128) * self.kind.in_value
        self.blocks = max(1, self.width // 128)
        self.bounded = (self.width - 1) // (3 * self.blocks)
        self.sum_slices = divided_up(self.length, self.width * self.kind.in_value)
        self.max_slices = max(1, divided_up(self.sum_slices, self.bounded))

    def at(self, seq: int) -> int:
        """Returns the number of a slice in its operation."""
        return (seq - self.first_seq) % WORD

    def seq(self, index: int) -> int:
        """Returns the sequence number of one of the operation's slices."""
        return (self.first_seq + index) % WORD

    def maximum(self, slice_index: int) -> Packet:
        """Returns the result that bounds a SUM slice, which is counted from the first SUM slice."""
        return self.results[self.seq(slice_index // self.bounded)]

    def lanes(self, slice_index: int) -> list[int]:
        """Returns the agreed lanes of all blocks of a SUM slice (section 3.8)."""
        start = 1 + slice_index % self.bounded * 3 * self.blocks
        return list(self.maximum(slice_index).values[start : start + 3 * self.blocks])

    def scale(self, block: int) -> Scale | None:
        """Returns the scale of a block, which is counted from the operation's first one."""
        slice_index, at = divmod(block, self.blocks)
        maximum = self.maximum(slice_index)
        return self.kind.scale(self.lanes(slice_index)[3 * at :][:3], maximum.weight, maximum.contributors)

    def has_classes(self, block: int) -> bool:
        """Returns true if rest slices carry classes of a block."""
        return self.maximum(block // self.blocks).values[0] != 0

    def lengths(self) -> list[int]:
        """Returns the number of elements of each block."""
        return [min(self.block, self.length - at) for at in range(0, self.length, self.block)]

    def slices(self) -> int:
        """Returns the number of all slices, which follows from the MAX results."""
        values = 0
        for block, elements in enumerate(self.lengths()):
            scale = self.scale(block)
            values += (scale.packed_length(elements) if scale else 0) + elements * self.has_classes(block)
        return self.max_slices + self.sum_slices + divided_up(values, self.width)

    def contribution(self, seq: int, weight: int, elements: Sequence[Number], rank: int) -> list[int]:
        """Returns the values of a member's slice, before masking."""
        blocks = chunks(elements if weight else [0] * self.length, self.block)
        index = self.at(seq)
        if index < self.max_slices:
            blocks = chunks(blocks, self.bounded * self.blocks)[index] if blocks else []
            is_finite = all(math.isfinite(x) for block in blocks for x in block)
            lanes = [lane for block in blocks for lane in self.kind.bounds(block, weight, rank)]
            values = [0 if is_finite else 1 << 16 | rank, *lanes]
        else:
            sums, rest = self.products(blocks, weight)
            index -= self.max_slices
            sums += [0] * (-len(sums) % self.width)
            values = (sums + rest)[index * self.width :][: self.width]
        return [value % WORD for value in values] + [0] * (self.width - len(values))

    def products(self, blocks: Sequence[Sequence[Number]], weight: int) -> tuple[list[int], list[int]]:
        """Returns the values of all SUM slices and of all rest slices (sections 10.5 and 10.6)."""
        sums: list[int] = []
        rest: list[int] = []
        for number, block in enumerate(blocks):
            scale = self.scale(number) or Scale(0)
            limbs = [scale.limbs(self.kind.product(weight, x)) for x in block]
            sums += self.first_limbs([limb[0] for limb in limbs])
            rest += [classify(x) for x in block] if self.has_classes(number) else []
            rest += scale.pack(limbs)
        return sums, rest

    def first_limbs(self, limbs: list[int]) -> list[int]:
        """Returns the values of a block in its SUM slice (section 10.5)."""
        if self.kind.in_value == 1:
            return limbs
        half = self.block // 2
        limbs = limbs + [0] * (self.block - len(limbs))
        return [low + (high << 16) for low, high in zip(limbs[:half], limbs[half:], strict=True)]

    def first_sums(self, first: Iterator[int], elements: int) -> list[int]:
        """Reads the sums of what `first_limbs` arranges."""
        if self.kind.in_value == 1:
            return [next(first) for _ in range(elements)]
        values = [next(first) for _ in range(self.block // 2)]
        lows = [signed(value, 16) for value in values]
        highs = [signed((value - low) >> 16, 16) for value, low in zip(values, lows, strict=True)]
        return (lows + highs)[:elements]

    def sums(self) -> list[str]:
        """Returns the sums of all elements, from the results of all slices (sections 10.5 and 10.6)."""
        results = [self.results[self.seq(i)].values for i in range(self.max_slices, self.slices())]
        first = iter([signed(value) for values in results[: self.sum_slices] for value in values])
        rest = iter([value for values in results[self.sum_slices :] for value in values])
        sums = []
        for block, elements in enumerate(self.lengths()):
            scale = self.scale(block) or Scale(0)
            classes = [next(rest) if self.has_classes(block) else 0 for _ in range(elements)]
            firsts = self.first_sums(first, elements)
            for one, kind, further in zip(firsts, classes, scale.unpack(rest, elements), strict=True):
                limbs = [one, *further]
                total: Fraction | float = sum((n * scale.unit(k) for k, n in enumerate(limbs)), Fraction(0))
                up, down = kind & 0xFFFF, kind >> 16
                if up or down:
                    total = math.nan if up and down else math.inf if up else -math.inf
                sums.append(self.kind.encode(total))
        return sums
