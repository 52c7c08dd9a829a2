"""The package's exceptions. Each message says what was wrong, where, and what to do."""

from __future__ import annotations

__all__ = [
    "AgentUnreachableError",
    "CodecError",
    "DeadlineError",
    "DetachedError",
    "JobEndedError",
    "JobOverError",
    "PermissionDeniedError",
    "RegroupError",
    "SumError",
    "TributaryError",
]


class TributaryError(RuntimeError):
    """Something could not be done; the base of all exceptions of this package."""


class AgentUnreachableError(TributaryError, ConnectionError):
    """No agent listens on the socket, or this user may not connect; or the agent has died, or was given up.

    It is given up when a deadline has passed and it has said nothing: see `DeadlineError`.
    """


class PermissionDeniedError(TributaryError, PermissionError):
    """The token is not the job's."""


class JobOverError(TributaryError):
    """The job has ended, or has failed before its end."""


class JobEndedError(JobOverError):
    """The job has finished, or was ended: nothing has gone wrong with it."""


class CodecError(TributaryError, ValueError):
    """A gradient cannot be encoded, or a code cannot be decoded."""


class SumError(TributaryError):
    """The members' values have no sum (NaN, overflow, members that give different things), or the sum is wrong.

    A wrong sum ends the job: all-reduces in flight then fail with this error on every rank.
    """


class DeadlineError(TributaryError, TimeoutError):
    """A deadline has passed; the message names what was waited for.

    If that was the host's own agent, which said nothing, the process has left the job.
    """


class RegroupError(TributaryError):
    """Nothing was reduced: others have joined, and all members have to synchronise first (`Job.synchronise`).

    All members get this at the same position in the order of their all-reduces. It occurs only in a job in which all
    processes have joined with `elastic=True`.
    """

    def __init__(
        self, message: str, *, generation: int, ranks: list[int], joined: list[int], leader: int, shards: list[int]
    ) -> None:
        super().__init__(message)
        self.generation = generation
        """The version of the job's structure in which they joined."""
        self.ranks = ranks
        """Ranks of all members in that version: some may have been lost since."""
        self.joined = joined
        """Ranks that are new."""
        self.leader = leader
        """The rank whose parameters all members go on with."""
        self.shards = shards
        """Ranks whose data the members process from now on."""


class DetachedError(TributaryError):
    """Nothing was reduced: the job goes on without this process until it is as fast as the others again.

    The process keeps making steps as usual: their times tell when it has recovered. Then it gets `RegroupError`. This
    occurs only in a job that was created to handle slow processes.
    """

    def __init__(self, message: str, *, generation: int, data_adopted: bool, reason: str) -> None:
        super().__init__(message)
        self.generation = generation
        """The version of the job's structure in which it is no longer included."""
        self.data_adopted = data_adopted
        """Whether the others process its data, too; otherwise nobody does."""
        self.reason = reason
        """Why, in words."""
