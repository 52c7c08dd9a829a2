"""What can go wrong. Each message says what was wrong, where, and what to do."""

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
    """Something could not be done; all other exceptions of this package are of this kind."""


class AgentUnreachableError(TributaryError, ConnectionError):
    """No agent listens on the socket, or this user may not connect."""


class PermissionDeniedError(TributaryError, PermissionError):
    """The token is not the job's."""


class JobOverError(TributaryError):
    """The job has ended, or has failed before its end."""


class JobEndedError(JobOverError):
    """The job has come to its end, or was ended: nothing has gone wrong with it."""


class CodecError(TributaryError, ValueError):
    """A gradient cannot be encoded, or a code not be decoded."""


class SumError(TributaryError):
    """The members' values have no sum (NaN, overflow, members that give different things), or it is a wrong one.

    A wrong sum ends the job: all-reduces that are under way then fail with this error on every rank.
    """


class DeadlineError(TributaryError, TimeoutError):
    """It took too long; the message names what was waited for."""


class RegroupError(TributaryError):
    """Nothing was reduced: others have joined, and all members have to synchronise first (`Job.synchronise`).

    All members are told so at the same place in the order of their all-reduces. Only in a job whose processes have all
    joined it with `elastic=True`.
    """

    def __init__(
        self, message: str, *, generation: int, ranks: list[int], joined: list[int], leader: int, shards: list[int]
    ) -> None:
        super().__init__(message)
        self.generation = generation
        """The version of the job's structure in which they came."""
        self.ranks = ranks
        """Ranks of all members in that version: some may be lost since."""
        self.joined = joined
        """Ranks that are new."""
        self.leader = leader
        """The rank whose parameters all of them go on with."""
        self.shards = shards
        """Ranks whose data the members process from now on."""


class DetachedError(TributaryError):
    """Nothing was reduced: the job goes on without this process until it is as fast as the others again.

    It goes on making steps as if nothing were: what they take tells when it is. Then it is told `RegroupError`. Only in
    a job that was created so that it does something about processes that get slow.
    """

    def __init__(self, message: str, *, generation: int, data_adopted: bool, reason: str) -> None:
        super().__init__(message)
        self.generation = generation
        """The version of the job's structure in which it is not in any more."""
        self.data_adopted = data_adopted
        """The others process its data, too; else nobody does."""
        self.reason = reason
        """Why, in words."""
