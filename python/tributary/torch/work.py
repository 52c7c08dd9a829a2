"""Collectives in flight, as `torch.distributed` returns them."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future as Answer
from concurrent.futures import wait
from datetime import timedelta

import torch
from torch._C._distributed_c10d import Work
from torch.futures import Future, collect_all

from tributary.errors import DeadlineError
from tributary.job import Reduced
from tributary.pending import check_may_wait


class FabricWork(Work):
    """A collective over the fabric: done when its result is there and `finish` has stored it.

    PyTorch passes on only `wait` and `get_future` of a work that is written in Python: scripts that get it from
    `torch.distributed` see a base class whose `is_completed` is never true.
    """

    def __init__(
        self, name: str, answer: Answer[Reduced], tensors: list[torch.Tensor], finish: Callable[[Reduced], None]
    ) -> None:
        super().__init__()
        self._name = name
        self._tensors = tensors
        self._error: BaseException | None = None
        self._is_told = False
        self._ended = ended = Future[None]()
        self._answer = answer

        def outcome(_: Future[None]) -> list[torch.Tensor]:
            if self._error is not None:
                raise self._error
            return self._tensors

        # An exception that is set on a future itself ends the process of a `DistributedDataParallel`; one that its
        # callback raises is reported.
        self._future = ended.then(outcome)

        def end(answer: Answer[Reduced]) -> None:
            try:
                finish(answer.result())
            except Exception as error:
                self._error = error
            ended.set_result(None)

        answer.add_done_callback(end)

    def wait(self, timeout: timedelta | None = None) -> bool:
        """Waits for the end, and raises any error. Without a timeout, the group's timeout applies."""
        if not self._answer.done():
            check_may_wait(self._name)
        seconds = timeout.total_seconds() if timeout else 0
        wait([self._answer], seconds if seconds > 0 else None)
        if not self._answer.done():
            raise DeadlineError(
                f"{self._name} has not ended in {seconds:g} s, and is still under way: wait again, or look which rank "
                "has not started it"
            )
        self._ended.wait()
        if self._error is not None:
            self._is_told = True
            raise self._error
        # The callback may come later than the end itself.
        self._future.wait()
        return True

    def let_end(self) -> None:
        """Waits for the end, successful or not.

        Raises:
            TributaryError: this is the thread that would end it.
        """
        if not self._ended.done():
            check_may_wait(f"{self._name}, of the same memory,")
        self._ended.wait()

    @property
    def name(self) -> str:
        """Its description, with the tensor's shape."""
        return self._name

    def untold_error(self) -> BaseException | None:
        """The error, if no caller that waited has got it; waits until the result is stored."""
        self._ended.wait()
        return None if self._is_told else self._error

    def get_future(self) -> Future[list[torch.Tensor]]:
        """A future of the tensors."""
        return self._future

    def is_completed(self) -> bool:
        """Whether it has ended, successfully or not."""
        # Not `_future`: a waiting thread may be quicker than the callback that completes it.
        return self._ended.done()

    def is_success(self) -> bool:
        """Whether it has ended successfully."""
        return self._ended.done() and self._error is None

    def exception(self) -> BaseException | None:
        """The error, if any."""
        return self._error

    def result(self) -> list[torch.Tensor]:
        """The tensors, once it has ended successfully."""
        self._future.wait()
        return self._tensors


class Together(Work):
    """Several collectives over the fabric that were requested as one."""

    def __init__(self, works: list[FabricWork]) -> None:
        super().__init__()
        self._works = works
        all_of_them = collect_all([work.get_future() for work in works])
        self._future = all_of_them.then(lambda ended: [tensor for each in ended.value() for tensor in each.value()])

    def wait(self, timeout: timedelta | None = None) -> bool:
        """Waits for the end of all, and raises the first error."""
        return all(work.wait(timeout) for work in self._works)

    def get_future(self) -> Future[list[torch.Tensor]]:
        """A future of all tensors."""
        return self._future

    def is_completed(self) -> bool:
        """Whether all have ended, successfully or not."""
        return all(work.is_completed() for work in self._works)

    def is_success(self) -> bool:
        """Whether all have ended successfully."""
        return all(work.is_success() for work in self._works)

    def exception(self) -> BaseException | None:
        """The first error, if any."""
        return next((error for work in self._works if (error := work.exception()) is not None), None)

    def result(self) -> list[torch.Tensor]:
        """The tensors, once all have ended successfully."""
        return [tensor for work in self._works for tensor in work.result()]
