"""Who is in, and how they take over one another's state: what all members do at the same place in their order."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from tributary.errors import TributaryError
from tributary.job import Job
from tributary.torch.elastic.state import Integers

MAX_RANKS = 256
"""Ranks that a roll call has room for: so many integers are summed over the same members, or none of them is."""


@dataclass(frozen=True, slots=True)
class Roll:
    """Who has answered a roll call: the same for all who have."""

    members: tuple[int, ...]
    """Ranks, ascending."""
    leader: int | None
    """The lowest one that has the training's state."""
    size: int
    """Integers that its state has, where that was asked for."""


def roll_call(job: Job, size: int) -> Roll:
    """Finds out who is in. `size`: integers of this rank's state; 0: it has none.

    Raises:
        TributaryError: as of `Job.all_reduce`.
        ValueError: the job has too many ranks.
    """
    if job.rank >= MAX_RANKS:
        raise ValueError(f"rank {job.rank}: an elastic training has {MAX_RANKS} ranks at most")
    present = np.zeros(MAX_RANKS, dtype=np.int32)
    present[job.rank] = 1 + size
    job.all_reduce(present, name="roll call of an elastic training")
    members = tuple(int(rank) for rank in np.flatnonzero(present))
    leader = next((rank for rank in members if present[rank] > 1), None)
    return Roll(members, leader, int(present[leader]) - 1 if leader is not None else 0)


def take_over(job: Job, own: Integers | None, load: Callable[[Integers], None]) -> tuple[int, ...]:
    """All members go on with the state of the lowest rank that has it. Says who they are.

    Args:
        job: what they are members of.
        own: this rank's state; `None`: it has none.
        load: takes another rank's.

    Raises:
        TributaryError: nobody has it, or as of `Job.all_reduce`; after `RegroupError` all members begin anew.
    """
    if job.regroup is not None:
        job.synchronise(np.zeros(1, dtype=np.int32), name="regrouping of an elastic training")
    while True:
        roll = roll_call(job, len(own) if own is not None else 0)
        if roll.leader is None:
            raise TributaryError(
                f"of ranks {list(roll.members)} nobody has the training's state any more: all who had it are gone. "
                "Start all ranks again, in a new job, with the last checkpoint"
            )
        leads = own is not None and roll.leader == job.rank
        state = own.copy() if leads and own is not None else np.zeros(roll.size, dtype=np.int32)
        reduced = job.all_reduce(state, name="state of an elastic training", weight=int(leads))
        # Else the leader was lost in the middle of it, which all members see alike.
        if all(run.weight == 1 for run in reduced.runs):
            if not leads:
                load(state)
            return roll.members
