"""Lets tests of PyTorch's suite that need GPUs run on CPUs: tensors that they move to a GPU stay."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, nullcontext
from typing import Any
from unittest.mock import MagicMock, patch

import torch
from torch.nn.parallel import DistributedDataParallel
from torch.overrides import TorchFunctionMode
from torch.testing._internal import common_distributed

NEEDS_GPU = "needs_gpu"
"""The attribute of tests that need GPUs."""
MOCKED_GPUS = 8
"""The number of mocked GPUs."""


def mark_gpu_tests() -> None:
    """Makes the decorators that skip tests without GPUs mark them. Call it before importing the suite."""

    def mark(test: Callable[..., Any]) -> Callable[..., Any]:
        setattr(test, NEEDS_GPU, True)
        return test

    common_distributed.skip_if_no_gpu = mark
    common_distributed.skip_if_lt_x_gpu = lambda *_, **__: mark


def _on_cpu(device: Any) -> Any:
    """Returns the CPU for a GPU, and any other value unchanged."""
    if isinstance(device, str) and device.startswith("cuda"):
        return "cpu"
    if isinstance(device, torch.device) and device.type == "cuda":
        return torch.device("cpu")
    return device


class OnCpu(TorchFunctionMode):
    """Makes tensors on the CPU instead of a GPU, and ignores moves to a GPU."""

    def __torch_function__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        kwargs = dict(kwargs or {})
        name = getattr(func, "__name__", "")
        if name == "cuda":
            return args[0]
        if "device" in kwargs:
            # A number names a GPU.
            kwargs["device"] = "cpu" if isinstance(kwargs["device"], int) else _on_cpu(kwargs["device"])
        args = tuple(_on_cpu(value) for value in args)
        if name in ("to", "_parse_to"):
            first = 1 if name == "to" else 0
            args = tuple(
                "cpu" if index == first and isinstance(value, int) and not isinstance(value, bool) else value
                for index, value in enumerate(args)
            )
        return func(*args, **kwargs)


def _without_devices(make: Callable[..., None]) -> Callable[..., None]:
    def init(self: Any, *args: Any, device_ids: Any = None, output_device: Any = None, **options: Any) -> None:  # noqa: ARG001
        make(self, *args, **options)

    return init


def _nothing() -> Callable[..., None]:
    """Makes a new function that does nothing. torch.compile needs different functions."""
    return lambda *_, **__: None


@contextmanager
def mock_gpus(test: Any) -> Iterator[None]:
    """Mocks GPUs on CPUs during a test that needs GPUs."""
    # Some tests for NCCL count GPUs without a decorator.
    if not getattr(test, NEEDS_GPU, False) and "rank_to_GPU" not in inspect.getsource(test):
        yield
        return
    replaced: dict[Any, dict[str, Any]] = {
        torch.cuda: {
            "current_device": lambda: 0,
            "device_count": lambda: MOCKED_GPUS,
            "manual_seed": _nothing(),
            "set_device": _nothing(),
            "stream": lambda *_: nullcontext(),
            "Stream": MagicMock,
            "synchronize": _nothing(),
        },
        torch.accelerator: {
            "device_count": lambda: MOCKED_GPUS,
            "set_device_index": _nothing(),
            "synchronize": _nothing(),
        },
    }
    with ExitStack() as stack:
        for module, values in replaced.items():
            for name, value in values.items():
                stack.enter_context(patch.object(module, name, value))
        stack.enter_context(patch.object(torch.nn.Module, "cuda", lambda self, *_: self))
        init = _without_devices(DistributedDataParallel.__init__)
        stack.enter_context(patch.object(DistributedDataParallel, "__init__", init))
        stack.enter_context(OnCpu())
        yield
