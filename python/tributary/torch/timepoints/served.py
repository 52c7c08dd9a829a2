"""A model that sends its gradients to a parameter server at time points."""

from __future__ import annotations

import statistics
import time
from contextlib import suppress
from typing import Any

import torch

from tributary.errors import TributaryError
from tributary.schedule import Schedule, Scheduler, ThrownOut
from tributary.torch.outbox import MAX_SHARED, Bundle, OutgoingSet, in_a_row
from tributary.torch.timepoints.base import Scheduled, Settings
from tributary.torch.traffic_counters import logger
from tributary.training import PendingPart, PendingStep, Step, Training

START_UPS = 10
"""The number of parts with one value that are timed to find the cost of a part."""


class ServerTimePoints(Scheduled):
    """Trains a model as a worker of a parameter server, and sends its gradients at time points.

    The server has the optimiser, so the worker needs none. Gradients are removed at the end of each backward pass, and
    need not be set to zero::

        with tributary.train("digits", worker=rank, servers=servers) as training:
            model = ServerTimePoints(network, training)
            while model.step().iteration < 300:
                loss(model(inputs), labels).backward()

    In the first backward passes, the whole gradient is sent at the end, and the times of its parts are recorded. The
    worker's own schedule follows from these times. After that, a set is sent as soon as it is full and the previous
    sets were sent, while the rest is still being computed. If too many sets are late, the worker profiles again.

    Args:
        module: the model. Its trained parameters are the initial parameters if the servers have none yet, and each step
            replaces them with the servers'. Its other state belongs to this worker.
        training: a training of this process that has not begun.
        iterations: the number of backward passes in a profile.
        late_share: the share of late sets above which the worker profiles again.

    Raises:
        ValueError: no parameter of the model is trained, a parameter is complex, or an argument is out of its range.
        TributaryError: as for `Training.begin`.
    """

    def __init__(
        self, module: torch.nn.Module, training: Training, *, iterations: int = 20, late_share: float = 0.05
    ) -> None:
        super().__init__(module, Settings(iterations, late_share))
        self._training = training
        self._begin()

    def _begin(self) -> None:
        """Joins the job."""
        super()._begin()
        self._scheduler = Scheduler()
        self._pending: PendingStep | None = None
        self._parts: list[PendingPart] = []
        counts = [parameter.numel() for _, parameter in self._trained]
        self._firsts = [sum(counts[:index]) for index in range(len(counts))]
        self._values = self._training.empty_tensor(sum(counts))
        with torch.no_grad():
            for index, (_, parameter) in enumerate(self._trained):
                self._value_of(index).copy_(parameter)
        self._step = self._training.begin(self._values)
        self._load()
        self._start_up = self._measure()
        self._follow(Schedule.of_one_set(len(self._trained)))
        self._has_begun = True

    def __setstate__(self, state: dict[str, Any]) -> None:
        """Restores a copy, which can be evaluated but does not take part in the job."""
        self.__dict__.update(state)

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """Runs the module's forward pass, with the parameters that follow the last backward pass.

        Raises:
            TributaryError: as for `step`.
            RuntimeError: the model's parameters were replaced, or this is a copy and gradients are enabled.
        """
        if not self._has_begun:
            if torch.is_grad_enabled():
                raise RuntimeError("a copy cannot take part in the training: make a ServerTimePoints of its module")
            return self.module(*args, **kwargs)
        if self._in_pass:
            self._discard_pass()
        self.step()
        if torch.is_grad_enabled():
            self._gradients.follow()
        return self.module(*args, **kwargs)

    def step(self) -> Step:
        """Waits for the step that follows the last backward pass, and loads its parameters into the model.

        If there was no backward pass since the last call, it returns the last step again.

        Raises:
            TributaryError: the gradient could not be pushed; the message says why. The gradient is dropped, and the
                next pass computes the same iteration again.
        """
        if self._pending is None:
            return self._step
        failures = [part.exception() for part in self._parts]
        failure = self._pending.exception()
        if failure is not None:
            self._drop()
            # The error of a part is the reason for the later error about an incomplete gradient.
            raise next((error for error in failures if error is not None), failure)
        self._step = self._pending.result()
        self._load()
        self._clear()
        if self._is_late:
            share = self._settings.late_share * 100
            logger.info("host %s: more than %.0f %% of the sets are late: profiling", self._training.host, share)
            self._profiling = True
        elif self._has_profile:
            self._decide()
        return self._step

    def _ready(self, index: int) -> None:
        if self._pending is not None and self._synchronises:
            raise RuntimeError(
                "the last backward pass has already handed in the gradient for these parameters: call the model or its "
                "step() before the next backward pass"
            )
        super()._ready(index)

    def _make_sets(self, schedule: Schedule) -> list[OutgoingSet]:
        rows = [in_a_row(self._trained, one.indices) for one in schedule.sets]
        memory = self._training if sum(map(len, rows)) <= MAX_SHARED else None
        return [
            OutgoingSet(self._trained, [Bundle(memory, self._trained, row) for row in its], one.late)
            for one, its in zip(schedule.sets, rows, strict=True)
        ]

    def _send(self, one: OutgoingSet) -> None:
        self._push(one.leave())

    def _push(self, bundles: list[Bundle]) -> None:
        """Sends parts before the gradient's last part."""
        for bundle in bundles:
            first = self._firsts[bundle.indices[0]]
            self._parts.append(self._training.start_push_part(bundle.flat.float(), first))

    def _finish(self) -> None:
        for one in self._sets[self._next : -1]:
            self._send(one)
        self._next = 0
        *others, last = self._sets[-1].leave()
        self._push(others)
        self._pending = self._training.start_push_rest(last.flat.float(), self._firsts[last.indices[0]])
        # Another pass, which is an error, would add to gradients in flight.
        self._clear_gradients()

    def _discard_pass(self) -> None:
        """Discards a pass that broke off. No other worker depends on it, so the next pass can replace it."""
        for part in self._parts:
            part.exception()
        self._drop()

    def _drop(self) -> None:
        """Drops the parts that were handed in."""
        self._in_pass, self._next = False, 0
        for one in self._sets:
            one.empty()
        self._clear()
        # An unreachable agent has no parts, and the next pass reports it.
        with suppress(TributaryError):
            self._training.drop_parts()

    def _clear(self) -> None:
        """Releases the gradient."""
        self._pending, self._parts = None, []
        self._clear_gradients()

    def _clear_gradients(self) -> None:
        for _, parameter in self._trained:
            parameter.grad = None

    @torch.no_grad()
    def _load(self) -> None:
        """Loads the step's parameters into the model."""
        for index, (_, parameter) in enumerate(self._trained):
            parameter.copy_(self._value_of(index))

    def _value_of(self, index: int) -> torch.Tensor:
        parameter, first = self._trained[index][1], self._firsts[index]
        return self._values[first : first + parameter.numel()].view(parameter.shape)

    def _measure(self) -> int:
        """Measures the cost of a part, in nanoseconds."""
        one, took = torch.zeros(1, device="cpu"), []
        for first in range(min(START_UPS, self._values.numel())):
            began = time.perf_counter_ns()
            self._training.push_part(one, first)
            took.append(time.perf_counter_ns() - began)
        self._training.drop_parts()
        return int(statistics.median(took))

    def _decide(self) -> None:
        """Adopts the schedule that follows from the profile, or profiles again."""
        decided = self._scheduler.decide(self._take_profile())
        host = self._training.host
        if isinstance(decided, ThrownOut):
            logger.info("host %s: a profile was rejected: %s", host, decided.reason)
            return
        self._profiling = False
        self._follow(decided)
        logger.info("host %s: %s", host, self.describe())
