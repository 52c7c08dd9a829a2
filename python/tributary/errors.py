"""The package's exceptions. A message names the problem, its place, and a remedy."""

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
    """The base class of this package's exceptions."""


class AgentUnreachableError(TributaryError, ConnectionError):
    """The agent is unreachable.

    No agent listens on the socket, this user may not connect, the agent has died, or the agent sent nothing until a
    deadline (see `DeadlineError`).
    """


class PermissionDeniedError(TributaryError, PermissionError):
    """The token does not belong to the job."""


class JobOverError(TributaryError):
    """The job has ended or failed."""


class JobEndedError(JobOverError):
    """The job has ended without a failure: it has finished, or an operator has ended it."""


class CodecError(TributaryError, ValueError):
    """A gradient cannot be encoded, or a code cannot be decoded."""


class SumError(TributaryError):
    """The members' values have no sum, or the sum is wrong.

    A sum does not exist after an overflow, if NaN is an error, if the members contribute different tensors, or if a
    member has given up the all-reduce after its deadline before it contributed. A wrong sum ends the job: all-reduces
    in flight then fail with this error on every rank.
    """


class DeadlineError(TributaryError, TimeoutError):
    """A deadline has passed. The message describes the event for which the process waited.

    If the process waited for the agent of its own host, and the agent sent nothing, the process has left the job.
    """


class RegroupError(TributaryError):
    """Nothing was reduced, because processes have joined. All members must call `Job.synchronise` first.

    All members get this error at the same position in the order of their all-reduces. It occurs only in a job whose
    processes have all joined with `elastic=True`.
    """

    def __init__(
        self, message: str, *, generation: int, ranks: list[int], joined: list[int], leader: int, shards: list[int]
    ) -> None:
        super().__init__(message)
        self.generation = generation
        """The generation in which the processes joined."""
        self.ranks = ranks
        """Ranks of all members in that generation; some may have left since."""
        self.joined = joined
        """Ranks of the new members."""
        self.leader = leader
        """The rank with whose parameters all members continue."""
        self.shards = shards
        """Ranks whose data the members process from now on."""


class DetachedError(TributaryError):
    """Nothing was reduced, because the job continues without this process for now.

    The process continues to make steps, whose times show when it is fast enough again. It then gets `RegroupError`.
    This error occurs only in a job that was created with a policy for slow processes.
    """

    def __init__(self, message: str, *, generation: int, data_adopted: bool, reason: str) -> None:
        super().__init__(message)
        self.generation = generation
        """The first generation without this process."""
        self.data_adopted = data_adopted
        """True if the other members process this process's data, too; otherwise no member does."""
        self.reason = reason
        """The reason, as text."""
