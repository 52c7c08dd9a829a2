"""The fabric's collectives as events of PyTorch's profiler."""

from __future__ import annotations

import torch
from torch.autograd.profiler import record_function

from tributary.torch.group import NAME
from tributary.torch.work import FabricWork


def profiled(event: str, work: FabricWork) -> None:
    """Records an event from now until the end of a work, if the profiler is on."""
    if torch._C._autograd._profiler_enabled():
        record = record_function(f"{NAME}:{event}")
        record.__enter__()  # type: ignore[no-untyped-call]
        record._call_end_callbacks_on_future(work.get_future())
