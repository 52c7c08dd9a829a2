"""A model whose gradients leave for the other ranks at time points."""

from __future__ import annotations

import hashlib
import secrets
import statistics
import time
from datetime import timedelta
from typing import Any

import torch
import torch.distributed as dist

from tributary.schedule import Profile, Schedule, SetOfGradients, ThrownOut
from tributary.torch.backend import backend_of
from tributary.torch.outbox import MAX_SHARED, Bundle, OutgoingSet, by_type
from tributary.torch.tally import logger
from tributary.torch.timepoints.base import Scheduled, Settings
from tributary.torch.timepoints.trial import Steps, Trial

START_UPS = 10
"""The number of all-reduces of one number that are timed to find the cost of starting one."""


class TimePoints(Scheduled):
    """Trains a model on all ranks, as `DistributedDataParallel` does, with gradients that leave at time points.

    The first backward passes are timed, while all gradients leave together at their ends. From these times the
    controller makes a schedule, the same for all ranks (`tributary jobs schedule` shows it): which gradients leave
    together, and when. From then on a set leaves as soon as it is full and the previous sets have left; the ranks need
    not exchange messages. If more than a few sets are late, all ranks profile again.

    After a profile the schedule is on trial for twice as many passes: in every second one, all gradients leave together
    as before. If that is faster, as it can be on processors that are busy with computing, it stays so.

    A set that is full before its time point does not wait for it: the sum needs the slowest rank anyway.

    Args:
        module: the model; all ranks start with rank 0's parameters and buffers. Buffers are not synchronised later.
        iterations: the number of backward passes in a profile, and of steps of each way in its trial.
        late_share: the share of late sets above which all ranks profile again.
        group: the process group: the first one, with the backend "tributary".
        deadline: seconds that the ranks may take to hand in their profiles.

    Raises:
        ValueError: no parameter of the model is trained, or one is complex; the ranks' models differ; the group has
            another backend; or an argument makes no sense.
    """

    _clock = staticmethod(time.perf_counter_ns)
    """The clock by which steps are timed."""

    def __init__(
        self,
        module: torch.nn.Module,
        *,
        iterations: int = 20,
        late_share: float = 0.05,
        group: dist.ProcessGroup | None = None,
        deadline: float | timedelta | None = None,
    ) -> None:
        super().__init__(module, Settings(iterations, late_share, deadline))
        self._group = group
        self._begin()

    def _begin(self) -> None:
        """Begins on all ranks together.

        Raises:
            ValueError: the ranks' models differ, or the group takes part in no job.
        """
        self._job = backend_of(self._group).job
        super()._begin()
        self._profiles = 0
        self._under_way: list[dist.Work] = []
        self._trial: Trial | None = None
        self._steps: Steps | None = None
        self._begin_together()
        self._follow(Schedule.of_one_set(len(self._trained)))
        self._has_begun = True

    def __setstate__(self, state: dict[str, Any]) -> None:
        """A copy begins with its first training pass, which all ranks then make: evaluation needs no other rank."""
        self.__dict__.update(state)
        self._group = None

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """The module's forward pass.

        Raises:
            RuntimeError: the last backward pass broke off, or the model's parameters were replaced.
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

    @property
    def is_settled(self) -> bool:
        """Whether profile and trial are over, so that gradients leave in the same way from pass to pass."""
        return self._has_begun and not self._profiling and self._trial is None

    def describe(self) -> str:
        """The schedule and its trial, for people."""
        said = super().describe()
        if self._trial is not None:
            return f"{said}\n  on trial for {self._trial.left} more passes"
        return said if self._steps is None else f"{said}\n  {self._steps}"

    def _begin_together(self) -> None:
        """Gives all ranks the same parameters and the same number of this run, and times a small all-reduce.

        Raises:
            ValueError: the ranks' models differ.
        """
        tensors = [*self.module.parameters(), *self.module.buffers()]
        self._compare(tensors)
        with torch.no_grad():
            for tensor in tensors:
                dist.broadcast(tensor, src=0, group=self._group)
        run = torch.tensor([secrets.randbits(63)], device="cpu")
        dist.broadcast(run, src=0, group=self._group)
        self._run = int(run.item())
        number, took = torch.zeros(1, device="cpu"), []
        for _ in range(START_UPS):
            began = time.perf_counter_ns()
            dist.all_reduce(number, group=self._group)
            took.append(time.perf_counter_ns() - began)
        self._start_up = int(statistics.median(took))

    def _compare(self, tensors: list[torch.Tensor]) -> None:
        """Checks that all ranks have the same model: all-reduces that differ would wait until the deadline."""
        kinds = repr(
            [(tuple(tensor.shape), str(tensor.dtype)) for tensor in tensors] + [one for one, _ in self._trained]
        )
        digest = int.from_bytes(hashlib.sha256(kinds.encode()).digest()[:7])
        own = torch.tensor([len(self._trained), sum(tensor.numel() for tensor in tensors), digest], device="cpu")
        all_ranks = [torch.empty_like(own) for _ in range(dist.get_world_size(self._group))]
        dist.all_gather(all_ranks, own, group=self._group)
        models = [tuple(one.tolist()) for one in all_ranks]
        if len(set(models)) > 1:
            said = "; ".join(
                f"rank {rank}: {trained} trained parameters, {elements} elements in all"
                for rank, (trained, elements, _) in enumerate(models)
            )
            raise ValueError(f"the ranks' models are not the same ({said}): make the same one on all ranks")

    def _make_sets(self, schedule: Schedule) -> list[OutgoingSet]:
        last = len(schedule.sets) - 1
        return [self._make_set(number, one, has_flag=number == last) for number, one in enumerate(schedule.sets)]

    def _make_set(self, number: int, one: SetOfGradients, *, has_flag: bool) -> OutgoingSet:
        memory = self._job if number < MAX_SHARED else None
        kinds = by_type(self._trained, one.places)
        extras = [int(has_flag and kind is kinds[-1]) for kind in kinds]
        bundles = [Bundle(memory, self._trained, kind, extra) for kind, extra in zip(kinds, extras, strict=True)]
        return OutgoingSet(self._trained, bundles, one.late)

    def _finish(self) -> None:
        """Sends the remaining sets, with the flag, and waits for everything."""
        last = self._sets[-1]
        # While the schedule is on trial, its whole time is judged, including late sets.
        last.raise_flag(self._trial is None and self._is_late)
        for one in self._sets[self._next :]:
            self._send(one)
        self._next = 0
        failure = self._wait()
        if failure is not None:
            raise failure
        if self._trial is not None:
            self._try(self._trial)
        elif last.flag and not self._profiling:
            # On all ranks in the same pass, since all of them have the same sum.
            share = self._settings.late_share * 100
            logger.info("rank %s: more than %.0f %% of some rank's sets are late: profiling", self._job.rank, share)
            self._profiling = True
        elif self._has_profile:
            self._decide()

    def _send(self, one: OutgoingSet) -> None:
        """Starts to average a set over all ranks."""
        for bundle in one.leave():
            work = dist.all_reduce(bundle.flat, op=dist.ReduceOp.AVG, group=self._group, async_op=True)
            if work is not None:
                self._under_way.append(work)

    def _wait(self) -> Exception | None:
        """Waits until all sets are back; returns the first error, if any."""
        under_way, self._under_way = self._under_way, []
        failure: Exception | None = None
        for work in under_way:
            try:
                work.wait()
            except Exception as error:
                failure = failure or error
        return failure

    def _decide(self) -> None:
        """Either adopts the schedule that follows from the profile, at first on trial, or profiles again."""
        self._profile = self._take_profile()
        if not self._hand_in(self._profile):
            return
        self._steps = None
        if len(self._schedule.sets) > 1:
            self._at_points = self._sets
            self._together = self._make_sets(Schedule.of_one_set(len(self._trained)))
            self._trial = Trial(self._settings.iterations, self._clock)
            self._use(self._together)
        logger.info("rank %s: %s", self._job.rank, self.describe())

    def _try(self, trial: Trial) -> None:
        """Called after a pass of the trial: the other way gets its turn, or one of them is chosen for good."""
        trial.end_pass()
        if trial.left:
            self._use(self._at_points if trial.at_points else self._together)
            return
        self._trial = None
        self._steps = self._agree(trial.steps)
        self._use(self._at_points)
        self._lateness.clear()
        del self._at_points, self._together
        if not self._steps.keeps_points:
            # A start-up as long as the pass tells the controller: then it makes a schedule of one set.
            sizes, ready = self._profile.sizes, self._profile.ready
            self._hand_in(Profile(sizes, ready, max(self._profile.start_up, *ready)))
        logger.info("rank %s: %s", self._job.rank, self.describe())

    def _agree(self, own: Steps) -> Steps:
        """The mean of the ranks' times: all of them decide by the same numbers."""
        steps = torch.tensor([own.points, own.together], device="cpu")
        dist.all_reduce(steps, op=dist.ReduceOp.AVG, group=self._group)
        points, together = steps.tolist()
        return Steps(points, together)

    def _hand_in(self, profile: Profile) -> bool:
        """Hands in a profile, and adopts the schedule that follows from it, if there is one."""
        self._profiles += 1
        decided = self._job.hand_in_profile(self._run, self._profiles, profile, deadline=self._settings.deadline)
        if isinstance(decided, ThrownOut):
            logger.info("rank %s: profile %s is thrown out: %s", self._job.rank, self._profiles, decided.reason)
            return False
        self._profiling = False
        self._follow(decided)
        return True
