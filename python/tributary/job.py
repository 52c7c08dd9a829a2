"""A process's part in a job: all-reduces over all of its members."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from threading import Lock
from types import TracebackType

import numpy as np
import numpy.typing as npt

from tributary import _native
from tributary.memory import Memory, MemoryPool, SharesMemory
from tributary.pending import Pending, this_thread_hands_out
from tributary.schedule import Profile, Schedule, ThrownOut
from tributary.values import Elements, Values

DEFAULT_SOCKET = "/run/tributary/agent.sock"
LONGEST_NAME = 1024
"""Bytes of the longest name of a tensor."""


@dataclass(frozen=True, slots=True)
class Run:
    """Neighbouring elements that were summed over the same members."""

    elements: int
    weight: int
    """The sum of the weights inside."""
    contributors: int
    """Members inside."""


@dataclass(frozen=True, slots=True)
class Reduced:
    """What came of an all-reduce."""

    runs: tuple[Run, ...]
    """What each stretch of elements was summed over, in order, without gaps."""

    @property
    def contributors(self) -> int:
        """Members inside, at least in one place; 0 where there was nothing to reduce."""
        return min((run.contributors for run in self.runs), default=0)


@dataclass(frozen=True, slots=True)
class Regroup:
    """Members have joined, or whose data they process has changed: all of them synchronise before they reduce again."""

    generation: int
    """The version of the job's structure in which they came."""
    ranks: tuple[int, ...]
    """Ranks of all members in that version, ascending: some may be lost since."""
    joined: tuple[int, ...]
    """Those of them that are new."""
    leader: int
    """The one whose values all of them go on with: the lowest rank that was in before."""
    shards: tuple[int, ...]
    """Ranks whose data the members process from now on, ascending."""


class Reduction(Pending[Reduced]):
    """An all-reduce that is under way. It cannot be cancelled: the other members need its contribution."""


class Job(SharesMemory):
    """A process's part in a job. Threads may share it; it is made by `join`."""

    def __init__(self, native: _native.Job) -> None:
        self._native = native
        self._pool = MemoryPool(native)
        self._order = Lock()
        """Held where the place of an all-reduce among all others is fixed."""

    @property
    def rank(self) -> int:
        """This process's rank."""
        return self._native.rank

    @property
    def ranks(self) -> list[int]:
        """Ranks of all members, ascending: as of the last all-reduce that has ended."""
        return self._native.ranks

    @property
    def lost(self) -> dict[int, str]:
        """Ranks that were in while this process was and are not any more, and why: as of the last all-reduce."""
        return self._native.lost

    @property
    def host(self) -> str:
        """This host, as the topology names it."""
        return self._native.host

    @property
    def shards(self) -> list[int]:
        """Ranks whose data the members process, ascending: as of the start, or of the last `Regroup`."""
        return self._native.shards

    @property
    def regroup(self) -> Regroup | None:
        """What the members have to synchronise for before they reduce again.

        For a process that has come into a job that was running, and for one that was told `RegroupError`.
        """
        native = self._native.regroup
        return _regroup(*native) if native is not None else None

    @property
    def generation(self) -> int:
        """The version of the job's structure: another one when a member goes or comes, or the tree changes."""
        return self._native.generation

    def all_reduce(
        self,
        values: Values,
        *,
        name: str = "unnamed",
        weight: int = 1,
        deadline: float | timedelta | None = None,
    ) -> Reduced:
        """Sums values over all members, in place, and waits for the result.

        Args:
            values: float32, float16, bfloat16 (tensors only) or int32; the same size and type on all members.
            name: the tensor, the same on all members: they have an error where it is not.
            weight: what this member's values are multiplied by; 0: it has nothing to give.
            deadline: seconds that it may take, from when those before it have ended; behind one that was given up, and
                nothing has come since, from when that one's were counted.

        Raises:
            TributaryError: it has no result; the exception's class and message say why.
        """
        return self.start(values, name=name, weight=weight, deadline=deadline).result()

    def start(
        self,
        values: Values,
        *,
        name: str | Callable[[], str] = "unnamed",
        weight: int = 1,
        deadline: float | timedelta | None = None,
        step_goes_on: bool = False,
        take: Callable[[npt.NDArray[np.uint8]], None] | None = None,
    ) -> Reduction:
        """Starts to sum values over all members, in place, behind all that were started before.

        Every member starts the same all-reduces in the same order. The values are not to be touched until
        it has ended.

        Args:
            values: as of `all_reduce`.
            name: as of `all_reduce`; or what gives it, which is called in the order in which all-reduces are started.
            weight: as of `all_reduce`.
            deadline: as of `all_reduce`.
            step_goes_on: another all-reduce of the same step of training follows.
            take: is given the bytes of the result, and takes what it needs of them before it returns: the values
                stay as they are.

        Raises:
            TypeError: a type that cannot be reduced.
            TributaryError: it could not be started.
        """
        # Before anything that another thread may have held when the process was forked.
        self._native.check_process()
        reduction = Reduction()
        reduction.set_running_or_notify_cancel()
        elements = Elements.of(values, takes_result=take is None)
        if elements.count == 0:
            reduction.set_result(Reduced(()))
            return reduction
        memory, offset, is_copied = self._pool.place(elements.data, always_copy=take is not None)

        def done(runs: list[tuple[int, int, int]] | None, error: Exception | None) -> None:
            this_thread_hands_out()
            try:
                if runs is not None and take is not None:
                    take(memory.view()[: elements.data.nbytes])
                elif runs is not None:
                    store(elements, memory if is_copied else None)
            except Exception as problem:
                error = problem
            if is_copied:
                self._pool.give_back(memory)
            if error is not None or runs is None:
                reduction.set_exception(error)
            else:
                reduction.set_result(Reduced(tuple(Run(*run) for run in runs)))

        try:
            with self._order:
                self._native.start(
                    memory.segment,
                    elements.type,
                    offset // (elements.data.nbytes // elements.count),
                    elements.count,
                    name=_checked(name if isinstance(name, str) else name()),
                    weight=weight,
                    deadline=duration(deadline),
                    step_goes_on=step_goes_on,
                    done=done,
                )
        except BaseException:
            if is_copied:
                self._pool.give_back(memory)
            raise
        return reduction

    def barrier(self, *, deadline: float | timedelta | None = None) -> None:
        """Waits until all members are here.

        Raises:
            TributaryError: as of `all_reduce`.
        """
        self.all_reduce(np.zeros(1, dtype=np.int32), name="barrier", deadline=deadline)

    def synchronise(
        self, values: Values, *, name: str = "unnamed", deadline: float | timedelta | None = None
    ) -> Regroup | None:
        """Replaces values by the leader's, on all members alike, and waits for it: the same bits everywhere.

        Every member calls it, with values of the same size and type, when its all-reduce has ended with `RegroupError`
        or it has come into a job that is running. It is one all-reduce, to which only the leader gives something:
        floats are rounded as in any other, integers (but -2^31) are not. Without a `regroup` it does nothing.

        Returns:
            What it has synchronised for, the same on all members.

        Raises:
            TributaryError: as of `all_reduce`, but for `RegroupError`.
        """
        elements = Elements.of(values)
        done = self._native.synchronise(elements.type, elements.data.tobytes(), _checked(name), duration(deadline))
        if done is None:
            return None
        regroup, leaders = done
        np.copyto(elements.data, np.frombuffer(leaders, dtype=np.uint8))
        if elements.store is not None:
            elements.store()
        return _regroup(*regroup)

    def hand_in_profile(
        self, run: int, number: int, profile: Profile, *, deadline: float | timedelta | None = None
    ) -> Schedule | ThrownOut:
        """Hands in when this process's gradients were ready, and waits until all members have: all hear the same.

        `tributary.torch.TimePoints` does this by itself.

        Args:
            run: below 2^64, random, and the same on all ranks: what tells these processes' profiles from those of
                others that have the job before or after them.
            number: which profile of the run this is: they count up from 1.
            profile: the same gradients, of the same sizes, on all ranks.
            deadline: seconds that it may take.

        Raises:
            TributaryError: the ranks' models are not the same, or the job is over.
            DeadlineError: the message names the ranks that have handed in none.
        """
        version, sets, thrown_out = self._native.hand_in_profile(
            run,
            number,
            sizes=profile.sizes,
            ready=profile.ready,
            start_up=profile.start_up,
            deadline=duration(deadline),
        )
        return ThrownOut(thrown_out) if thrown_out else Schedule.of_sets(version, sets)

    def leave(self) -> None:
        """Ends this process's part, and the job goes on without its host, or fails if it is rigid."""
        self._native.leave()

    def finish(self) -> None:
        """Ends this process's part at the end of its training: its host leaves the job.

        When all have left, the job has ended, and those who were not in then are told that (`JobEndedError`).

        Raises:
            TributaryError: as of `close`.
        """
        self._native.finish()

    def count_collectives(self, counts: list[tuple[bool, str, str, int, int]], *, waits: bool) -> None:
        """Says what this process's collectives have moved since the last call, for the agent's metrics.

        Args:
            counts: whether they went over the fabric, what they are called, why not, how many, and how many bytes.
            waits: until the agent has counted it, for a second at most.

        Raises:
            TributaryError: the agent has not counted it, where this waits for that.
            TimeoutError: it has not answered.
        """
        self._native.count_collectives(counts, waits)

    def close(self) -> None:
        """Ends this process's part. The host stays a member, so that the others can finish.

        Raises:
            TributaryError: all-reduces are under way, or one was given up that the others may still finish: the
                host has left the job.
        """
        self._native.close()

    def __enter__(self) -> Job:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        # After an error the others shall know at once: without a word the host leaves the job.
        if kind is None:
            self.close()


def join(
    job: str | None = None,
    *,
    token: bytes | None = None,
    socket: str | os.PathLike[str] | None = None,
    elastic: bool = False,
    deadline: float | timedelta | None = None,
    waits: _native.Waits | None = None,
) -> Job:
    """Takes part in a job, and waits until all of its members do.

    What is left out comes from the environment, where `tributary lab run` and the launchers of the examples put it.

    Args:
        job: its name; else TRIBUTARY_JOB.
        token: its token; else what is in the file TRIBUTARY_TOKEN_FILE.
        socket: of this host's agent; else TRIBUTARY_SOCKET, or /run/tributary/agent.sock.
        elastic: others may join while this process is in, and it may join a job that is running: it copes with
            `RegroupError`.
        deadline: seconds that each all-reduce may take that says nothing else.
        waits: says what is waited for, once that takes longer than two seconds.

    Raises:
        ValueError: something is given nowhere.
        TributaryError: the agent or the controller refuses.
    """
    name = job or os.environ.get("TRIBUTARY_JOB")
    if not name:
        raise ValueError("which job? give its name, or set TRIBUTARY_JOB")
    secret = token if token is not None else _token()
    return Job(_native.Job.join(socket_of(socket), name, secret, elastic, duration(deadline), waits))


def socket_of(agent: str | os.PathLike[str] | None) -> str:
    """The socket of this host's agent: this one, or what the environment says."""
    return os.fspath(agent or os.environ.get("TRIBUTARY_SOCKET", DEFAULT_SOCKET))


def _token() -> bytes:
    file = os.environ.get("TRIBUTARY_TOKEN_FILE")
    if not file:
        raise ValueError("no token: give the job's token, or set TRIBUTARY_TOKEN_FILE")
    return read_token(file)


def read_token(file: str | os.PathLike[str]) -> bytes:
    """The token in a file, as `tributary jobs create` wrote it.

    Raises:
        ValueError: there is none in it.
        OSError: it cannot be read.
    """
    text = Path(file).read_text(encoding="ascii").strip()
    try:
        return bytes.fromhex(text)
    except ValueError as error:
        raise ValueError(f"{file}: not a token, which is written in hexadecimal digits") from error


def _regroup(generation: int, ranks: list[int], joined: list[int], leader: int, shards: list[int]) -> Regroup:
    return Regroup(generation, tuple(ranks), tuple(joined), leader, tuple(shards))


def store(elements: Elements, borrowed: Memory | None) -> None:
    """Puts a result in its place."""
    if borrowed is not None:
        np.copyto(elements.data, borrowed.view()[: elements.data.nbytes])
    if elements.store is not None:
        elements.store()


def _checked(name: str) -> str:
    """A tensor's name, if it is not too long.

    Raises:
        ValueError: it is.
    """
    size = len(name.encode())
    if size > LONGEST_NAME:
        raise ValueError(f"a tensor's name of {size} bytes: {LONGEST_NAME} are the most")
    return name


def duration(seconds: float | timedelta | None) -> timedelta | None:
    """A time that may be given as seconds.

    Raises:
        ValueError: it is not above 0, or is longer than anybody waits.
    """
    if seconds is None:
        return None
    try:
        time = seconds if isinstance(seconds, timedelta) else timedelta(seconds=seconds)
    except (OverflowError, ValueError) as error:
        raise ValueError(f"a deadline of {seconds} s: give seconds above 0") from error
    if time <= timedelta(0):
        raise ValueError(f"a deadline of {time.total_seconds():g} s: give seconds above 0")
    return time
