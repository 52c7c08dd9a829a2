"""A model whose gradients leave at time points."""

from __future__ import annotations

import hashlib
import secrets
import statistics
import time
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

import torch
import torch.distributed as dist

from tributary.schedule import Profile, Schedule, ThrownOut
from tributary.torch import gradients
from tributary.torch.backend import backend_of
from tributary.torch.outbox import MAX_SHARED, OutgoingSet
from tributary.torch.tally import logger
from tributary.torch.timepoints.recorder import Recorder

WATCHED = 100
"""The last sets, of which only a few may be late."""
START_UPS = 10
"""All-reduces of one number by which it is measured what starting one takes."""


@dataclass(frozen=True, slots=True)
class Settings:
    """What was asked for."""

    iterations: int
    late_share: float
    deadline: float | timedelta | None


class TimePoints(torch.nn.Module):
    """Trains a model on all ranks, as `DistributedDataParallel` does, with gradients that leave at time points.

    The first backward passes are timed, while all gradients leave together at their ends. From when the gradients
    were ready the controller makes a schedule, the same for all ranks (`tributary jobs schedule` shows it): which
    gradients leave together, and when. From then on a set leaves as soon as it is whole and the sets before it have
    left; the ranks need no word from one another. If more than a few sets are late, all ranks profile anew.

    A set that is whole before its time point does not wait for it: the sum needs the slowest rank anyway.

    Args:
        module: the model; rank 0's parameters and buffers are everybody's at first. Buffers are not synchronised later.
        iterations: backward passes that a profile is made of.
        late_share: the share of late sets above which all ranks profile anew.
        group: the process group: the first one, of the backend "tributary".
        deadline: seconds that the ranks may take to hand in their profiles.

    Raises:
        ValueError: no parameter of the model is trained, or one is complex; the ranks' models are not the same; the
            group's backend is another one; or an argument makes no sense.
    """

    _has_begun = False
    """Not yet of a copy."""
    _synchronises = True

    def __init__(
        self,
        module: torch.nn.Module,
        *,
        iterations: int = 20,
        late_share: float = 0.05,
        group: dist.ProcessGroup | None = None,
        deadline: float | timedelta | None = None,
    ) -> None:
        super().__init__()
        if not isinstance(iterations, int) or iterations < 1:
            raise ValueError(f"{iterations} iterations: a profile is made of a whole number of them, one at least")
        if not 0 <= late_share <= 1:
            raise ValueError(f"a late share of {late_share}: it is from 0 to 1")
        if not gradients.trained(module):
            raise ValueError("no parameter of the model requires a gradient: there is nothing to train")
        for name, parameter in gradients.trained(module):
            if not parameter.is_floating_point():
                raise ValueError(
                    f"parameter {name} is of {parameter.dtype}: TimePoints averages floating-point numbers"
                )
        self.module = module
        self._settings = Settings(iterations, late_share, deadline)
        self._group = group
        self._begin()

    def _begin(self) -> None:
        """All ranks begin together.

        Raises:
            ValueError: the ranks' models are not the same, or the group takes part in no job.
        """
        self._job = backend_of(self._group).job
        self._gradients = gradients.Gradients(self.module, self._ready)
        self._trained = self._gradients.parameters
        self._recorder = Recorder(len(self._trained))
        self._profiles = 0
        self._profiling = True
        self._in_pass = False
        self._lateness: deque[bool] = deque(maxlen=WATCHED)
        self._begin_together()
        self._follow(Schedule.of_one_set(len(self._trained)))
        self._has_begun = True

    def __getstate__(self) -> dict[str, Any]:
        """The model and what was asked for: a copy, which `deepcopy` and `pickle` make, begins anew.

        It does so with its first training pass, which all ranks make then: a copy that is only evaluated needs no
        group, and no other rank.
        """
        kept = {*torch.nn.Module().__dict__, "_settings"}
        return {name: value for name, value in self.__dict__.items() if name in kept}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._group = None

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """The model's.

        Raises:
            RuntimeError: the last backward pass has ended in the middle, or the model has other parameters now.
        """
        if not self._has_begun:
            if not torch.is_grad_enabled():
                return self.module(*args, **kwargs)
            self._begin()
        if self._in_pass:
            raise RuntimeError(
                "the last backward pass broke off, and what it had sent has no counterpart on the other ranks: start "
                "all ranks again"
            )
        if torch.is_grad_enabled():
            self._gradients.follow()
        return self.module(*args, **kwargs)

    @contextmanager
    def no_sync(self) -> Iterator[None]:
        """Backward passes in here leave their gradients where they are, for later ones to add to."""
        before, self._synchronises = self._synchronises, False
        try:
            yield
        finally:
            self._synchronises = before

    @property
    def schedule(self) -> Schedule:
        """What leaves when, as it is now."""
        return self._schedule

    @property
    def late_sets(self) -> int:
        """How many of the last 100 sets were late on this rank; another schedule begins anew."""
        return sum(self._lateness)

    def describe(self) -> str:
        """The schedule, for people."""
        lines = [f"schedule {self._schedule.version}: {len(self._schedule.sets)} sets"]
        for number, leaving in enumerate(self._schedule.sets, 1):
            names = [self._trained[place][0] for place in leaving.places]
            size = sum(self._trained[place][1].nbytes for place in leaving.places)
            lines.append(
                f"  {number}: {leaving.at / 1e6:.1f} ms, {size / 1e6:.2f} MB, {len(names)} gradients, "
                f"{names[0]} to {names[-1]}"
            )
        return "\n".join(lines)

    def _begin_together(self) -> None:
        """All ranks have the same parameters, the same number for this run, and know what a small all-reduce takes.

        Raises:
            ValueError: the ranks' models are not the same.
        """
        tensors = [*self.module.parameters(), *self.module.buffers()]
        self._compare(tensors)
        with torch.no_grad():
            for tensor in tensors:
                dist.broadcast(tensor, src=0, group=self._group)
        run = torch.tensor([secrets.randbits(63)])
        dist.broadcast(run, src=0, group=self._group)
        self._run = int(run.item())
        number, took = torch.zeros(1), []
        for _ in range(START_UPS):
            began = time.perf_counter_ns()
            dist.all_reduce(number, group=self._group)
            took.append(time.perf_counter_ns() - began)
        self._start_up = int(statistics.median(took))

    def _compare(self, tensors: list[torch.Tensor]) -> None:
        """Whether all ranks have the same model: what is not would be waited for until the time is over."""
        kinds = repr(
            [(tuple(tensor.shape), str(tensor.dtype)) for tensor in tensors] + [one for one, _ in self._trained]
        )
        digest = int.from_bytes(hashlib.sha256(kinds.encode()).digest()[:7])
        own = torch.tensor([len(self._trained), sum(tensor.numel() for tensor in tensors), digest])
        all_ranks = [torch.empty_like(own) for _ in range(dist.get_world_size(self._group))]
        dist.all_gather(all_ranks, own, group=self._group)
        models = [tuple(one.tolist()) for one in all_ranks]
        if len(set(models)) > 1:
            said = "; ".join(
                f"rank {rank}: {trained} trained parameters, {elements} elements in all"
                for rank, (trained, elements, _) in enumerate(models)
            )
            raise ValueError(f"the ranks' models are not the same ({said}): make the same one on all ranks")

    def _follow(self, schedule: Schedule) -> None:
        self._schedule = schedule
        last, parameters = len(schedule.sets) - 1, self._trained
        self._sets = [
            OutgoingSet(self._job if number < MAX_SHARED else None, parameters, one.places, one.late, number == last)
            for number, one in enumerate(schedule.sets)
        ]
        self._set_of = {place: number for number, one in enumerate(schedule.sets) for place in one.places}
        self._next = 0
        self._under_way: list[dist.Work] = []
        self._lateness.clear()

    def _ready(self, place: int) -> None:
        """A gradient is ready."""
        if not self._synchronises:
            return
        if not self._in_pass:
            self._in_pass = True
            self._recorder.begin()
            engine: Any = torch.autograd.Variable._execution_engine
            engine.queue_callback(self._end_of_pass)
        now = self._recorder.ready(place)
        own = self._sets[self._set_of[place]]
        own.put(place)
        if own.is_full:
            self._lateness.append(now > own.late)
            # The last set leaves at the end of the pass, with the flag: nothing comes behind it.
            while self._next < len(self._sets) - 1 and self._sets[self._next].is_full:
                self._send(self._sets[self._next])
                self._next += 1

    def _end_of_pass(self) -> None:
        """All gradients are there: what has not left does so now, and all of it comes back."""
        self._in_pass = False
        if self._profiling:
            self._recorder.keep()
        for one in self._sets[self._next :]:
            one.fill_up()
        last = self._sets[-1]
        last.raise_flag(not self._profiling and self.late_sets > self._settings.late_share * WATCHED)
        for one in self._sets[self._next :]:
            self._send(one)
        self._next = 0
        failure = self._wait()
        if failure is not None:
            raise failure
        if last.flag and not self._profiling:
            # On all ranks in the same pass, since all of them have the same sum.
            share = self._settings.late_share * 100
            logger.info("rank %s: more than %.0f %% of some rank's sets are late: profiling", self._job.rank, share)
            self._profiling = True
        elif self._profiling and self._recorder.passes == self._settings.iterations:
            self._decide()

    def _send(self, one: OutgoingSet) -> None:
        """Starts to average it over all ranks."""
        for flat in one.leave():
            work = dist.all_reduce(flat, op=dist.ReduceOp.AVG, group=self._group, async_op=True)
            if work is not None:
                self._under_way.append(work)

    def _wait(self) -> Exception | None:
        """Waits until all of it is back, or why it is not."""
        under_way, self._under_way = self._under_way, []
        failure: Exception | None = None
        for work in under_way:
            try:
                work.wait()
            except Exception as error:
                failure = failure or error
        return failure

    def _decide(self) -> None:
        """Hands in the profile; either goes by the schedule that follows from it, or profiles again."""
        self._profiles += 1
        sizes = [parameter.nbytes for _, parameter in self._trained]
        profile = Profile(sizes, self._recorder.take_medians(), self._start_up)
        decided = self._job.hand_in_profile(self._run, self._profiles, profile, deadline=self._settings.deadline)
        if isinstance(decided, ThrownOut):
            logger.info("rank %s: profile %s is thrown out: %s", self._job.rank, self._profiles, decided.reason)
            return
        self._profiling = False
        self._follow(decided)
        logger.info("rank %s: %s", self._job.rank, self.describe())
