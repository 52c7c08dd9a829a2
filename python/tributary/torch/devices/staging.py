"""Moves tensors of a device through host memory, in parts, so that copies and the fabric overlap.

A part is copied out to a buffer, summed over the ranks, and copied in. All copies out use one stream, and all copies in
another. The number of buffers is bounded. A copy out to a buffer waits, in its stream, for the last copy in from it.

The thread that requests a sum enqueues copies out while buffers are free. The thread that completes the fabric's
results enqueues copies in, and the copies out that follow. A third thread waits for each copy out, and starts its part
over the fabric, in the order of all sums.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future as Answer
from dataclasses import dataclass
from threading import Condition
from typing import Any

import torch

from tributary.torch.devices.device import Device, Event
from tributary.torch.devices.node import NODE_TYPES, NodeGroup

PART_SIZE = 4 << 20
"""Bytes of a part, and of a buffer."""
BUFFERS = 8
"""The largest number of buffers of a device."""

StartPart = Callable[[torch.Tensor, int], "Answer[Any]"]
"""Starts to sum a part over the fabric, in place, from its values in host memory and its number."""


class Sum:
    """A sum of one tensor of a device over the ranks."""

    def __init__(self, ready: Event, done: Event, start: StartPart, finish: Callable[[], object] | None) -> None:
        self.ready = ready
        """Recorded behind the operations that the sum follows."""
        self.done = done
        """Recorded behind the last operation of the sum. It is valid when `ended` is done."""
        self.start = start
        self.finish = finish
        """Enqueues operations that follow the last copy in, in the current stream."""
        self.ended: Answer[None] = Answer()
        """Done when all copies in are enqueued. It has no exception: see `error`."""
        self.error: BaseException | None = None
        """The first error of a part."""
        self.missing = 0
        """The number of parts whose copy in is not enqueued."""

    def fail(self, error: BaseException) -> None:
        """Keeps the first error."""
        self.error = self.error or error


class Buffer:
    """A buffer in host memory."""

    def __init__(self, memory: torch.Tensor) -> None:
        self.memory = memory
        self.copied_in: Event | None = None
        """The end of the last copy in from this buffer."""


@dataclass(slots=True, eq=False)
class Part:
    """A part of a sum."""

    sum: Sum
    number: int
    source: torch.Tensor
    """The values in the device's memory."""
    target: torch.Tensor
    """Takes some elements of the part's sum, or all, or none."""
    first: int
    """The index in the part of the element that `target` begins with."""
    buffer: Buffer | None = None
    copied_out: Event | None = None
    share: torch.Tensor | None = None
    """This rank's share in the device's memory, if the ranks of the host divide the part."""
    is_summed: bool = False

    @property
    def values(self) -> torch.Tensor:
        """The part's values in the buffer."""
        assert self.buffer is not None
        return self.buffer.memory[: self.source.nbytes].view(self.source.dtype)


class Staging:
    """The buffers and streams of one device, for the sums of one process group."""

    def __init__(
        self, device: Device, node: NodeGroup | None = None, *, part_size: int = PART_SIZE, buffers: int = BUFFERS
    ) -> None:
        """Makes the streams. Buffers are allocated when they are needed.

        Args:
            device: the device.
            node: the ranks of this host, if they add floats among themselves before the fabric adds.
            part_size: the size of a part and of a buffer, in bytes.
            buffers: the largest number of buffers.
        """
        self._device = device
        self._node = node
        self._part_size = part_size
        self._most = buffers
        self._out = device.stream()
        self._in = device.stream()
        self._buffers = 0
        self._free: deque[Buffer] = deque()
        self._changed = Condition()
        self._waiting: deque[Part] = deque()
        """Parts whose copy out is not enqueued."""
        self._to_start: deque[Part] = deque()
        """Parts whose copy out is enqueued, and which are not started over the fabric."""
        self._under_way: deque[Part] = deque()
        """Parts whose copy out is enqueued, and whose copy in is not."""
        self._not_started = 0
        self._has_ended = False

    @property
    def nbytes(self) -> int:
        """Bytes of the buffers."""
        return self._buffers * self._part_size

    def sum(
        self,
        source: torch.Tensor,
        target: torch.Tensor,
        first: int,
        start: StartPart,
        finish: Callable[[], object] | None = None,
    ) -> Sum:
        """Starts a sum, behind the operations in the current stream.

        Args:
            source: the values, one-dimensional and contiguous.
            target: takes elements of the sum; one-dimensional and contiguous. It may be `source`.
            first: the index in `source` of the element that `target` begins with.
            start: starts a part over the fabric.
            finish: enqueues operations that follow the sum, in the current stream.
        """
        whole = Sum(self._device.event(), self._device.event(), start, finish)
        whole.ready.record(self._device.current_stream())
        with self._changed:
            self._device.keep(source, self._out)
            self._device.keep(target, self._in)
            parts = self._parts(whole, source, target, first)
            whole.missing = len(parts)
            self._waiting.extend(parts)
            self._not_started += len(parts)
        self._enqueue()
        return whole

    def _parts(self, whole: Sum, source: torch.Tensor, target: torch.Tensor, first: int) -> list[Part]:
        unit = self._part_size // source.element_size()
        # An empty tensor has a part, too, because all ranks take part in its sum.
        parts = []
        for number in range(max(math.ceil(source.numel() / unit), 1)):
            begin, end = number * unit, min((number + 1) * unit, source.numel())
            low = min(max(first, begin), end)
            high = max(min(first + target.numel(), end), low)
            part = target[low - first : high - first] if high > low else target[:0]
            parts.append(Part(whole, number, source[begin:end], part, low - begin))
        return parts

    def _enqueue(self) -> None:
        """Enqueues the copies that are possible now. Does not wait."""
        ended: list[Sum] = []
        # Inference mode avoids autograd, and allows writes to tensors that were made in inference mode.
        with self._changed, torch.inference_mode():
            while part := self._next():
                is_new = part.buffer is None
                try:
                    if is_new:
                        self._copy_out(part)
                        continue
                    self._copy_in(part)
                except Exception as error:
                    # The buffer is not used again, because a copy from or to it may be under way.
                    part.sum.fail(error)
                    self._not_started -= is_new
                part.sum.missing -= 1
                if part.sum.missing == 0:
                    self._finish(part.sum)
                    ended.append(part.sum)
            self._changed.notify_all()
        for whole in ended:
            whole.ended.set_result(None)

    def _next(self) -> Part | None:
        """Takes the next part to copy out or in.

        The collectives of the host's ranks must have the same order on all of them, but the time at which the fabric's
        results arrive differs. So a sum begins only after the end of the previous one if they divide parts.
        """
        oldest = self._under_way[0] if self._under_way else None
        if self._waiting and len(self._under_way) < self._most:
            begins = self._waiting[0].number == 0
            if oldest is None or not begins or self._node is None:
                return self._waiting.popleft()
        return self._under_way.popleft() if oldest is not None and oldest.is_summed else None

    def _copy_out(self, part: Part) -> None:
        device = self._device
        with device.on(self._out):
            if self._free:
                part.buffer = self._free.popleft()
            else:
                part.buffer = Buffer(device.host_buffer(self._part_size))
                self._buffers += 1
            if part.number == 0:
                # Not earlier, because the parts of earlier sums must not wait for this one.
                part.sum.ready.wait(self._out)
            if part.buffer.copied_in is not None:
                part.buffer.copied_in.wait(self._out)
            shared = self._shared(part)
            if self._node is not None and shared:
                part.share = device.empty(part.source[: shared // self._node.size])
                device.keep(part.share, self._in)
                self._node.reduce_scatter(part.share, part.source[:shared])
                device.copy(self._own(part), part.share)
            if shared < part.source.numel():
                device.copy(part.values[shared:], part.source[shared:])
            part.copied_out = device.event()
            part.copied_out.record(self._out)
        self._under_way.append(part)
        self._to_start.append(part)

    def _shared(self, part: Part) -> int:
        """Returns the number of elements that the ranks of the host divide: all but a remainder, or none."""
        if self._node is None or part.source.dtype not in NODE_TYPES:
            return 0
        return part.source.numel() // self._node.size * self._node.size

    def _own(self, part: Part) -> torch.Tensor:
        """Returns this rank's share in the buffer."""
        assert self._node is not None
        assert part.share is not None
        count = part.share.numel()
        return part.values[self._node.rank * count :][:count]

    def _copy_in(self, part: Part) -> None:
        device, target, shared = self._device, part.target, self._shared(part)
        assert part.buffer is not None
        with device.on(self._in):
            if self._node is not None and part.share is not None:
                takes_all = target.numel() == part.source.numel()
                whole = target if takes_all else device.empty(part.source)
                device.copy(part.share, self._own(part))
                self._node.all_gather(whole[:shared], part.share)
                if shared < whole.numel():
                    device.copy(whole[shared:], part.values[shared:])
                if not takes_all and target.numel():
                    device.copy(target, whole[part.first :][: target.numel()])
            elif target.numel():
                device.copy(target, part.values[part.first :][: target.numel()])
            part.buffer.copied_in = device.event()
            part.buffer.copied_in.record(self._in)
        self._free.append(part.buffer)

    def _finish(self, whole: Sum) -> None:
        """Enqueues the end of a sum."""
        try:
            with self._device.on(self._in):
                if whole.finish is not None and whole.error is None:
                    whole.finish()
                whole.done.record(self._in)
        except Exception as error:
            whole.fail(error)

    def start_next(self) -> bool:
        """Waits for the next copy out, and starts its part over the fabric; returns false after `end`."""
        with self._changed:
            self._changed.wait_for(lambda: self._to_start or self._has_ended)
            if not self._to_start:
                return False
            part = self._to_start.popleft()
        assert part.copied_out is not None
        try:
            with torch.inference_mode():
                part.copied_out.synchronize()
                if self._node is not None and part.share is not None:
                    # The other ranks of the host contribute the other shares.
                    begin = self._node.rank * part.share.numel()
                    part.values[:begin].zero_()
                    part.values[begin + part.share.numel() : self._shared(part)].zero_()
                answer = part.sum.start(part.values, part.number)
        except Exception as error:
            self._end_fabric(part, error)
        else:
            answer.add_done_callback(lambda answer: self._end_fabric(part, answer.exception()))
        with self._changed:
            self._not_started -= 1
            self._changed.notify_all()
        return True

    def _end_fabric(self, part: Part, error: BaseException | None) -> None:
        if error is not None:
            part.sum.fail(error)
            if part.share is not None:
                # The other ranks of the host get this share, and may have no error.
                with torch.inference_mode():
                    self._own(part).fill_(torch.nan)
        with self._changed:
            part.is_summed = True
        self._enqueue()

    def run(self) -> None:
        """Starts parts over the fabric until `end`. A thread of its own calls this."""
        while self.start_next():
            pass

    def wait_until_started(self) -> None:
        """Waits until all parts of all sums have started over the fabric."""
        with self._changed:
            self._changed.wait_for(lambda: self._not_started == 0)

    def end(self) -> None:
        """Lets `run` return after the sums that are under way, and ends the node group."""
        with self._changed:
            self._has_ended = True
            self._changed.notify_all()
        if self._node is not None:
            self._node.end()
