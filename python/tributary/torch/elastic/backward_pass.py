"""The backward pass of all members, which averages gradients in buckets or drops them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from tributary.errors import TributaryError
from tributary.job import Job, Reduction
from tributary.torch.gradients import Gradients
from tributary.torch.outbox import Bundle, OutgoingSet, by_type

BUCKET = 1 << 20
"""Bytes of gradients in a bucket. With this size, sending overlaps with computing as well as with time points."""
MAX_BUCKETS = 64
"""The largest number of buckets. A larger model has larger buckets."""


class BackwardPass:
    """The backward pass of each step.

    Buckets have the reverse of the model's order. A bucket is sent as soon as it is full and the previous buckets were
    sent. If all members contribute to every value, the gradients at the end of the pass are the mean over the samples
    of all members. Otherwise all members notice this and drop their gradients, so that the optimiser's step changes
    nothing.
    """

    def __init__(self, model: torch.nn.Module, ended: Callable[[], None]) -> None:
        self._gradients = Gradients(model, self._ready)
        self._parameters = self._gradients.parameters
        if not self._parameters:
            raise ValueError("no parameter of the model requires a gradient: there is nothing to train")
        for name, parameter in self._parameters:
            if parameter.dtype not in (torch.float32, torch.bfloat16):
                raise ValueError(f"parameter {name} is of {parameter.dtype}: Elastic trains float32 and bfloat16")
        self._ended = ended
        self._what: str | None = None
        self._in_pass = False
        self._under_way: list[tuple[torch.Tensor, Reduction]] = []

    def set_job(self, job: Job) -> None:
        """Sums gradients over the members of this job from now on."""
        self._job = job
        self._drop()
        size = sum(parameter.nbytes for _, parameter in self._parameters)
        most = max(BUCKET, size // MAX_BUCKETS)
        self._buckets: list[OutgoingSet] = []
        indices: list[int] = []
        for index in reversed(range(len(self._parameters))):
            indices.append(index)
            if index == 0 or sum(self._parameters[one][1].nbytes for one in indices) >= most:
                kinds = by_type(self._parameters, indices)
                bundles = [Bundle(job, self._parameters, kind) for kind in kinds]
                self._buckets.append(OutgoingSet(self._parameters, bundles))
                indices = []
        self._bucket_of = {index: bucket for bucket in self._buckets for index in bucket.indices}

    def begin(self, what: str, samples: int, members: int) -> None:
        """Prepares the next backward pass.

        Args:
            what: the description of the step.
            samples: the number of samples of this rank.
            members: the number of members.

        Raises:
            RuntimeError: the last pass broke off, or the model's parameters were replaced.
        """
        if self._in_pass:
            raise RuntimeError(
                "the last backward pass broke off, and the other ranks cannot match the gradients that it had sent: "
                "start this process again"
            )
        self._gradients.follow()
        self._what, self._samples, self._members = what, samples, members

    @property
    def is_due(self) -> bool:
        """True if there was no pass since `begin`."""
        return self._what is not None

    def _ready(self, index: int) -> None:
        """Called when a gradient is ready."""
        if self._what is None:
            raise RuntimeError("a backward pass outside of a step: make exactly one for each batch of Elastic.loader")
        if not self._in_pass:
            self._in_pass = True
            self._next = 0
            engine: Any = torch.autograd.Variable._execution_engine
            engine.queue_callback(self._end)
        self._bucket_of[index].put(index)
        # The last bucket is sent at the end of the pass, because the agent takes it as the end of the step.
        while self._next < len(self._buckets) - 1 and self._buckets[self._next].is_full:
            self._send()

    def _send(self) -> None:
        bucket = self._buckets[self._next]
        number, self._next = self._next, self._next + 1
        flats = [bundle.flat for bundle in bucket.leave()]
        for kind, flat in enumerate(flats):
            is_last = self._next == len(self._buckets) and kind == len(flats) - 1
            name = f"{self._what}: bucket {number} of {tuple(flat.shape)}"
            reduction = self._job.start(flat, name=name, weight=self._samples, step_goes_on=not is_last)
            self._under_way.append((flat, reduction))

    def _end(self) -> None:
        """Called when all gradients are ready: sends the remaining buckets, and waits for all of them."""
        while self._next < len(self._buckets):
            self._buckets[self._next].fill_up()
            self._send()
        self._in_pass, self._what = False, None
        self._ended()

    def wait(self) -> tuple[bool, list[TributaryError]]:
        """Waits for all buckets; returns true if the gradients are the members' mean now, and the errors."""
        under_way, self._under_way = self._under_way, []
        errors: list[TributaryError] = []
        sums: list[tuple[torch.Tensor, int]] = []
        is_whole = True
        for flat, reduction in under_way:
            try:
                runs = reduction.result().runs
            except TributaryError as error:
                errors.append(error)
                continue
            is_whole = is_whole and all(run.contributors == self._members for run in runs)
            sums.append((flat, runs[0].weight))
        if errors or not is_whole:
            self._drop()
            return False, errors
        for flat, weight in sums:
            flat.div_(weight)
        return True, []

    def _drop(self) -> None:
        for _, parameter in self._parameters:
            parameter.grad = None
