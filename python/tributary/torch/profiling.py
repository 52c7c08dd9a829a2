"""The backend's collectives as events of PyTorch's profiler."""

from __future__ import annotations

from threading import Thread, get_ident

import torch
from torch._C._distributed_c10d import Work
from torch.autograd import profiler
from torch.futures import Future

TITLES = {
    "_allgather_base": "all_gather",
    "_reduce_scatter_base": "reduce_scatter",
    "all_gather_single": "all_gather",
    "all_gather_single_coalesced": "all_gather",
    "all_to_all_single": "all_to_all",
    "allgather": "all_gather",
    "allgather_coalesced": "all_gather",
    "allreduce": "all_reduce",
    "allreduce_coalesced": "all_reduce",
    "allreduce_sparse": "all_reduce",
    "alltoall": "all_to_all",
    "alltoall_base": "all_to_all",
    "gather_single": "gather",
    "reduce_scatter_single": "reduce_scatter",
    "reduce_scatter_single_coalesced": "reduce_scatter",
    "reduce_scatter_tensor_coalesced": "reduce_scatter",
}
"""The names of collectives in the profiler, if they differ from the method's name."""


_late: list[Future[None]] = []
"""Keeps events whose profiler stopped before their end.

The end of such an event would write to memory that PyTorch has freed.
"""


class ProfilerEvent:
    """The event of a collective from its start to `end`, which any thread may call, if the profiler is on.

    A caller that waits for the collective must not continue before the event has ended, because it may stop the
    profiler.
    """

    def __init__(self, collective: str) -> None:
        self._ended: Future[None] | None = None
        self._began_in = get_ident()
        if profiler._is_profiler_enabled and torch._C._autograd._profiler_enabled():
            self._ended = Future[None]()
            record = profiler.record_function(f"tributary:{TITLES.get(collective, collective)}")
            record.__enter__()  # type: ignore[no-untyped-call]
            record._call_end_callbacks_on_future(self._ended)

    @property
    def is_recorded(self) -> bool:
        """True if the profiler was on at the start."""
        return self._ended is not None

    def end(self) -> None:
        """Ends the event."""
        if self._ended is None:
            return
        if not profiler._is_profiler_enabled:
            _late.append(self._ended)
        elif get_ident() != self._began_in:
            self._ended.set_result(None)
        else:
            # PyTorch treats the event as asynchronous only if it ends in another thread than it began in.
            ending = Thread(target=self._ended.set_result, args=(None,))
            ending.start()
            ending.join()

    def end_with(self, work: Work) -> None:
        """Ends the event when a collective of gloo ends."""
        if self._ended is not None:
            # gloo completes the future before it wakes the threads that wait for the work.
            work.get_future().add_done_callback(lambda _: self.end())
