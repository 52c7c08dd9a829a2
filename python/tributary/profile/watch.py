"""Runs a training script on one machine for some steps, and records when its gradients are ready."""

from __future__ import annotations

import itertools
import os
import runpy
import socket
import statistics
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch.optim.optimizer import register_optimizer_step_post_hook

from tributary.torch import backend


@dataclass(frozen=True)
class Watched:
    """The timing of a script's step on one machine, without any communication."""

    step: float
    """Median seconds of a step."""
    sizes: list[int]
    """Bytes of each gradient, in the order of the optimiser's parameters."""
    ready: list[float]
    """The median time at which each gradient was ready, in seconds after the first gradient of its backward pass."""

    @property
    def size(self) -> int:
        """Bytes of all gradients."""
        return sum(self.sizes)

    @property
    def span(self) -> float:
        """Seconds from the first gradient to the last one."""
        return max(self.ready)


class NothingWatchedError(RuntimeError):
    """The script ended before its optimiser had made enough steps."""


class _Enough(BaseException):
    """Ends the script. It is not an `Exception`, so that the script does not catch it."""


class _Watch:
    """Times the gradients between an optimiser's steps."""

    def __init__(self, skipped: int, steps: int) -> None:
        self._skipped, self._steps = skipped, steps
        self._optimizer: Any = None
        self._hooks: list[Any] = []
        self._first: float | None = None
        self._pass: dict[int, float] = {}
        self.parameters: list[torch.nn.Parameter] = []
        self.passes: list[dict[int, float]] = []
        self.ends: list[float] = []

    def stepped(self, optimizer: Any, *_: Any) -> None:
        """Called after an optimiser's step. Only the first optimiser that makes a step is timed."""
        now = time.perf_counter()
        if self._optimizer is None:
            self._optimizer = optimizer
            parameters = (parameter for group in optimizer.param_groups for parameter in group["params"])
            self.parameters = [parameter for parameter in parameters if parameter.requires_grad]
            for index, parameter in enumerate(self.parameters):
                hooked: Any = parameter
                self._hooks.append(hooked.register_post_accumulate_grad_hook(self._hook(index)))
        if optimizer is not self._optimizer:
            return
        self.ends.append(now)
        if self._pass:
            self.passes.append(self._pass)
        self._pass, self._first = {}, None
        if len(self.ends) > self._skipped + self._steps:
            raise _Enough

    def _hook(self, index: int) -> Callable[[torch.Tensor], None]:
        def ready(_: torch.Tensor) -> None:
            now = time.perf_counter()
            self._first = now if self._first is None else self._first
            # If a step has several passes, the last one counts: the gradients could be sent only after it.
            self._pass[index] = now - self._first

        return ready

    def result(self) -> Watched:
        """Returns the medians of the steps that are timed."""
        passes = self.passes[-self._steps :]
        if len(self.ends) < self._skipped + 2 or not passes:
            raise NothingWatchedError(
                f"the script has ended after {len(self.ends)} steps of a PyTorch optimiser, and the first "
                f"{self._skipped} are not timed: let it make more steps"
            )
        ends = self.ends[self._skipped :]
        seen = [index for index in range(len(self.parameters)) if any(index in one for one in passes)]
        return Watched(
            step=statistics.median(end - begin for begin, end in itertools.pairwise(ends)),
            sizes=[self.parameters[index].nbytes for index in seen],
            ready=[statistics.median(one[index] for one in passes if index in one) for index in seen],
        )


def watch(script: str, arguments: list[str], *, skipped: int, steps: int) -> Watched:
    """Runs a script as the only rank of its group, until its optimiser has made enough steps.

    Args:
        script: the script's file.
        arguments: the script's command-line arguments.
        skipped: the number of first steps that are not timed.
        steps: the number of steps that are timed.

    Raises:
        NothingWatchedError: the script has made too few steps.
    """
    for name, value in _alone().items():
        os.environ[name] = value
    backend.stand_alone()
    seen = _Watch(skipped, steps)
    hook = register_optimizer_step_post_hook(seen.stepped)
    before, sys.argv = sys.argv, [script, *arguments]
    sys.path.insert(0, os.path.dirname(os.path.abspath(script)))
    try:
        runpy.run_path(script, run_name="__main__")
    except _Enough:
        pass
    except SystemExit as ended:
        if ended.code not in (None, 0):
            raise
    finally:
        hook.remove()
        sys.argv = before
    return seen.result()


def _alone() -> dict[str, str]:
    """Returns the variables that torchrun would set for a single process."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    ranks = {"RANK": "0", "LOCAL_RANK": "0", "WORLD_SIZE": "1", "LOCAL_WORLD_SIZE": "1"}
    return {**ranks, "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port)}
