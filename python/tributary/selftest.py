"""Tests sums over the fabric on this network, and on this machine's accelerator if it has one.

Start one process for each rank, on at least two hosts, as for a training:

    tributary lab run topologies/two-workers.toml -- python -m tributary.selftest

Rank 0 prints a report. The exit code is 1 if a result is wrong on any rank.
"""

from __future__ import annotations

import argparse
import os
import statistics
import sys
import time
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from functools import partial
from typing import Any

import torch
import torch.distributed as dist
from torch.distributed import ReduceOp

from tributary.torch.backend import FABRIC_TYPES, FabricBackend, backend_of
from tributary.torch.group import NAME

ROUNDS = 5
"""Repetitions of each measurement."""
SIZES = (1, 1000)
"""Numbers of elements of all types."""
LARGE = (1 << 20) + 3
"""The number of elements of a tensor that a device copies in several parts."""
LARGE_TYPES = (torch.bfloat16, torch.float32, torch.int32)
REPETITIONS = 5
"""Repetitions of each test of the order on streams."""
MIB = 1 << 20


def factor(rank: int) -> int:
    """Returns the factor of a rank's values. The sums of any number of ranks are small, and so exact in bfloat16."""
    return rank + 1 if rank < 8 else rank % 2 * 2 - 1


class Selftest:
    """The tests of one rank."""

    def __init__(self, device: torch.device, nbytes: int) -> None:
        self.device = device
        self.nbytes = nbytes
        self.rank, self.size = dist.get_rank(), dist.get_world_size()
        self.wrong: list[str] = []
        """The results that are wrong, or the errors."""

    def pattern(self, count: int, dtype: torch.dtype, factor: int) -> torch.Tensor:
        """Returns multiples of 0 to 4."""
        return (torch.arange(count, device=self.device) % 5 * factor).to(dtype)

    @property
    def factors(self) -> int:
        """The sum of the factors of all ranks."""
        return sum(map(factor, range(self.size)))

    def check(self, what: str, result: torch.Tensor, expected: torch.Tensor) -> None:
        """Notes a wrong result."""
        if not torch.equal(result, expected):
            self.wrong.append(what)

    def values(self) -> int:
        """Compares sums of all types and layouts with their values; returns the number of results."""
        results = 0
        for dtype in sorted(FABRIC_TYPES, key=str):
            for count in (*SIZES, *([LARGE] if dtype in LARGE_TYPES else [])):
                own, expected = self.pattern(count, dtype, factor(self.rank)), self.pattern(count, dtype, self.factors)
                results += self._values_of(f"{dtype}, {count} elements", own, expected)
        own = torch.arange(1000, device=self.device, dtype=torch.float32) + self.rank
        dist.broadcast(own, 0)
        self.check("broadcast", own, torch.arange(1000, device=self.device, dtype=torch.float32))
        parts = [torch.empty(3, device=self.device) for _ in range(self.size)]
        dist.all_gather(parts, torch.full((3,), float(self.rank), device=self.device))
        self.check("all-gather", torch.stack(parts)[:, 0], torch.arange(self.size, device=self.device).float())
        return results + 2

    def _values_of(self, what: str, own: torch.Tensor, expected: torch.Tensor) -> int:
        whole = own.clone()
        dist.all_reduce(whole)
        self.check(f"all-reduce of {what}", whole, expected)
        column = torch.stack((own, own), dim=1)[:, 1]
        dist.all_reduce(column)
        self.check(f"all-reduce of a column of {what}", column, expected)
        part = torch.empty_like(own)
        dist.reduce_scatter_single(part, own.repeat(self.size))
        self.check(f"reduce-scatter of {what}", part, expected)
        if own.dtype == torch.bool:
            return 3
        average = own * 0 + self.rank % 2 * 2
        dist.all_reduce(average, op=ReduceOp.AVG)
        twos = torch.full_like(average, self.size // 2 * 2)
        rounding = None if twos.is_floating_point() else "trunc"
        # The host divides the sums, also for tensors of a device.
        self.check(f"average of {what}", average.cpu(), twos.cpu().div(self.size, rounding_mode=rounding))
        return 4

    def order(self) -> int:
        """Checks the order of sums and other operations on streams; returns the number of results."""
        for number in range(REPETITIONS):
            for way in range(4):
                self._ordered(number, way)
        return 4 * REPETITIONS

    def _ordered(self, number: int, way: int) -> None:
        first, second = self._stream(), self._stream()
        count = (1000, LARGE)[number % 2]
        values, taken = torch.zeros(count, device=self.device), torch.zeros(count, device=self.device)
        if self.device.type != "cpu":
            ready = torch.accelerator.current_stream().record_event()
            first.wait_event(ready)
        with self._on(first):
            # The values are late, so a copy that does not wait would send zeros.
            self._compute(2)
            values.copy_(self.pattern(count, torch.float32, factor(self.rank) + number))
            work = dist.all_reduce(values, async_op=True)
            again = dist.all_reduce(values, async_op=True) if way == 3 else None
        with self._on(second):
            if way == 1:
                work.get_future().wait()
            elif way == 2:
                work.block_current_stream()
            else:
                (again or work).wait()
            taken.copy_(values)
            values.zero_()
        if self.device.type != "cpu":
            second.synchronize()
        total = (self.factors + number * self.size) * (self.size if again else 1)
        self.check(f"order {number}, way {way}", taken, self.pattern(count, torch.float32, total))
        work.wait()

    def _stream(self) -> Any:
        return None if self.device.type == "cpu" else torch.Stream(device=self.device)

    @staticmethod
    def _on(stream: Any) -> AbstractContextManager[Any]:
        return nullcontext() if stream is None else stream

    def _compute(self, repetitions: int) -> None:
        side = 256 if self.device.type == "cpu" else 2048
        square = torch.ones(side, side, device=self.device)
        for _ in range(repetitions):
            square = square @ square / side

    def _seconds(self, run: Callable[[], object]) -> float:
        """Returns the median time of a function, up to the end of its operations on the device."""
        times = []
        for _ in range(ROUNDS):
            dist.barrier()
            begin = time.perf_counter()
            run()
            if self.device.type != "cpu":
                torch.accelerator.synchronize()
            times.append(time.perf_counter() - begin)
        return statistics.median(times)

    def speed(self) -> tuple[float, float, float]:
        """Measures an all-reduce, a computation of about the same time, and both at once, in seconds."""
        values = torch.ones(self.nbytes // 4, device=self.device)
        reduce = partial(dist.all_reduce, values)
        reduce()
        reducing = self._seconds(reduce)
        self._compute(1)
        repetitions = torch.tensor(max(round(reducing / self._seconds(partial(self._compute, 10)) * 10), 1))
        # All ranks compute equally long.
        dist.broadcast(repetitions, 0)
        compute = partial(self._compute, int(repetitions))

        def both() -> None:
            work = dist.all_reduce(values, async_op=True)
            compute()
            work.wait()

        return reducing, self._seconds(compute), self._seconds(both)


def device_of(name: str | None) -> torch.device:
    """Returns the device to test: the named one, or the accelerator, or the CPU.

    Raises:
        SystemExit: this machine has no such device.
    """
    accelerator = torch.accelerator.current_accelerator(check_available=True)
    kind = torch.device(name or accelerator or "cpu")
    if kind.type == "cpu":
        return kind
    if accelerator is None or accelerator.type != kind.type:
        raise SystemExit(
            f"PyTorch finds no device {kind.type} on this machine: install its driver, or test --device cpu"
        )
    local = int(os.environ.get("LOCAL_RANK", "0")) % torch.accelerator.device_count()
    index = kind.index if kind.index is not None else local
    torch.accelerator.set_device_index(index)
    return torch.device(kind.type, index)


def report(test: Selftest, backend: FabricBackend) -> list[str]:
    """Runs the tests; returns the report of this rank."""
    lines = []
    for name, run in (("values", test.values), ("order", test.order)):
        before = len(test.wrong)
        count = run()
        wrong = test.wrong[before:]
        lines.append(f"{name}: {count - len(wrong)} of {count} results are right")
        lines += [f"  wrong: {one}" for one in wrong[:10]]
    reducing, computing, both = test.speed()
    hidden = max(reducing + computing - both, 0) / min(reducing, computing)
    lines.append(
        f"bandwidth: an all-reduce of {test.nbytes / MIB:g} MiB takes {reducing * 1e3:.1f} ms, "
        f"{test.nbytes / reducing / 1e6:.1f} MB/s"
    )
    lines.append(
        f"overlap: {computing * 1e3:.1f} ms of computation and the all-reduce take {both * 1e3:.1f} ms together, so "
        f"{min(hidden, 1):.0%} of the shorter one is hidden"
    )
    lines.append(f"memory: {backend.device_memory / MIB:g} MiB of pinned host memory")
    return lines


def main() -> int:
    """Runs the command; returns its exit code."""
    parser = argparse.ArgumentParser(
        prog="python -m tributary.selftest", description=(__doc__ or "").partition("\n")[0]
    )
    parser.add_argument("--device", help="the device to test, such as cuda [default: the accelerator, or cpu]")
    parser.add_argument("--mebibytes", type=int, default=16, help="the size of the measured all-reduce [default: 16]")
    options = parser.parse_args()
    device = device_of(options.device)
    if "RANK" not in os.environ:
        raise SystemExit(
            "this command needs a process for each rank: start it by torchrun on several hosts, or by "
            "`tributary lab run TOPOLOGY -- python -m tributary.selftest`"
        )
    dist.init_process_group(NAME)
    backend = backend_of(None)
    test = Selftest(device, options.mebibytes * MIB)
    lines = report(test, backend)
    failures: list[Any] = [None] * test.size
    dist.all_gather_object(failures, test.wrong)
    if test.rank == 0:
        kind = (
            "the CPU: this machine has no accelerator, or it was not asked for" if device.type == "cpu" else str(device)
        )
        print(f"{test.size} ranks, device {kind}")
        print(*lines, sep="\n")
        for rank, wrong in enumerate(failures):
            if wrong and rank != 0:
                print(f"rank {rank} has {len(wrong)} wrong results, first {wrong[0]}")
        print("FAILED" if any(failures) else "passed", flush=True)
    dist.destroy_process_group()
    return 1 if any(failures) else 0


if __name__ == "__main__":
    sys.exit(main())
