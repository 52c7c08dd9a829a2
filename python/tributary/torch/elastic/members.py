"""Membership, and how members take over one another's state, at the same position in the order of all-reduces."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from tributary.errors import TributaryError
from tributary.job import Job
from tributary.torch.elastic.state import Integers

MAX_RANKS = 256
"""The most ranks in a roll call: so few integers are summed over the same members, or none of them is."""


@dataclass(frozen=True, slots=True)
class Roll:
    """The answers to a roll call: the same on all members that have answered."""

    members: tuple[int, ...]
    """Ranks that have answered, ascending."""
    leader: int | None
    """The lowest of these ranks that has the training's state."""
    size: int
    """The number of integers in its state, if that was asked for."""


def roll_call(job: Job, size: int) -> Roll:
    """Finds out who is a member. `size`: the number of integers of this rank's state; 0 if it has none.

    Raises:
        TributaryError: as for `Job.all_reduce`.
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
    """Makes all members go on with the state of the lowest rank that has it. Returns the members' ranks.

    Args:
        job: the members' job.
        own: this rank's state; `None` if it has none.
        load: loads another rank's state.

    Raises:
        TributaryError: no member has it, or as for `Job.all_reduce`; after `RegroupError` all members begin again.
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
        # Otherwise the leader was lost during the all-reduce, which all members see alike.
        if all(run.weight == 1 for run in reduced.runs):
            if not leads:
                load(state)
            return roll.members
