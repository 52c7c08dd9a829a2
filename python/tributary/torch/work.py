"""Collectives in flight, as `torch.distributed` returns them."""

from __future__ import annotations

import sys
from abc import abstractmethod
from collections.abc import Callable, Sequence
from contextlib import suppress
from datetime import timedelta
from functools import cache
from threading import Lock, Thread
from typing import Any

import torch
from torch._C._distributed_c10d import Work
from torch.futures import Future

from tributary.errors import DeadlineError
from tributary.job import Reduced
from tributary.pending import Call, callbacks
from tributary.torch.memory_ranges import MemoryRange, memory_ranges_of

Tensors = list[torch.Tensor]


class PythonWork(Work):
    """A work in Python. A `Group` returns it to scripts unchanged.

    Callbacks of its future run in separate threads (`tributary.pending.Callbacks`), and may wait for other works.
    """

    def __init__(self) -> None:
        super().__init__()
        self._lock = Lock()
        self._future: Future[Any] | None = None
        self.is_observed = False
        """True if a caller has waited for the end, or has got the future."""

    @abstractmethod
    def is_completed(self) -> bool:
        """Returns true if the work has ended, successfully or not."""

    @abstractmethod
    def exception(self) -> BaseException | None:
        """The error, if any."""

    @abstractmethod
    def _outcome(self) -> Any:
        """Returns the value of the future after the end of the work, or raises its error."""

    @abstractmethod
    def _on_end(self, call: Callable[[], object]) -> None:
        """Calls `call` when the work has ended, in any thread; at once if it has ended already."""

    def is_success(self) -> bool:
        """Returns true if the work has ended successfully."""
        return self.is_completed() and self.exception() is None

    def result(self) -> Tensors:
        """Waits for the end; returns the tensors."""
        self.wait()
        return _flat(self.get_future().wait())

    def synchronize(self) -> None:
        """Waits for the end, because the tensors are in the host's memory."""
        self.wait()

    def block_current_stream(self) -> None:
        """Waits for the end, because the tensors are in the host's memory."""
        self.wait()

    def source_rank(self) -> int:
        """Returns the rank of the sender, for a receive from any rank.

        Raises:
            RuntimeError: the work is not a receive from any rank.
        """
        raise RuntimeError("only a receive from any rank has a source rank")

    def _source_rank(self) -> int:
        return self.source_rank()

    def get_future(self) -> Future[Any]:
        """Returns a future of the tensors."""
        self.is_observed = True
        with self._lock:
            if self._future is not None:
                return self._future
            # `DistributedDataParallel` reports an exception that a callback raises. An exception that is set on the
            # future itself ends the process.
            ended = self._new_future()
            self._future = future = ended.then(lambda _: self._outcome())
        if self._has_outcome():
            # No callbacks exist yet, so this thread runs none.
            self._set_ended(ended)
        else:
            self._on_end(lambda: callbacks.submit(lambda: self._set_ended(ended)))
        return future

    def _new_future(self) -> Future[Any]:
        """Makes the future that is set at the end of the work."""
        return Future()

    def _has_outcome(self) -> bool:
        """Returns true if `_outcome` does not wait."""
        return self.is_completed()

    def _set_ended(self, ended: Future[Any]) -> None:
        """Sets the future after the end of the work."""
        ended.set_result(None)

    def _wait_for_future(self) -> None:
        """Waits after the end of the work until its future, if any, is done. Callbacks may run later."""
        if self._future is not None and not callbacks.have_ended:
            with suppress(Exception):
                self._future.wait()


class FabricWork(PythonWork):
    """A collective over the fabric."""

    def __init__(self, call: Call[Reduced], tensors: Tensors, values: torch.Tensor) -> None:
        """Follows a call.

        Args:
            call: the call.
            tensors: the caller's tensors for the results.
            values: the tensor that the call reads.
        """
        super().__init__()
        self._call = call
        self._tensors = tensors
        self._values: torch.Tensor | None = values
        """The tensor that the call reads, until its end is known: it may be large."""
        self._ranges: list[MemoryRange] | None = None
        self._is_raised = False

    def wait(self, timeout: timedelta | None = None) -> bool:
        """Waits for the end, and raises the work's error. Without a timeout, the group's timeout applies."""
        self.is_observed = True
        seconds = timeout.total_seconds() if timeout else 0
        if not self._call.wait(seconds if seconds > 0 else None):
            raise DeadlineError(
                f"{self.name} has not ended in {seconds:g} s, and is still in flight: wait again, or check which rank "
                "has not started it"
            )
        self._wait_for_future()
        error = self.exception()
        if error is not None:
            self._is_raised = True
            raise error
        return True

    def wait_for_end(self, seconds: float | None = None) -> bool:
        """Waits for the end, successful or not, for `seconds` at most; returns true if the work has ended.

        Raises:
            TributaryError: this is the thread that completes results.
        """
        return self._call.wait(seconds)

    @property
    def name(self) -> str:
        """The description of the collective, with the tensor's shape."""
        return self._call.what

    @property
    def memory_ranges(self) -> list[MemoryRange]:
        """The memory that the collective uses."""
        if self._ranges is None:
            values = [self._values] if self._values is not None else []
            self._ranges = memory_ranges_of([*values, *self._tensors])
        return self._ranges

    def unraised_error(self) -> BaseException | None:
        """Returns the error of the ended work, unless `wait` has raised it."""
        return None if self._is_raised else self.exception()

    def has_ended(self) -> bool:
        """Returns true if the work has ended, successfully or not."""
        return self._call.has_ended()

    def is_completed(self) -> bool:
        """Returns true if the work has ended, successfully or not."""
        return self.has_ended()

    def exception(self) -> BaseException | None:
        """The error, if any."""
        if not self._call.has_ended():
            return None
        self._values = None
        error = self._call.exception()
        return timeout_error(error) if isinstance(error, DeadlineError) else error

    def get_future(self) -> Future[Any]:
        """Returns a future of the tensors."""
        future = super().get_future()
        # PyTorch's own hook for half precision needs a future of another type: see `CARRY`.
        if self._tensors[0].dtype == torch.float16 and called_by_pytorch():
            return future_for_hook(future, self._tensors)
        return future

    def _outcome(self) -> Tensors:
        error = self.exception()
        if error is not None:
            raise error
        return self._tensors

    def _on_end(self, call: Callable[[], object]) -> None:
        self._call.on_end(call)


class FinishingWork(PythonWork):
    """A collective, mostly by gloo, followed by a function such as one that copies the result to a view."""

    def __init__(
        self,
        work: Work,
        tensors: Tensors,
        finish: Callable[[], object] | None,
        *,
        is_point_to_point: bool = False,
    ) -> None:
        super().__init__()
        self._is_point_to_point = is_point_to_point
        self._waiter: Thread | None = None
        self._is_waited_for = False
        self._then: list[Callable[[], object]] = []
        self._work = work
        self._tensors = tensors
        self._finish = finish
        self._waiting = Lock()
        self._has_ended = False
        self._error: BaseException | None = None

    def wait(self, timeout: timedelta | None = None) -> bool:
        """Waits for the end, and raises the work's error."""
        self.is_observed = True
        self._wait_for_end(timeout)
        self._wait_for_future()
        if self._error is not None:
            raise self._error
        return True

    def wait_for_end(self) -> None:
        """Waits for the end, successful or not. `wait` raises the error."""
        self._wait_for_end(None)

    def _wait_for_end(self, timeout: timedelta | None) -> None:
        # Only one thread may wait for the work: gloo miscounts sends and receives if several threads wait.
        if not self._waiting.acquire(timeout=timeout.total_seconds() if timeout else -1):
            raise DeadlineError(f"a collective has not ended in {timeout}: another thread waits for it")
        try:
            if not self._has_ended:
                self._end(timeout)
        finally:
            self._waiting.release()

    def _end(self, timeout: timedelta | None) -> None:
        try:
            self._work.wait(timeout) if timeout else self._work.wait()
            if self._finish is not None:
                with torch.inference_mode():
                    self._finish()
        except Exception as error:
            if timeout and not self._work.is_completed():
                # The work is still in flight, so the caller may wait again.
                raise
            self._error = error
        self._has_ended = True

    def is_completed(self) -> bool:
        """Returns true if the work has ended, successfully or not."""
        if not self._has_ended:
            if self._is_point_to_point:
                self._start_waiter()
            elif self._work.is_completed():
                self.wait_for_end()
        return self._has_ended

    def _start_waiter(self) -> None:
        """Starts a thread that waits, because gloo completes a send or receive only if a thread waits for it."""
        with self._lock:
            if self._waiter is None:
                self._waiter = Thread(target=self._wait_and_call, name="tributary-wait", daemon=True)
                self._waiter.start()

    def _wait_and_call(self) -> None:
        self.wait_for_end()
        with self._lock:
            self._is_waited_for, then = True, self._then
        for call in then:
            call()

    def exception(self) -> BaseException | None:
        """The error, if any."""
        return self._error

    def source_rank(self) -> int:
        """Returns the rank of the sender, for a receive from any rank."""
        return self._work._source_rank()

    def get_future(self) -> Future[Any]:
        """Returns a future of the tensors."""
        self.is_observed = True
        if self._finish is None and not self._is_point_to_point and called_by_pytorch():
            return self._work.get_future()
        return super().get_future()

    def _outcome(self) -> Any:
        if not self._is_point_to_point:
            # This raises the work's error, if any.
            value = self._work.get_future().value()
            if self._finish is None:
                return value
        self._wait_for_end(None)
        if self._error is not None:
            raise self._error
        return self._tensors

    def _on_end(self, call: Callable[[], object]) -> None:
        if self._is_point_to_point:
            self._start_waiter()
            with self._lock:
                if not self._is_waited_for:
                    self._then.append(call)
                    return
            call()
            return

        def ended(_: Future[Any]) -> None:
            call()

        self._work.get_future().add_done_callback(ended)


class CoalescedWork(PythonWork):
    """Several collectives that were requested as one."""

    def __init__(self, works: Sequence[PythonWork]) -> None:
        super().__init__()
        self._works = works

    def wait(self, timeout: timedelta | None = None) -> bool:
        """Waits for the end of all works, and raises the first error."""
        self.is_observed = True
        for work in self._works:
            work.wait(timeout or timedelta())
        self._wait_for_future()
        return True

    def is_completed(self) -> bool:
        """Returns true if all works have ended, successfully or not."""
        return all(work.is_completed() for work in self._works)

    def exception(self) -> BaseException | None:
        """The first error, if any."""
        return next((error for work in self._works if (error := work.exception()) is not None), None)

    def _outcome(self) -> Tensors:
        return [tensor for work in self._works for tensor in _flat(work._outcome())]

    def _on_end(self, call: Callable[[], object]) -> None:
        rest = list(self._works)

        def next_one() -> None:
            if rest:
                rest.pop()._on_end(next_one)
            else:
                call()

        next_one()


def timeout_error(error: DeadlineError) -> DeadlineError:
    """Returns an error with the word "timeout", for which scripts search, because it is in gloo's message."""
    return DeadlineError(f"a timeout has passed: {error}")


def _flat(value: Any) -> Tensors:
    if isinstance(value, torch.Tensor):
        return [value]
    return [tensor for each in value or () for tensor in _flat(each)]


def called_by_pytorch() -> bool:
    """Returns true if C++ code of PyTorch, such as the reducer, has called the method that calls this.

    C++ code has no frame in Python, so the next frame is the frame of `backward`, or there is none.
    """
    try:
        below = sys._getframe(2)
    except ValueError:
        return True
    return below.f_globals.get("__name__") == "torch.autograd.graph"


CARRY = """
def carry(ended: Future[int], tensors: List[Tensor]) -> List[Tensor]:
    torch.jit.wait(ended)
    return tensors

def start(ended: Future[int], tensors: List[Tensor]) -> Future[List[Tensor]]:
    return torch.jit.fork(carry, ended, tensors)
"""
"""TorchScript that makes a future of C++ tensors: FP16_COMPRESS aborts on a future of a Python object.

The declared type of the value of `ended` has no meaning. TorchScript needs no thread to wait.
"""


def future_for_hook(future: Future[Any], tensors: Tensors) -> Future[Any]:
    """Returns a future of tensors that ends with another future, for PyTorch's hook for half precision."""
    return _carrier()(future, tensors)


@cache
def _carrier() -> Callable[[Future[Any], Tensors], Future[Any]]:
    return torch.jit.CompilationUnit(CARRY).start  # type: ignore[no-any-return]
