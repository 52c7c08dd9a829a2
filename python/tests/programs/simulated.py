"""A simulated device, whose streams run in random order and which detects unordered accesses to memory.

Its tensors are tensors of the CPU. An operation runs only when a step of the device chooses its stream, so a copy that
nothing waits for may be late. Each stream, and the host, has a vector clock. Two accesses to the same bytes, of which
one is a write, are an error unless the clocks show that one happened before the other. The order in which the streams
have run then does not matter.
"""

from __future__ import annotations

import os
import sys
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import timedelta
from random import Random
from threading import RLock, local
from typing import Any

import torch
import torch.distributed as dist
from torch.futures import Future

from tributary.torch.devices.device import Device

Clock = dict[str, int]
HOST = "host"


class FaultError(AssertionError):
    """An access to memory that is not ordered, or a wait that cannot end."""


@dataclass
class Mark:
    """A position that a stream or the host will reach."""

    clock: Clock | None = None

    @property
    def is_reached(self) -> bool:
        return self.clock is not None


@dataclass
class Operation:
    """An operation of a stream."""

    run: Callable[[], object] | None = None
    reads: list[torch.Tensor] = field(default_factory=list)
    writes: list[torch.Tensor] = field(default_factory=list)
    waits_for: Mark | None = None
    reaches: Mark | None = None
    enqueued: Clock = field(default_factory=dict)


@dataclass
class SimulatedStream:
    name: str
    operations: deque[Operation] = field(default_factory=deque)
    clock: Clock = field(default_factory=dict)


@dataclass(frozen=True)
class Access:
    begin: int
    end: int
    writes: bool
    actor: str
    time: int


class SimulatedEvent:
    def __init__(self, device: SimulatedDevice) -> None:
        self._device = device
        self._mark: Mark | None = None

    @property
    def is_reached(self) -> bool:
        """True if a wait would end at once. Other than `query`, this orders nothing."""
        return self._mark is None or self._mark.is_reached

    def record(self, stream: SimulatedStream) -> None:
        if not self._device.omits("record"):
            self._mark = Mark()
            self._device.enqueue(Operation(reaches=self._mark), stream)

    def wait(self, stream: SimulatedStream) -> None:
        if not self._device.omits("wait") and self._mark is not None:
            self._device.enqueue(Operation(waits_for=self._mark), stream)

    def synchronize(self) -> None:
        if not self._device.omits("synchronize") and self._mark is not None:
            self._device.run_until(self._mark)

    def query(self) -> bool:
        with self._device.lock:
            if not self.is_reached:
                self._device.step()
            if self._mark is not None and self._mark.clock is not None:
                self._device.notice(self._mark.clock)
            return self.is_reached


class SimulatedFuture(Future[Any]):
    """A future with an event, like PyTorch's futures of devices."""

    def __init__(self, device: SimulatedDevice) -> None:
        super().__init__()
        self._device = device
        self._event = SimulatedEvent(device)

    def set_result(self, result: Any) -> None:
        self._event.record(self._device.current_stream())
        super().set_result(result)

    def then(self, callback: Callable[[Any], Any]) -> SimulatedFuture:
        after = SimulatedFuture(self._device)

        def call(ended: Future[Any]) -> None:
            with self._device.on(self._device.stream()):
                self._event.wait(self._device.current_stream())
                after.set_result(callback(ended))

        super().add_done_callback(call)
        return after

    def wait(self) -> Any:
        value = super().wait()
        self._event.wait(self._device.current_stream())
        return value


class SimulatedDevice(Device):
    """A device in this process.

    It has a fault if `omitted` is a site: the line of a file in `tributary/torch/devices` that records an event, waits
    for one, or keeps memory. The device then ignores this call.
    """

    def __init__(self, seed: int | None, *, omitted: tuple[str, int] | None = None, has_backend: bool = False) -> None:
        """Makes a device.

        Args:
            seed: of the order of the streams; `None` to run each operation when it is enqueued.
            omitted: the faulty site.
            has_backend: true if gloo adds tensors of the ranks of a host.
        """
        self.lock = RLock()
        self.random = Random(seed)
        self.sites: dict[tuple[str, int], str] = {}
        """The sites that were used, each with the call's name."""
        self._runs_at_once = seed is None
        self._omitted = omitted
        self._has_backend = has_backend
        self.copied = 0
        """Bytes that were copied to and from host buffers."""
        self._buffers: set[int] = set()
        self._streams: list[SimulatedStream] = []
        self._thread = local()
        self._clock: Clock = {HOST: 0}
        self._accesses: dict[int, list[Access]] = {}
        self._kept: set[tuple[int, str]] = set()
        self._alive: list[torch.Tensor] = []
        self.default = self.stream()

    @property
    def name(self) -> str:
        return "simulated:0"

    @property
    def unit(self) -> str:
        return f"of process {os.getpid()}"

    @property
    def has_backend(self) -> bool:
        return self._has_backend

    def backend(self, store: Any, rank: int, size: int, timeout: timedelta) -> Any:
        return dist.ProcessGroupGloo(store, rank, size, timeout)

    def current_stream(self) -> SimulatedStream:
        return getattr(self._thread, "stream", self.default)

    def stream(self) -> SimulatedStream:
        with self.lock:
            self._streams.append(SimulatedStream(f"stream {len(self._streams)}"))
            return self._streams[-1]

    @contextmanager
    def on(self, stream: SimulatedStream) -> Iterator[None]:
        before, self._thread.stream = self.current_stream(), stream
        try:
            yield
        finally:
            self._thread.stream = before

    def event(self) -> SimulatedEvent:
        return SimulatedEvent(self)

    def host_buffer(self, nbytes: int) -> torch.Tensor:
        # Bytes that nothing has written show as these values.
        buffer = torch.full((nbytes,), 0x5A, dtype=torch.uint8)
        with self.lock:
            self._buffers.add(_storage(buffer))
            # A tensor that the program has freed may have had this memory.
            self._kept = {kept for kept in self._kept if kept[0] != _storage(buffer)}
        return buffer

    def empty(self, like: torch.Tensor) -> torch.Tensor:
        empty = torch.empty_like(like, memory_format=torch.contiguous_format)
        with self.lock:
            self._alive.append(empty)
            self._kept.add((_storage(empty), self.current_stream().name))
        return empty

    def keep(self, tensor: torch.Tensor, stream: SimulatedStream) -> None:
        if not self.omits("keep"):
            self._kept.add((_storage(tensor), stream.name))

    def copy(self, target: torch.Tensor, source: torch.Tensor) -> None:
        if not self._buffers.isdisjoint((_storage(target), _storage(source))):
            self.copied += source.nbytes
        self.kernel(lambda: target.copy_(source), [source], [target])

    def future(self) -> SimulatedFuture:
        return SimulatedFuture(self)

    def hold(self) -> Callable[[], None]:
        released = Mark()
        self.enqueue(Operation(waits_for=released), self.current_stream())

        def release() -> None:
            with self.lock:
                released.clock = self._tick()

        return release

    def tensor(self, values: torch.Tensor) -> torch.Tensor:
        """Makes a tensor of the device for the default stream."""
        with self.lock:
            self._alive.append(values)
            self._kept.add((_storage(values), self.default.name))
        return values

    def kernel(
        self, run: Callable[[], object], reads: list[torch.Tensor], writes: list[torch.Tensor], *, keeps: bool = False
    ) -> None:
        """Enqueues an operation in the current stream. With `keeps`, its tensors are kept for the stream."""
        stream = self.current_stream()
        with self.lock:
            for tensor in (*reads, *writes):
                key = _storage(tensor), stream.name
                if keeps:
                    self._kept.add(key)
                elif any(storage == key[0] for storage, _ in self._kept) and key not in self._kept:
                    raise FaultError(f"{stream.name} uses memory that is not kept for it")
            self.enqueue(Operation(run, list(reads), list(writes)), stream)

    def omits(self, call: str) -> bool:
        """Returns true if the calling line of the product has the fault."""
        frame = sys._getframe(2)
        file = frame.f_code.co_filename
        if "tributary/torch/devices" not in file:
            return False
        site = file.rpartition("/")[2], frame.f_lineno
        self.sites[site] = call
        return site == self._omitted

    def enqueue(self, operation: Operation, stream: SimulatedStream) -> None:
        with self.lock:
            operation.enqueued = self._tick()
            stream.operations.append(operation)
            if self._runs_at_once:
                while stream.operations and self._is_ready(stream):
                    self._run_next(stream)

    def step(self) -> bool:
        """Runs the next operation of a random stream; returns false if no operation can run."""
        with self.lock:
            ready = [stream for stream in self._streams if stream.operations and self._is_ready(stream)]
            if not ready:
                return False
            self._run_next(self.random.choice(ready))
            return True

    def run_until(self, mark: Mark) -> None:
        """Runs operations until a mark is reached, and lets the host know that."""
        while True:
            with self.lock:
                if mark.clock is not None:
                    self.notice(mark.clock)
                    return
                if not self.step():
                    raise FaultError("the host waits for an event that no stream will reach")

    def notice(self, clock: Clock) -> None:
        """Lets the host know that a stream has reached an event."""
        _merge(self._clock, clock)

    def access(self, tensor: torch.Tensor, *, writes: bool) -> None:
        """Records an access of the host."""
        with self.lock:
            self._check(tensor, writes, HOST, self._tick())

    def _tick(self) -> Clock:
        self._clock[HOST] += 1
        return dict(self._clock)

    @staticmethod
    def _is_ready(stream: SimulatedStream) -> bool:
        mark = stream.operations[0].waits_for
        return mark is None or mark.is_reached

    def _run_next(self, stream: SimulatedStream) -> None:
        operation = stream.operations.popleft()
        _merge(stream.clock, operation.enqueued)
        if operation.waits_for is not None and operation.waits_for.clock is not None:
            _merge(stream.clock, operation.waits_for.clock)
        stream.clock[stream.name] = stream.clock.get(stream.name, 0) + 1
        for tensor in operation.reads:
            self._check(tensor, False, stream.name, stream.clock)
        for tensor in operation.writes:
            self._check(tensor, True, stream.name, stream.clock)
        if operation.run is not None:
            with torch.inference_mode():
                operation.run()
        if operation.reaches is not None:
            operation.reaches.clock = dict(stream.clock)

    def _check(self, tensor: torch.Tensor, writes: bool, actor: str, clock: Clock) -> None:
        """Checks that an access is ordered after all earlier accesses to the same bytes, if it must be."""
        if tensor.numel() == 0:
            return
        begin, end = _span(tensor)
        before = self._accesses.setdefault(_storage(tensor), [])
        for one in before:
            if one.begin < end and begin < one.end and (writes or one.writes) and one.time > clock.get(one.actor, 0):
                kinds = [("writes" if flag else "reads") for flag in (writes, one.writes)]
                raise FaultError(f"{actor} {kinds[0]} bytes that {one.actor} {kinds[1]}, and nothing orders them")
        if writes:
            before[:] = [one for one in before if not (begin <= one.begin and one.end <= end)]
        before.append(Access(begin, end, writes, actor, clock[actor]))


def _merge(clock: Clock, other: Clock) -> None:
    for actor, time in other.items():
        if time > clock.get(actor, 0):
            clock[actor] = time


def _storage(tensor: torch.Tensor) -> int:
    return tensor.untyped_storage().data_ptr()


def _span(tensor: torch.Tensor) -> tuple[int, int]:
    """Returns the bytes of a tensor in its storage, from the first element to the last."""
    unit = tensor.element_size()
    last = sum((size - 1) * stride for size, stride in zip(tensor.shape, tensor.stride(), strict=True))
    return tensor.storage_offset() * unit, (tensor.storage_offset() + last + 1) * unit
