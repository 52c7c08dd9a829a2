"""The sums of tensors of devices of one process group, and the works that stand for them."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import TimeoutError as AnswerTimeout
from contextlib import suppress
from datetime import timedelta
from functools import partial
from threading import Thread
from typing import Any

import torch
from torch.futures import Future

from tributary.errors import DeadlineError, TributaryError
from tributary.pending import callbacks, check_may_wait
from tributary.torch.devices.device import Device
from tributary.torch.devices.node import NodeGroup
from tributary.torch.devices.staging import Staging, StartPart, Sum
from tributary.torch.memory_ranges import MemoryRange, memory_ranges_of
from tributary.torch.profiling import ProfilerEvent
from tributary.torch.work import PythonWork, Tensors, called_by_pytorch, future_for_hook


class DeviceWork(PythonWork):
    """A sum of a tensor of a device.

    `wait` blocks the host until the fabric's results have arrived and all copies to the device are enqueued. From then
    on it blocks only the current stream.
    """

    def __init__(self, name: str, device: Device, whole: Sum, tensors: Tensors, event: ProfilerEvent) -> None:
        super().__init__()
        self.name = name
        """The description of the collective, with the tensor's shape."""
        self._device = device
        self._sum = whole
        self._tensors = tensors
        self._is_raised = False
        whole.ended.add_done_callback(lambda _: event.end())

    def wait(self, timeout: timedelta | None = None) -> bool:
        """Lets the current stream wait for the result, and raises the work's error."""
        self.is_observed = True
        if not self._sum.ended.done():
            check_may_wait(self.name)
        seconds = timeout.total_seconds() if timeout else 0
        try:
            self._sum.ended.result(seconds if seconds > 0 else None)
        except AnswerTimeout:
            raise DeadlineError(
                f"{self.name} has not ended in {seconds:g} s, and is still in flight: wait again, or check which rank "
                "has not started it"
            ) from None
        if self._sum.error is not None:
            self._is_raised = True
            raise self._sum.error
        self._sum.done.wait(self._device.current_stream())
        return True

    def wait_for_end(self, seconds: float | None = None) -> bool:
        """Lets the current stream wait for the end, successful or not; waits itself for `seconds` at most.

        Returns:
            True if the work has ended, or only copies to the device are left.

        Raises:
            TributaryError: this is the thread that completes results.
        """
        if not self._sum.ended.done():
            check_may_wait(f"{self.name} of the same memory")
        with suppress(AnswerTimeout):
            self._sum.ended.result(seconds)
            self._sum.done.wait(self._device.current_stream())
        return self.has_ended()

    def has_ended(self) -> bool:
        """Returns true if the work has ended, or only copies to the device are left."""
        return self._sum.ended.done()

    def synchronize(self) -> None:
        """Lets the current stream wait for the result."""
        self.wait()

    def block_current_stream(self) -> None:
        """Lets the current stream wait for the result, and returns at once if the device can do that.

        The work's error surfaces at the next collective, and at `wait`.
        """
        release = None if self._sum.ended.done() else self._device.hold()
        if release is None:
            self.wait()
            return
        # The stream waits until the copies have run, because they are not enqueued yet.
        self._after_copies(release)

    def _after_copies(self, call: Callable[[], object]) -> None:
        """Calls `call` in another thread when the device has the result."""

        def wait_and_call() -> None:
            self._sum.done.synchronize()
            call()

        self._on_end(lambda: callbacks.submit(wait_and_call))

    def unraised_error(self) -> BaseException | None:
        """Returns the error of the ended work, unless `wait` has raised it."""
        return None if self._is_raised else self._sum.error

    def is_completed(self) -> bool:
        """Returns true if the device has the result, or the work has failed."""
        return self._sum.ended.done() and (self._sum.error is not None or self._sum.done.query())

    def exception(self) -> BaseException | None:
        """The error, if any."""
        return self._sum.error

    def get_future(self) -> Future[Any]:
        """Returns a future of the tensors, which has events of the device."""
        # PyTorch's own hook for half precision needs a future of another type, without events of the device.
        self.is_observed = True
        if self._tensors[0].dtype == torch.float16 and called_by_pytorch():
            ended = Future[None]()
            self._after_copies(partial(ended.set_result, None))
            return future_for_hook(ended.then(lambda _: self._outcome()), self._tensors)
        return super().get_future()

    def _new_future(self) -> Future[Any]:
        return self._device.future()

    def _set_ended(self, ended: Future[Any]) -> None:
        # The future takes its event from this stream.
        stream = self._device.stream()
        self._sum.done.wait(stream)
        with self._device.on(stream):
            ended.set_result(self._tensors)

    def _has_outcome(self) -> bool:
        return self._sum.ended.done()

    def _outcome(self) -> Tensors:
        if self._sum.error is not None:
            raise self._sum.error
        return self._tensors

    def _on_end(self, call: Callable[[], object]) -> None:
        self._sum.ended.add_done_callback(lambda _: call())


class DeviceSums:
    """The sums of one process group.

    All ranks start the parts of all sums in the same order, over all devices of a process.
    """

    def __init__(self, node_of: Callable[[Device], NodeGroup | None]) -> None:
        """Prepares nothing: devices are used when a tensor needs them.

        Args:
            node_of: connects the ranks of this host that have devices like this one; `None` if they do not add tensors
                among themselves.
        """
        self._node_of = node_of
        self._stagings: dict[str, Staging] = {}
        self._recent: list[tuple[DeviceWork, list[MemoryRange]]] = []
        """Sums that have failed or are in flight, with the memory that each of them uses."""

    def start(
        self,
        device: Device,
        name: str,
        source: torch.Tensor,
        result: torch.Tensor,
        first: int,
        start: StartPart,
        event: ProfilerEvent,
    ) -> DeviceWork:
        """Starts a sum behind the operations in the current stream.

        Args:
            device: the device of the tensors.
            name: the description of the collective.
            source: the values.
            result: takes elements of the sum.
            first: the index in `source` of the element that `result` begins with.
            start: starts a part over the fabric.
            event: the profiler's event, which ends with the sum.
        """
        staging = self._stagings.get(device.name)
        if staging is None:
            staging = self._stagings[device.name] = Staging(device, self._node_of(device))
            self._run(staging)
        self.wait_until_started(but=staging)
        target = _plain(device, result.detach())
        values = target if source is result else _plain(device, source.detach())

        def copy_back() -> None:
            device.keep(result, device.current_stream())
            device.copy(result.detach(), target)

        finish = None if target.data_ptr() == result.data_ptr() else copy_back
        whole = staging.sum(values.view(-1), target.view(-1), first, start, finish)
        work = DeviceWork(name, device, whole, [result], event)
        self._recent = [(one, ranges) for one, ranges in self._recent if one.exception() or not one.is_completed()]
        self._recent.append((work, memory_ranges_of([source, result])))
        return work

    def _run(self, staging: Staging) -> None:
        Thread(target=staging.run, name="tributary-staging", daemon=True).start()

    def check(self) -> None:
        """Checks that no sum has failed, because the device may have used its result.

        Raises:
            TributaryError: a sum has failed.
        """
        for work, _ in self._recent:
            if (error := work.exception()) is not None:
                raise TributaryError(
                    f"{work.name} has failed ({error}), so this process group starts no more collectives. Destroy the "
                    "group on all ranks, and make another one"
                ) from error

    def wait_until_started(self, *, but: Staging | None = None) -> None:
        """Waits until all parts have started over the fabric, except for the parts of one device.

        The fabric's next operation then has the same position in the order of all operations on all ranks.
        """
        for staging in self._stagings.values():
            if staging is not but:
                staging.wait_until_started()

    def wait_for_memory(self, tensors: list[torch.Tensor]) -> None:
        """Lets the current stream wait for sums that use these tensors' memory."""
        if not self._recent:
            return
        ranges = memory_ranges_of(tensors)
        for work, others in self._recent:
            if any(one.overlaps(other) for one in ranges for other in others):
                work.wait_for_end()

    @property
    def nbytes(self) -> int:
        """Bytes of pinned host memory."""
        return sum(staging.nbytes for staging in self._stagings.values())

    def end(self) -> None:
        """Ends the threads, after the sums that are under way."""
        for staging in self._stagings.values():
            staging.end()


def _plain(device: Device, tensor: torch.Tensor) -> torch.Tensor:
    """Returns the tensor, or a copy if it is not contiguous or has the negative bit."""
    if tensor.is_contiguous() and not tensor.is_neg():
        return tensor
    copy = device.empty(tensor)
    device.copy(copy, tensor)
    return copy
