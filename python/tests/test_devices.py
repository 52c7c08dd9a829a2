"""Tests of tensors of devices, on a simulated device with streams and events."""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future as Answer
from dataclasses import dataclass
from random import Random
from typing import Any

import pytest
from conftest import Run

pytest.importorskip("torch", reason="PyTorch is not installed")
import torch
from programs.simulated import FaultError, SimulatedDevice, SimulatedEvent, SimulatedStream

from tributary import selftest
from tributary.torch import work as works
from tributary.torch.devices import sums
from tributary.torch.devices.device import Device
from tributary.torch.devices.staging import Staging
from tributary.torch.profiling import ProfilerEvent

PROGRAMS = int(os.environ.get("TRIBUTARY_PROGRAMS", "1000"))
"""The number of random programs."""
SEEDS = 250
"""The number of random programs of a test case, and the most that a planted bug may survive."""
MODULUS = 97
"""Values are kept below this number, so that all sums are exact in float32."""
TENSORS, STREAMS = 3, 3
PART_SIZE, BUFFERS = 64, 2


class OneRank:
    """The ranks of a host that has one."""

    rank, size = 0, 1

    def __init__(self, device: SimulatedDevice) -> None:
        self._device = device

    def reduce_scatter(self, share: Any, whole: Any) -> None:
        self._device.copy(share, whole)

    def all_gather(self, whole: Any, share: Any) -> None:
        self._device.copy(whole, share)

    def end(self) -> None:
        """Ends nothing."""


class SteppedSums(sums.DeviceSums):
    """Sums whose parts start when a test says so."""

    staging: Staging

    def start(self, device: Device, *arguments: Any) -> sums.DeviceWork:
        if device.name not in self._stagings:
            self.staging = Staging(device, self._node_of(device), part_size=PART_SIZE, buffers=BUFFERS)
            self._stagings[device.name] = self.staging
        return super().start(device, *arguments)


@dataclass
class Values:
    """A tensor of the device, and the values that it should have."""

    tensor: Any
    expected: Any
    stream: SimulatedStream
    """The stream of the last operation."""
    work: sums.DeviceWork | None = None
    """A collective for which no stream waits yet."""


class Program:
    """A random program. The device, the fabric and the staging make random steps between its operations."""

    def __init__(self, seed: int, omitted: tuple[str, int] | None = None) -> None:
        self.random = Random(seed)
        self.device = SimulatedDevice(seed, omitted=omitted)
        self.sums = SteppedSums(lambda device: OneRank(device) if self.random.random() < 0.3 else None)
        self.streams = [self.device.default, *(self.device.stream() for _ in range(STREAMS - 1))]
        self.calls: deque[Callable[[], object]] = deque()
        """Calls that other threads make in reality."""
        self.in_fabric: list[tuple[Any, int, Answer[None]]] = []
        self.works: list[tuple[sums.DeviceWork, set[int]]] = []
        """All collectives, with the memory that each of them uses."""
        self.values = [self.make(Random(seed + number).randrange(1, 70)) for number in range(TENSORS)]

    def make(self, count: int) -> Values:
        first = torch.arange(count, dtype=torch.float32) % MODULUS
        tensor = first.clone()
        if self.random.random() < 0.3:
            # A view with gaps.
            tensor = torch.stack((first, first), dim=1)[:, 0]
        self.device.tensor(tensor)
        for stream in self.streams:
            self.device.keep(tensor, stream)
        return Values(tensor, first, self.device.default)

    def start_part(self, values: Any, number: int) -> Answer[None]:
        self.device.access(values, writes=False)
        answer: Answer[None] = Answer()
        self.in_fabric.append((values, number, answer))
        return answer

    def end_any_part(self) -> None:
        self.end_part(self.random.randrange(len(self.in_fabric)))

    def end_part(self, index: int) -> None:
        values, number, answer = self.in_fabric.pop(index)
        self.device.access(values, writes=True)
        with torch.inference_mode():
            values.copy_((values * 2 + number) % MODULUS)
        answer.set_result(None)

    def can_start(self) -> bool:
        """Returns true if a part can start over the fabric at once.

        A step must not wait, because only this thread lets the device and the fabric continue.
        """
        to_start = self.sums.staging._to_start if self.sums._stagings else None
        return bool(to_start) and to_start[0].copied_out.is_reached

    def step(self) -> bool:
        """Lets the device, the fabric or a thread make a step; returns false if none of them can."""
        steps: list[Callable[[], object]] = []
        if self.calls:
            steps.append(lambda: self.calls.popleft()())
        if self.in_fabric:
            steps.append(self.end_any_part)
        if self.can_start():
            steps.append(self.sums.staging.start_next)
        for error in filter(None, (work.exception() for work, _ in self.works)):
            raise error
        if (not steps or self.random.random() < 0.7) and self.device.step():
            return True
        if steps:
            self.random.choice(steps)()
        return bool(steps)

    def run_until(self, condition: Callable[[], bool]) -> None:
        while not condition():
            if not self.step():
                raise FaultError("nothing can continue")

    def run(self, operations: int = 12) -> None:
        for _ in range(operations):
            for _ in range(self.random.randrange(8)):
                self.step()
            self.random.choice(
                (self.kernel, self.mix, self.all_reduce, self.all_reduce, self.reduce_scatter, self.read)
            )()
        for values in self.values:
            self.check(values)
        while self.step():
            pass
        assert self.sums.nbytes <= BUFFERS * PART_SIZE

    def acquire(self, values: Values, stream: SimulatedStream) -> None:
        """Lets a stream wait for the last operation on a tensor, as a correct script does."""
        if values.work is not None:
            self.wait(values.work, stream)
            values.work = None
        elif values.stream is not stream:
            event = SimulatedEvent(self.device)
            event.record(values.stream)
            event.wait(stream)
        values.stream = stream

    def wait(self, work: sums.DeviceWork, stream: SimulatedStream) -> None:
        with self.device.on(stream):
            match self.random.randrange(4):
                case 0:
                    # This does not wait for the fabric.
                    work.block_current_stream()
                case 1:
                    future = work.get_future()
                    self.run_until(future.done)
                    future.wait()
                case 2:
                    future = work.get_future().then(lambda ended: ended.value())
                    self.run_until(future.done)
                    future.wait()
                case _:
                    self.run_until(work.has_ended)
                    work.wait()

    def any_stream(self) -> SimulatedStream:
        return self.random.choice(self.streams)

    def kernel(self) -> None:
        values, stream = self.random.choice(self.values), self.any_stream()
        self.acquire(values, stream)
        tensor = values.tensor
        with self.device.on(stream):
            self.device.kernel(lambda: tensor.copy_((tensor * 3 + 1) % MODULUS), [tensor], [tensor], keeps=True)
        values.expected = (values.expected * 3 + 1) % MODULUS

    def mix(self) -> None:
        one, other = self.random.sample(self.values, 2)
        stream = self.any_stream()
        self.acquire(one, stream)
        self.acquire(other, stream)
        count = min(one.tensor.numel(), other.tensor.numel())
        target, source = one.tensor[:count], other.tensor[:count]
        with self.device.on(stream):
            self.device.kernel(
                lambda: target.copy_((target + source) % MODULUS), [target, source], [target], keeps=True
            )
        expected = one.expected.clone()
        expected[:count] = (expected[:count] + other.expected[:count]) % MODULUS
        one.expected = expected

    def all_reduce(self) -> None:
        values, stream = self.random.choice(self.values), self.any_stream()
        if values.work is not None and self.random.random() < 0.5:
            # The script does not wait for the last collective of the same memory: the backend does.
            values.stream = stream
        else:
            self.acquire(values, stream)
        with self.device.on(stream):
            values.work = self.start(values.tensor, values.tensor, 0)
        values.expected = summed(values.expected)

    def reduce_scatter(self) -> None:
        source, output = self.random.sample(self.values, 2)
        if not source.tensor.is_contiguous() or not output.tensor.is_contiguous():
            return
        stream = self.any_stream()
        self.acquire(source, stream)
        self.acquire(output, stream)
        count = self.random.randrange(min(source.tensor.numel(), output.tensor.numel()) + 1)
        first = self.random.randrange(source.tensor.numel() - count + 1)
        with self.device.on(stream):
            # Both tensors are in use until a stream waits.
            source.work = output.work = self.start(source.tensor, output.tensor[:count], first)
        output.expected = output.expected.clone()
        output.expected[:count] = summed(source.expected)[first : first + count]

    def start(self, source: Any, result: Any, first: int) -> sums.DeviceWork:
        used = {one.untyped_storage().data_ptr() for one in (source, result)}
        # The backend waits for the fabric's results of collectives on the same memory. Only this thread makes them.
        before = [work for work, others in self.works if used & others]
        self.run_until(lambda: all(work.has_ended() for work in before))
        self.sums.wait_for_memory([source, result])
        work = self.sums.start(self.device, "a sum", source, result, first, self.start_part, ProfilerEvent("allreduce"))
        self.works.append((work, used))
        return work

    def read(self) -> None:
        self.check(self.random.choice(self.values))

    def check(self, values: Values) -> None:
        stream = self.any_stream()
        self.acquire(values, stream)
        taken = torch.zeros_like(values.expected)
        with self.device.on(stream):
            self.device.kernel(lambda: taken.copy_(values.tensor), [values.tensor], [], keeps=True)
        event = SimulatedEvent(self.device)
        event.record(stream)
        # `run_until` of the device would not let the fabric continue, and a stream may wait for the fabric.
        self.run_until(event.query)
        if not torch.equal(taken, values.expected):
            raise FaultError("wrong values")


def summed(values: Any) -> Any:
    """Returns the sum that the simulated fabric makes."""
    parts = torch.arange(values.numel()) // (PART_SIZE // values.element_size())
    return (values * 2 + parts) % MODULUS


@pytest.fixture(autouse=True)
def callbacks_in_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    """Lets the steps of a program run the calls that threads run otherwise."""

    class Calls:
        have_ended = False

        def submit(self, call: Callable[[], object]) -> None:
            assert running is not None
            running.calls.append(call)

    monkeypatch.setattr(works, "callbacks", Calls())
    monkeypatch.setattr(sums, "callbacks", Calls())


running: Program | None = None


def start_program(seed: int, omitted: tuple[str, int] | None = None) -> Program:
    global running
    running = Program(seed, omitted)
    return running


def run_program(seed: int, omitted: tuple[str, int] | None = None) -> Program:
    program = start_program(seed, omitted)
    program.run()
    return program


@pytest.mark.parametrize("first", range(0, PROGRAMS, SEEDS))
def test_random_programs_are_ordered_and_have_right_values(first: int) -> None:
    for seed in range(first, first + SEEDS):
        try:
            run_program(seed)
        except Exception as error:
            raise AssertionError(f"program {seed}") from error


def test_parts_overlap_in_a_bounded_number_of_buffers() -> None:
    program = start_program(0)
    values = program.make(10 * PART_SIZE // 4)
    work = program.start(values.tensor, values.tensor, 0)
    for ended in range(10):
        # The parts that follow are copied out while the fabric adds.
        while (program.device.step() or program.can_start()) and not work.has_ended():
            if program.can_start():
                program.sums.staging.start_next()
        assert len(program.in_fabric) == min(BUFFERS, 10 - ended)
        assert program.sums.nbytes == BUFFERS * PART_SIZE
        program.end_part(0)
    assert work.has_ended()


def test_the_programs_find_each_missing_event_and_each_reused_memory() -> None:
    sites: dict[tuple[str, int], str] = {}
    for seed in range(SEEDS // 10):
        sites |= run_program(seed).device.sites
    assert set(sites.values()) == {"record", "wait", "synchronize", "keep"}
    assert not [site for site in sites if not finds(site)]


def printed(lines: list[str], label: str) -> list[str]:
    return [text for line in lines for host, _, text in [line.partition(f": {label}: ")] if text]


def test_sums_of_many_streams_go_over_the_fabric(run: Run) -> None:
    lines = run("devices.py", "staged")
    assert printed(lines, "staged") == ["[] 36 True"] * 2, lines


def test_ranks_of_a_host_copy_only_their_shares(run: Run) -> None:
    lines = run("devices.py", "node", ranks_per_host=2)
    results = printed(lines, "node")
    assert len(results) == 4, lines
    assert all(result.startswith("[] ") for result in results), lines
    assert len(set(results)) == 1, lines


def test_distributed_data_parallel_has_the_same_bits_as_with_host_memory(run: Run) -> None:
    lines = run("devices.py", "trains")
    assert printed(lines, "trains") == ["True True"] * 6, lines


def test_an_error_surfaces_at_wait_and_at_the_next_call(run: Run) -> None:
    lines = run("devices.py", "fails")
    (waited,), (called,) = printed(lines, "wait"), printed(lines, "next")
    assert waited.startswith("SumError"), lines
    assert "has left the job" in waited, lines
    assert called.startswith("TributaryError"), lines
    assert "starts no more collectives" in called, lines


def test_a_group_may_name_the_backend_for_each_device(run: Run) -> None:
    lines = run("devices.py", "named")
    assert printed(lines, "named") == ["3.0 1"] * 2, lines


def test_the_self_test_passes_without_an_accelerator(run: Run) -> None:
    lines = run("selftest.py")
    report = "\n".join(lines)
    assert "values: 84 of 84 results are right" in report, lines
    assert "order: 20 of 20 results are right" in report, lines
    assert "this machine has no accelerator" in report, lines
    assert "w0: passed" in lines, lines


def test_the_self_test_fails_if_a_rank_gets_wrong_values(run: Run) -> None:
    lines = run("selftest.py", "wrong", fails=True)
    assert "w0: rank 1 has 1 wrong results, first broadcast" in lines, lines
    assert "w0: FAILED" in lines, lines


@pytest.mark.skipif(torch.cuda.is_available(), reason="this machine has a GPU")
def test_the_self_test_refuses_a_device_that_the_machine_lacks() -> None:
    with pytest.raises(SystemExit, match="PyTorch finds no device cuda on this machine"):
        selftest.device_of("cuda")


def finds(omitted: tuple[str, int]) -> bool:
    """Returns true if a program fails on a device that ignores this call of the product."""
    for seed in range(SEEDS):
        try:
            run_program(seed, omitted)
        except FaultError:
            return True
    return False
