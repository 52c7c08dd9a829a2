"""A model whose gradients leave for a parameter server at time points."""

from __future__ import annotations

import statistics
import time
from contextlib import suppress
from typing import Any

import torch

from tributary.errors import TributaryError
from tributary.schedule import Schedule, Scheduler, ThrownOut
from tributary.torch.outbox import MAX_SHARED, Bundle, OutgoingSet, in_a_row
from tributary.torch.tally import logger
from tributary.torch.timepoints.base import Scheduled, Settings
from tributary.training import PendingPart, PendingStep, Step, Training

START_UPS = 10
"""The number of parts of one number that are timed to find the cost of a part."""


class ServerTimePoints(Scheduled):
    """Trains a model as a worker of a parameter server, with gradients that leave at time points.

    The optimiser is the server's, so there is none here. Gradients are removed at the end of the pass, and need not be
    set to zero::

        with tributary.train("digits", worker=rank, servers=servers) as training:
            model = ServerTimePoints(network, training)
            while model.step().iteration < 300:
                loss(model(inputs), labels).backward()

    The first backward passes are timed, while the gradient leaves at their ends. A schedule of this worker's own
    follows from these times. From then on a set leaves as soon as it is full and the previous sets have left, while the
    rest is still being computed. If more than a few sets are late, the worker profiles again.

    Args:
        module: the model. Its trained parameters are the start if the servers have none yet, and become the servers'
            with each step; everything else is this worker's own.
        training: this process's part in the job, which has not begun.
        iterations: the number of backward passes in a profile.
        late_share: the share of late sets above which the worker profiles again.

    Raises:
        ValueError: no parameter of the model is trained, or one is complex; or an argument makes no sense.
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
        self._firsts = [sum(counts[:place]) for place in range(len(counts))]
        self._values = self._training.empty_tensor(sum(counts))
        with torch.no_grad():
            for place, (_, parameter) in enumerate(self._trained):
                self._value_of(place).copy_(parameter)
        self._step = self._training.begin(self._values)
        self._load()
        self._start_up = self._measure()
        self._follow(Schedule.of_one_set(len(self._trained)))
        self._has_begun = True

    def __setstate__(self, state: dict[str, Any]) -> None:
        """A copy can be evaluated, but has no part in the job."""
        self.__dict__.update(state)

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """The module's forward pass, with the parameters that answer the last backward pass.

        Raises:
            TributaryError: as for `step`.
            RuntimeError: the model's parameters were replaced, or this is a copy, which cannot be trained.
        """
        if not self._has_begun:
            if torch.is_grad_enabled():
                raise RuntimeError("a copy takes part in no training: make a ServerTimePoints of its module")
            return self.module(*args, **kwargs)
        if self._in_pass:
            self._forget_pass()
        self.step()
        if torch.is_grad_enabled():
            self._gradients.follow()
        return self.module(*args, **kwargs)

    def step(self) -> Step:
        """Waits for the step that answers the last backward pass, and loads its parameters into the model.

        Without a backward pass since the last call it returns the same step again.

        Raises:
            TributaryError: the gradient could not be pushed; the message says why. It is dropped, and the next pass
                computes the same iteration again.
        """
        if self._pending is None:
            return self._step
        failures = [part.exception() for part in self._parts]
        failure = self._pending.exception()
        if failure is not None:
            self._drop()
            # The error of a part is the reason why the parts were not a whole gradient.
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

    def _ready(self, place: int) -> None:
        if self._pending is not None and self._synchronises:
            raise RuntimeError(
                "the last backward pass has handed its gradient in, and there is no other one for the same parameters: "
                "call the model, or its step(), first"
            )
        super()._ready(place)

    def _make_sets(self, schedule: Schedule) -> list[OutgoingSet]:
        rows = [in_a_row(self._trained, one.places) for one in schedule.sets]
        memory = self._training if sum(map(len, rows)) <= MAX_SHARED else None
        return [
            OutgoingSet(self._trained, [Bundle(memory, self._trained, row) for row in its], one.late)
            for one, its in zip(schedule.sets, rows, strict=True)
        ]

    def _send(self, one: OutgoingSet) -> None:
        self._push(one.leave())

    def _push(self, bundles: list[Bundle]) -> None:
        """Sends parts, not including the gradient's last one."""
        for bundle in bundles:
            first = self._firsts[bundle.places[0]]
            self._parts.append(self._training.start_push_part(bundle.flat.float(), first))

    def _finish(self) -> None:
        for one in self._sets[self._next : -1]:
            self._send(one)
        self._next = 0
        *others, last = self._sets[-1].leave()
        self._push(others)
        self._pending = self._training.start_push_rest(last.flat.float(), self._firsts[last.places[0]])
        # A pass that must not follow would add to gradients in flight.
        self._clear_gradients()

    def _forget_pass(self) -> None:
        """Discards a pass that broke off: nobody else knows of it, so that another one can take its place."""
        for part in self._parts:
            part.exception()
        self._drop()

    def _drop(self) -> None:
        """Drops the parts that were handed in: no gradient will follow from them."""
        self._in_pass, self._next = False, 0
        for one in self._sets:
            one.empty()
        self._clear()
        # An agent that is gone has no parts; the next pass will report it.
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
        for place, (_, parameter) in enumerate(self._trained):
            parameter.copy_(self._value_of(place))

    def _value_of(self, place: int) -> torch.Tensor:
        parameter, first = self._trained[place][1], self._firsts[place]
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
        """Either adopts the schedule that follows from the profile, or profiles again."""
        decided = self._scheduler.decide(self._take_profile())
        host = self._training.host
        if isinstance(decided, ThrownOut):
            logger.info("host %s: a profile is thrown out: %s", host, decided.reason)
            return
        self._profiling = False
        self._follow(decided)
        logger.info("host %s: %s", host, self.describe())
