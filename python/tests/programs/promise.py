"""Checks sums of adversarial inputs against `docs/numbers.md`, through NumPy and PyTorch.

    promise.py SEED ELEMENTS

Both ranks generate the contributions of both.
"""

from __future__ import annotations

import sys
import zlib
from datetime import timedelta

import numpy as np
import numpy.typing as npt
import torch
import torch.distributed as dist

from tributary.torch.backend import backend_of

Floats = npt.NDArray[np.float32]

AT_ONCE = 2**16
WIDE = 120
"""Magnitudes are from 2^-WIDE to 2^WIDE."""
STANDARD = 2.0**-12
PAIRED = 2.0**-9
"""The error of the sum of two 16-bit floats, by the largest magnitude of the contributions to `NEIGHBOURS` elements."""
NEIGHBOURS = 8
LARGEST = 2.0**127
"""The magnitude from which a sum may be infinite, because its error can exceed the range of f32."""

choice = np.random.default_rng(int(sys.argv[1]))


def wide(size: int) -> Floats:
    return (choice.uniform(-1, 1, size) * np.exp2(choice.integers(-WIDE, WIDE + 1, size))).astype(np.float32)


def one_huge(size: int) -> Floats:
    """Small values, with a huge one in every 257 values, so that it takes each position in a block."""
    values = choice.normal(0, 1e-9, size).astype(np.float32)
    values[::257] *= np.float32(2.0**WIDE)
    return values


def subnormal(size: int) -> Floats:
    values = choice.integers(-(2**24), 2**24, size) * 2.0**-149
    return np.where(choice.random(size) < 0.2, np.copysign(0.0, values), values).astype(np.float32)


def padded(size: int) -> Floats:
    """Gradients followed by uninitialised memory, which has any bits, also NaN and infinities."""
    values = choice.normal(0, 1e-3, size).astype(np.float32)
    rest = size // 3
    values[-rest:] = choice.integers(0, 2**32, rest, dtype=np.uint32).view(np.float32)
    return values


def not_finite(size: int) -> Floats:
    values = wide(size)
    indices = choice.integers(0, size, size // 5000)
    values[indices] = choice.choice([np.inf, -np.inf, np.nan], len(indices))
    return values


def usual(size: int) -> Floats:
    return choice.normal(0, 1e-2, size).astype(np.float32)


INPUTS = (wide, one_huge, subnormal, padded, not_finite, usual)


def pair(size: int) -> tuple[Floats, Floats]:
    """Returns the contributions of both ranks. A third of the values nearly cancel each other."""
    first, second = (INPUTS[choice.integers(len(INPUTS))](size) for _ in range(2))
    cancels = choice.random(size) < 1 / 3
    return first, np.where(cancels, -first * np.float32(1 + 2**-20), second).astype(np.float32)


def is_near(kind: str, first: Floats, second: Floats, result: Floats) -> npt.NDArray[np.bool_]:
    """Returns true for each sum of 16-bit floats whose error is small beside the largest of eight neighbours."""
    largest = np.fmax(*(np.where(np.isfinite(each), np.abs(each), 0) for each in (first, second)))
    largest = np.pad(largest, (0, -len(largest) % NEIGHBOURS)).reshape(-1, NEIGHBOURS).max(axis=1)
    allowed = PAIRED * largest.astype(np.float64).repeat(NEIGHBOURS)[: len(first)]
    exact = first.astype(np.float64) + second
    least, most = (torch.from_numpy(exact + error).to(TYPES[kind]).float().numpy() for error in (-allowed, allowed))
    near: npt.NDArray[np.bool_] = (least <= result) & (result <= most)
    return near


def check(kind: str, given: tuple[Floats, Floats], result: Floats) -> None:
    """Compares sums with the exact sums, with the tolerance of their kind."""
    first, second = given
    # An addition by IEEE 754 gives the f32 nearest to the exact sum.
    exact = first + second
    if kind in TYPES:
        exact = torch.from_numpy(exact).to(TYPES[kind]).float().numpy()
    right = (result == exact) | (np.isnan(result) & np.isnan(exact))
    if kind in TYPES:
        right |= np.isfinite(exact) & is_near(kind, first, second, result)
    if kind == "standard":
        error = np.abs(result.astype(np.float64) - exact)
        magnitudes = np.abs(first.astype(np.float64)) + np.abs(second)
        right |= np.isfinite(exact) & ((error <= STANDARD * magnitudes) | (np.abs(exact) >= LARGEST))
    indices = np.flatnonzero(~right)
    assert not len(indices), [(kind, at, first[at], second[at], result[at], exact[at]) for at in indices[:5]]


TYPES = {"f16": torch.float16, "bf16": torch.bfloat16}

dist.init_process_group("tributary", timeout=timedelta(seconds=120))
rank, job = dist.get_rank(), backend_of(None).job
assert job is not None
count, done = int(sys.argv[2]), 0
with np.errstate(all="ignore"):
    while done < count:
        size = min(AT_ONCE - int(choice.integers(0, 300)), count - done)
        kind = ["standard", "standard", "precise", "f16", "bf16"][choice.integers(5)]
        # NumPy has no bf16, and `torch.distributed` has no argument for the precision.
        given, by_torch = pair(size), kind == "bf16" or (choice.random() < 0.5 and kind != "precise")
        if kind in TYPES:
            first, second = (torch.from_numpy(each).to(TYPES[kind]).float().numpy() for each in given)
            given = first, second
        tensor = torch.from_numpy(given[rank]).to(TYPES.get(kind, torch.float32), copy=True)
        if by_torch:
            dist.all_reduce(tensor)
        else:
            precision = "float32" if kind == "precise" else "standard"
            job.all_reduce(tensor.numpy(), name=f"values {done}", precision=precision)
        result = tensor.float().numpy()
        check(kind, given, result)
        crcs: list[int] = [0, 0]
        dist.all_gather_object(crcs, zlib.crc32(result.tobytes()))
        assert crcs[0] == crcs[1], (kind, crcs)
        done += size
print(f"kept: {done} elements", flush=True)
dist.destroy_process_group()
