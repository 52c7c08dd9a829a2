"""Roll calls of the members, and the transfer of the training's state to new members."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from tributary.errors import TributaryError
from tributary.job import Job
from tributary.torch.elastic.state import Integers

MAX_RANKS = 256
"""The largest number of ranks in a roll call, which sums one integer for each rank.

These integers are so few that all are summed over the same members.
"""


@dataclass(frozen=True, slots=True)
class Roll:
    """The result of a roll call, the same on all members that took part."""

    members: tuple[int, ...]
    """Ranks of the members that took part, ascending."""
    leader: int | None
    """The lowest rank of the members that have the training's state."""
    size: int
    """The number of integers in the leader's state."""


def roll_call(job: Job, size: int) -> Roll:
    """Finds the present members.

    Args:
        job: the members' job.
        size: the number of integers in this rank's state; 0 if it has none.

    Raises:
        TributaryError: as for `Job.all_reduce`.
        ValueError: the job has too many ranks.
    """
    if job.rank >= MAX_RANKS:
        raise ValueError(f"rank {job.rank}: an elastic training can have at most {MAX_RANKS} ranks")
    present = np.zeros(MAX_RANKS, dtype=np.int32)
    present[job.rank] = 1 + size
    job.all_reduce(present, name="roll call of an elastic training")
    members = tuple(int(rank) for rank in np.flatnonzero(present))
    leader = next((rank for rank in members if present[rank] > 1), None)
    return Roll(members, leader, int(present[leader]) - 1 if leader is not None else 0)


def transfer_state(job: Job, own: Integers | None, load: Callable[[Integers], None]) -> tuple[int, ...]:
    """Gives all members the state of the lowest rank that has it.

    Args:
        job: the members' job.
        own: this rank's state; `None` if it has none.
        load: loads another rank's state.

    Returns:
        The members' ranks.

    Raises:
        TributaryError: no member has the state, or as for `Job.all_reduce`. After `RegroupError` all members call this
            again.
    """
    if job.regroup is not None:
        job.synchronise(np.zeros(1, dtype=np.int32), name="regrouping of an elastic training")
    while True:
        roll = roll_call(job, len(own) if own is not None else 0)
        if roll.leader is None:
            raise TributaryError(
                f"none of the ranks {list(roll.members)} has the training's state: all ranks that had it are gone. "
                "Start all ranks again, in a new job, with the last checkpoint"
            )
        leads = own is not None and roll.leader == job.rank
        state = own.copy() if leads and own is not None else np.zeros(roll.size, dtype=np.int32)
        reduced = job.all_reduce(state, name="state of an elastic training", weight=int(leads))
        # Otherwise the leader was lost during the all-reduce. All members see the same weights, and repeat it.
        if all(run.weight == 1 for run in reduced.runs):
            if not leads:
                load(state)
            return roll.members
