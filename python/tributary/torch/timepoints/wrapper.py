"""A model that averages its gradients over all ranks at time points."""

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
from tributary.torch.timepoints.base import Scheduled, Settings
from tributary.torch.timepoints.trial import Steps, Trial
from tributary.torch.traffic_counters import logger

START_UPS = 10
"""The number of all-reduces with one value that are timed to find the start-up cost of an all-reduce."""


class TimePoints(Scheduled):
    """Trains a model on all ranks, like `DistributedDataParallel`, and sends gradients at time points.

    In the first backward passes, all gradients are sent together at the end, and the times at which they are ready are
    recorded. From these times the controller makes a schedule, the same for all ranks: the sets of gradients that are
    sent together, and their time points (`tributary jobs schedule` shows it). After that, a set is sent as soon as it
    is full and the previous sets were sent; the ranks need no messages for this. If too many sets are late, all ranks
    profile again.

    After a profile the schedule is on trial for twice as many passes. In half of these passes, all gradients are sent
    together at the end. If that is faster, all gradients are sent together from then on. This can happen if the
    processors are busy with computing.

    A set that is full before its time point is sent at once, because the sum waits for the slowest rank anyway.

    Args:
        module: the model. All ranks start with rank 0's parameters and buffers. Buffers are not synchronised later.
        iterations: the number of backward passes in a profile, and of steps of each way in its trial.
        late_share: the share of late sets above which all ranks profile again.
        group: the first process group, with the backend "tributary" [default: the group of all ranks].
        deadline: seconds that the ranks may take to hand in their profiles.

    Raises:
        ValueError: no parameter of the model is trained, a parameter is complex, the ranks' models differ, the group
            has another backend, or an argument is out of its range.
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
        """Begins the training, on all ranks together.

        Raises:
            ValueError: the ranks' models differ, or the group does not take part in a job.
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
        """Restores a copy, which begins with its first training pass; all ranks must make that pass together."""
        self.__dict__.update(state)
        self._group = None

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """Runs the module's forward pass.

        Raises:
            RuntimeError: the last backward pass broke off, or the model's parameters were replaced.
        """
        if not self._has_begun:
            if not torch.is_grad_enabled():
                return self.module(*args, **kwargs)
            self._begin()
        if self._in_pass:
            raise RuntimeError(
                "the last backward pass broke off, and the other ranks cannot match the gradients that it had sent: "
                "start all ranks again"
            )
        if torch.is_grad_enabled():
            self._gradients.follow()
        return self.module(*args, **kwargs)

    @property
    def is_settled(self) -> bool:
        """True if profile and trial are over, so that gradients are sent in the same way in each pass."""
        return self._has_begun and not self._profiling and self._trial is None

    def describe(self) -> str:
        """Describes the schedule and its trial for users."""
        text = super().describe()
        if self._trial is not None:
            return f"{text}\n  on trial for {self._trial.left} more passes"
        return text if self._steps is None else f"{text}\n  {self._steps}"

    def _begin_together(self) -> None:
        """Gives all ranks the same parameters and the same number of this run, and times small all-reduces.

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
        """Checks that all ranks have the same model. Otherwise all-reduces would not match."""
        kinds = repr(
            [(tuple(tensor.shape), str(tensor.dtype)) for tensor in tensors] + [one for one, _ in self._trained]
        )
        digest = int.from_bytes(hashlib.sha256(kinds.encode()).digest()[:7])
        own = torch.tensor([len(self._trained), sum(tensor.numel() for tensor in tensors), digest], device="cpu")
        all_ranks = [torch.empty_like(own) for _ in range(dist.get_world_size(self._group))]
        dist.all_gather(all_ranks, own, group=self._group)
        models = [tuple(one.tolist()) for one in all_ranks]
        if len(set(models)) > 1:
            text = "; ".join(
                f"rank {rank}: {trained} trained parameters, {elements} elements in all"
                for rank, (trained, elements, _) in enumerate(models)
            )
            raise ValueError(f"the ranks' models are not the same ({text}): make the same model on all ranks")

    def _make_sets(self, schedule: Schedule) -> list[OutgoingSet]:
        last = len(schedule.sets) - 1
        return [self._make_set(number, one, has_flag=number == last) for number, one in enumerate(schedule.sets)]

    def _make_set(self, number: int, one: SetOfGradients, *, has_flag: bool) -> OutgoingSet:
        memory = self._job if number < MAX_SHARED else None
        kinds = by_type(self._trained, one.indices)
        extras = [int(has_flag and kind is kinds[-1]) for kind in kinds]
        bundles = [Bundle(memory, self._trained, kind, extra) for kind, extra in zip(kinds, extras, strict=True)]
        return OutgoingSet(self._trained, bundles, one.late)

    def _finish(self) -> None:
        """Sends the remaining sets, with the flag, and waits for all sets."""
        last = self._sets[-1]
        # The flag is not raised during the trial, because the trial measures whole steps, including late sets.
        last.raise_flag(self._trial is None and self._is_late)
        for one in self._sets[self._next :]:
            self._send(one)
        self._next = 0
        failure = self._wait()
        if failure is not None:
            raise failure
        if self._trial is not None:
            self._end_trial_pass(self._trial)
        elif last.flag and not self._profiling:
            # All ranks do this in the same pass, because all of them get the same flag.
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
        """Waits until all sets are averaged; returns the first error, if any."""
        under_way, self._under_way = self._under_way, []
        failure: Exception | None = None
        for work in under_way:
            try:
                work.wait()
            except Exception as error:
                failure = failure or error
        return failure

    def _decide(self) -> None:
        """Adopts the schedule that follows from the profile, at first on trial, or profiles again."""
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

    def _end_trial_pass(self, trial: Trial) -> None:
        """Called after a pass of the trial: selects the way of the next pass, or the result of the trial."""
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
            # With a start-up cost as long as the pass, the controller makes a schedule of one set.
            sizes, ready = self._profile.sizes, self._profile.ready
            self._hand_in(Profile(sizes, ready, max(self._profile.start_up, *ready)))
        logger.info("rank %s: %s", self._job.rank, self.describe())

    def _agree(self, own: Steps) -> Steps:
        """Returns the mean of the ranks' times, so that all ranks take the same decision."""
        steps = torch.tensor([own.points, own.together], device="cpu")
        dist.all_reduce(steps, op=dist.ReduceOp.AVG, group=self._group)
        points, together = steps.tolist()
        return Steps(points, together)

    def _hand_in(self, profile: Profile) -> bool:
        """Hands in a profile, and adopts the schedule that follows from it; returns false if it was rejected."""
        self._profiles += 1
        decided = self._job.hand_in_profile(self._run, self._profiles, profile, deadline=self._settings.deadline)
        if isinstance(decided, ThrownOut):
            logger.info("rank %s: profile %s was rejected: %s", self._job.rank, self._profiles, decided.reason)
            return False
        self._profiling = False
        self._follow(decided)
        return True
