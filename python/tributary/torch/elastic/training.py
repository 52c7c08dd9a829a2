"""A training whose ranks may join and leave."""

from __future__ import annotations

import copy
import logging
import time
from collections.abc import Iterator
from datetime import timedelta
from types import TracebackType
from typing import Any

import torch
from torch.utils.data import Dataset

from tributary.errors import DetachedError, JobEndedError, JobOverError, RegroupError, TributaryError
from tributary.job import Job, join
from tributary.torch.elastic.backward_pass import BackwardPass
from tributary.torch.elastic.loader import ElasticLoader
from tributary.torch.elastic.members import roll_call, transfer_state
from tributary.torch.elastic.plan import Plan
from tributary.torch.elastic.state import Stateful, pack, unpack

logger = logging.getLogger("tributary")
RETRY = 0.1
"""Seconds between two attempts of a detached rank without state."""


def _log_wait(awaited: str) -> None:
    """Logs what the training waits for."""
    logger.warning("waiting: %s", awaited)


class Elastic:
    """Trains a model on all ranks of a job, and continues when ranks die, leave, join or are detached.

    It replaces `init_process_group` and `DistributedDataParallel`: it joins the job, gives all ranks the same
    parameters, and averages gradients in backward passes over all samples of a step. `epochs` and `loader` determine
    which samples a rank processes.

    A step counts if all members have contributed to it. If a member is lost during the step, the others have no
    gradients after their backward passes, so that `optimizer.step()` changes nothing. They then repeat the step, whose
    samples are split among the remaining members. A rank that joins takes the whole state from a member: the model, the
    optimiser, the other objects, and the position in the data.

    Args:
        model: the model. Its parameters are float32 or bfloat16. When a rank joins, all ranks get the buffers of one
            rank; otherwise each rank has its own buffers.
        optimizer: must not change parameters without gradients. PyTorch's optimisers do not.
        others: other objects with a state, such as learning-rate schedulers. Their changes in a step that is repeated
            are undone.
        checkpoint: a `state_dict` to start from, the same on all ranks. A rank that joins later continues with the
            members' state instead.
        job: as for `tributary.join`.
        token: as for `tributary.join`.
        socket: as for `tributary.join`.
        process: as for `tributary.join`. If one rank of a host dies, all ranks of the host leave the training.
        processes: as for `tributary.join`.
        deadline: seconds that each all-reduce may take. A rank that stalls for longer ends the training.

    Raises:
        ValueError: the model has nothing to train, or it differs from the other ranks' models.
        TributaryError: this process cannot join, or no member has the training's state.
    """

    def __init__(
        self,
        model: torch.nn.Module,
        optimizer: torch.optim.Optimizer,
        *others: Stateful,
        job: str | None = None,
        token: bytes | None = None,
        socket: str | None = None,
        process: int | None = None,
        processes: int | None = None,
        deadline: float | timedelta = 1800,
        checkpoint: dict[str, Any] | None = None,
    ) -> None:
        self._parts: dict[str, Stateful] = {"model": model, "optimizer": optimizer}
        self._parts |= {f"other {number}": other for number, other in enumerate(others)}
        self._optimizer = optimizer
        self._others = others
        self._backward_pass = BackwardPass(model, self._pass_ended)
        self._epoch = self._step = 0
        self._members: tuple[int, ...] = ()
        self._job: Job | None = None
        self._how_to_join: dict[str, Any] = {
            "job": job, "token": token, "socket": socket, "process": process, "processes": processes,
            "deadline": deadline,
        }  # fmt: skip
        self._needs: str | None = None
        if checkpoint is not None:
            self._load(checkpoint)
        self._join()
        try:
            self._settle()
        except BaseException:
            # The other members continue.
            self._leave()
            raise

    @property
    def rank(self) -> int:
        """The rank of this process in the job."""
        return self._rank

    @property
    def members(self) -> tuple[int, ...]:
        """Ranks of the members in the last step, ascending."""
        return self._members

    @property
    def is_leader(self) -> bool:
        """True on the lowest rank of the members, which writes checkpoints and reports progress."""
        return self._has_state and self._members[0] == self._rank

    @property
    def epoch(self) -> int:
        """The current epoch, from 0."""
        return self._epoch

    @property
    def step(self) -> int:
        """The number of steps done in this epoch."""
        return self._step

    @property
    def has_state(self) -> bool:
        """True if this rank has the training's current state.

        A detached rank has an old state until it joins again. If the training ends before that, it keeps the old state.
        """
        return self._has_state

    def epochs(self, count: int) -> Iterator[int]:
        """Yields the remaining of `count` epochs; then waits for all members, and leaves the job.

        If a rank was detached or unreachable and joins again, its loop over the batches of an epoch may end early: the
        rank then continues with the epoch of the others. If the training of the others ends while it is detached, its
        loops end, too, with a warning, and without the training's state (`has_state`).
        """
        while True:
            self._settle()
            if self._epoch >= count or self._job is None:
                break
            yield self._epoch
        self.close()

    def loader(
        self, dataset: Dataset[Any], *, batch_size: int, shuffle: bool = True, seed: int = 0, **options: Any
    ) -> ElasticLoader:
        """Returns an iterable over this rank's batches of the rest of an epoch, which a `DataLoader` makes.

        Args:
            dataset: all samples; the same on all ranks.
            batch_size: samples of a step, over all ranks. The samples of a step do not depend on the members.
            shuffle: true if each epoch has a different order.
            seed: the seed of the order.
            options: as for `DataLoader`: `num_workers`, `collate_fn`, …

        Raises:
            ValueError: there are no samples.
        """
        size: Any = dataset
        return ElasticLoader(self, dataset, Plan(len(size), batch_size, shuffle, seed), options)

    def state_dict(self) -> dict[str, Any]:
        """Returns the whole state that a joining rank takes, also for checkpoints."""
        position = {"epoch": self._epoch, "step": self._step}
        return position | {name: part.state_dict() for name, part in self._parts.items()}

    def _load(self, state: dict[str, Any]) -> None:
        """Loads a state.

        Raises:
            ValueError: it is the state of another training.
        """
        if set(state) != {"epoch", "step", *self._parts}:
            raise ValueError(f"the state of another training: it has {sorted(state)}")
        try:
            for name, part in self._parts.items():
                part.load_state_dict(state[name])
        except (RuntimeError, ValueError, KeyError, TypeError) as error:
            raise ValueError(f"the state of another training: {error}") from error
        self._epoch, self._step = int(state["epoch"]), int(state["step"])

    def close(self) -> None:
        """Waits until all members call this, and leaves the job.

        Members that do not reach the end of `epochs` must call this at the same point.

        Raises:
            TributaryError: as for `Job.all_reduce`.
        """
        while True:
            self._settle()
            if self._job is None:
                return
            try:
                self._job.barrier()
            except RegroupError:
                # A rank has joined at the end of the training, and needs the state.
                self._needs = "state"
                continue
            except (DetachedError, JobOverError) as error:
                # This rank has the complete result.
                logger.warning("rank %s leaves alone: %s", self._rank, error)
            else:
                self._finish()
                return
            self._leave()

    def __enter__(self) -> Elastic:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is None:
            self.close()
        else:
            # The other members continue.
            self._leave()

    # Called by the loader.

    def begin_step(self, plan: Plan, step: int, samples: int) -> None:
        """Called before a batch of `samples` samples is processed."""
        if samples == 0:
            raise ValueError(
                f"a step has only {plan.total(step)} samples for {len(self._members)} ranks: give a larger batch_size"
            )
        # A step without gradients changes neither the model nor the optimiser's state, so these copies are enough.
        self._before = (
            [copy.deepcopy(other.state_dict()) for other in self._others],
            [{key: value for key, value in group.items() if key != "params"} for group in self._optimizer.param_groups],
        )
        self._made = False
        self._backward_pass.begin(plan.describe(self._epoch, step), samples, len(self._members))

    def end_step(self, plan: Plan) -> bool:
        """Called after a batch; returns true if the next batch of this loop follows.

        Raises:
            RuntimeError: there was no backward pass.
        """
        if self._backward_pass.is_due:
            raise RuntimeError(
                "a batch without a backward pass: the other ranks wait for its gradients. Make one for each batch of "
                "Elastic.loader, and end loops over it on all ranks in the same step"
            )
        if self._made:
            self._step += 1
            if self._step == plan.steps:
                self._epoch, self._step = self._epoch + 1, 0
            return True
        states, groups = self._before
        for other, state in zip(self._others, states, strict=True):
            other.load_state_dict(state)
        for group, values in zip(self._optimizer.param_groups, groups, strict=True):
            group.update(values)
        # A detached rank continues to make steps, until the training ends without it.
        return self._needs is None and self._job is not None

    def settle(self) -> bool:
        """Synchronises this rank with the others; returns false if the loop must end first."""
        if not self._has_state and self._needs:
            return False
        self._settle()
        return self._job is not None

    def _join(self) -> None:
        self._job = job = join(elastic=True, waits=_log_wait, **self._how_to_join)
        self._rank = job.rank
        self._backward_pass.set_job(job)
        # Otherwise this rank has joined a running job, or has left the job before.
        self._has_state = job.regroup is None and not self._members
        self._needs = "state"

    def _finish(self) -> None:
        job, self._job = self._job, None
        if job is None:
            return
        try:
            job.finish()
        except TributaryError as error:
            # This rank has the complete result.
            logger.warning("rank %s: %s", self._rank, error)

    def _leave(self) -> None:
        job, self._job = self._job, None
        if job is not None:
            job.leave()

    def _pass_ended(self) -> None:
        self._made, errors = self._backward_pass.wait()
        if not self._made and not errors:
            self._needs = "roll call"
        self._note(errors)

    def _note(self, errors: list[TributaryError]) -> None:
        """Handles errors.

        Raises:
            TributaryError: an error that cannot be handled.
        """
        for error in errors:
            if isinstance(error, RegroupError):
                self._needs = "state"
                self._has_state = self._has_state and self._rank not in error.joined
            elif isinstance(error, DetachedError):
                if self._has_state:
                    logger.warning("rank %s: %s", self._rank, error)
                self._has_state = False
            elif isinstance(error, JobEndedError) and self._members and not self._has_state:
                logger.warning(
                    "rank %s: the training has ended without this rank, which was detached: its model is from epoch "
                    "%s, step %s. The others have the training's result",
                    self._rank,
                    self._epoch,
                    self._step,
                )
                self._leave()
                return
            elif isinstance(error, JobOverError):
                self._join_again(error)
                return
            else:
                raise error

    def _join_again(self, error: JobOverError) -> None:
        """Joins again, because the job may be over only for this rank, after it was unreachable.

        Raises:
            TributaryError: the job is over for all ranks.
        """
        logger.warning("rank %s: %s; joining again", self._rank, error)
        self._leave()
        try:
            self._join()
        except TributaryError as refused:
            raise JobOverError(f"{error}; this rank cannot join again: {refused}") from refused

    def _settle(self) -> None:
        """Brings this member up to date before the next step, at the same position as all other members."""
        while self._needs and self._job is not None:
            before = self._members
            try:
                if self._needs == "state":
                    own = pack(self.state_dict()) if self._has_state else None
                    self._members = transfer_state(self._job, own, lambda state: self._load(unpack(state)))
                    self._has_state = True
                else:
                    self._members = roll_call(self._job, 0).members
                self._needs = None
                logger.info("rank %s: ranks %s continue, after %s", self._rank, self._members, before or "their start")
            except DetachedError as error:
                self._note([error])
                if self._members:
                    # It continues to make steps, whose times show when it has recovered.
                    self._needs = None
                    return
                time.sleep(RETRY)
            except TributaryError as error:
                self._note([error])
