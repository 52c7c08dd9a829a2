"""A process's part in a job: all-reduces over all of its members."""

from __future__ import annotations

import logging
import os
from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from threading import Lock
from time import monotonic
from types import TracebackType

import numpy as np
import numpy.typing as npt

from tributary import _native
from tributary.errors import SumError
from tributary.memory import Memory, MemoryPool, SharesMemory
from tributary.pending import Pending, check_may_wait, this_thread_hands_out
from tributary.schedule import Profile, Schedule, ThrownOut
from tributary.values import Elements, Values

logger = logging.getLogger("tributary")

DEFAULT_SOCKET = "/run/tributary/agent.sock"
LONGEST_NAME = 1024
"""The longest name of a tensor, in bytes."""
PRECISIONS = ("standard", "float32")
"""How precise sums of float32 can be."""
REPORTS_EVERY = 10.0
"""Seconds between two reports of contributions that are not finite."""
LARGEST_WEIGHT = 2**32 - 1
"""The largest weight of a contribution."""


@dataclass(frozen=True, slots=True)
class Run:
    """Neighbouring elements that were summed over the same members."""

    elements: int
    weight: int
    """The sum of the weights of the contributors."""
    contributors: int
    """The number of members that contributed."""


@dataclass(frozen=True, slots=True)
class NotFinite:
    """A contribution that is NaN or infinite."""

    element: int
    """The index of the first element for which some member has one, in the tensor's memory order."""
    rank: int
    """A member that has one near there: the one with the highest rank if there are several."""


@dataclass(frozen=True, slots=True)
class Reduced:
    """The result of an all-reduce."""

    runs: tuple[Run, ...]
    """The contributors to each stretch of elements, in order, without gaps."""
    not_finite: NotFinite | None = None
    """Where a member has contributed NaN or infinity; the sum of such an element is what IEEE 754 makes of it."""

    @property
    def contributors(self) -> int:
        """The least number of contributors to any element; 0 if there was nothing to reduce."""
        return min((run.contributors for run in self.runs), default=0)


@dataclass(frozen=True, slots=True)
class Regroup:
    """Members have joined, or shards have moved: all members synchronise before they reduce again."""

    generation: int
    """The version of the job's structure in which they joined."""
    ranks: tuple[int, ...]
    """Ranks of all members in that version, ascending: some may have been lost since."""
    joined: tuple[int, ...]
    """Ranks of the new members."""
    leader: int
    """The rank whose values all members go on with: the lowest that was a member before."""
    shards: tuple[int, ...]
    """Ranks whose data the members process from now on, ascending."""


class Reduction(Pending[Reduced]):
    """An all-reduce in flight. It cannot be cancelled: the other members need its contribution."""


class Job(SharesMemory):
    """A process's part in a job. Threads may share it; it is made by `join`."""

    def __init__(self, native: _native.Job) -> None:
        self._native = native
        self._pool = MemoryPool(native.segment)
        self._reports_from = 0.0
        """When a contribution that is not finite may be reported again."""
        self._order = Lock()
        """Held while the position of an all-reduce among all others is fixed."""

    @property
    def rank(self) -> int:
        """This process's rank."""
        return self._native.rank

    @property
    def ranks(self) -> list[int]:
        """Ranks of all members, ascending, as of the last all-reduce that has ended."""
        return self._native.ranks

    @property
    def lost(self) -> dict[int, str]:
        """Ranks that have left since this process joined, each with the reason, as of the last all-reduce."""
        return self._native.lost

    @property
    def host(self) -> str:
        """This host's name in the topology."""
        return self._native.host

    @property
    def values_per_slice(self) -> int:
        """The number of values in a slice, which is what one packet carries."""
        return self._native.values_per_slice

    @property
    def switches(self) -> int:
        """The number of switches that add the job's gradients, when this host joined."""
        return self._native.switches

    @property
    def shards(self) -> list[int]:
        """Ranks whose data the members process, ascending, as of the start or the last `Regroup`."""
        return self._native.shards

    @property
    def regroup(self) -> Regroup | None:
        """The regrouping for which the members have to synchronise before they reduce again; `None` if there is none.

        It is set for a process that has joined a running job, and for one that got `RegroupError`.
        """
        native = self._native.regroup
        return _regroup(*native) if native is not None else None

    @property
    def generation(self) -> int:
        """The version of the job's structure, which changes when a member leaves or joins, or the tree changes."""
        return self._native.generation

    def all_reduce(
        self,
        values: Values,
        *,
        name: str = "unnamed",
        weight: int = 1,
        deadline: float | timedelta | None = None,
        precision: str | None = None,
    ) -> Reduced:
        """Sums values over all members, in place, and waits for the result.

        Args:
            values: float32, float16, bfloat16 (tensors only), float64, int32 or int64; the same size and type on all
                members.
            name: the tensor's name, the same on all members; a different name is an error.
            weight: the factor of this member's values, at most 2^30 divided by the number of members; 0 if it has
                nothing to give.
            deadline: seconds that it may take, from when those before it have ended. If an earlier all-reduce was given
                up and no result has come since, the time counts from when that one's did.
            precision: "float32": each sum of float32 is the nearest float32 to the exact one; "standard": it is off by
                at most 2^-12 of the sum of its contributions' magnitudes. The same on all members [default:
                TRIBUTARY_PRECISION, or "standard"].

        Raises:
            ValueError: an argument is out of its range.
            TributaryError: there is no result; the exception's class and message say why.
            DeadlineError: it took too long. If the agent said nothing meanwhile, the message says so, and the process
                has left the job: whatever it starts now is an `AgentUnreachableError`, since the agent may still write
                to these values when it goes on.
        """
        check_may_wait(name)
        return self.start(values, name=name, weight=weight, deadline=deadline, precision=precision).result()

    def start(
        self,
        values: Values,
        *,
        name: str | Callable[[], str] = "unnamed",
        weight: int = 1,
        deadline: float | timedelta | None = None,
        step_goes_on: bool = False,
        take: Callable[[npt.NDArray[np.uint8]], None] | None = None,
        precision: str | None = None,
    ) -> Reduction:
        """Starts to sum values over all members, in place, after all that were started before.

        Every member starts the same all-reduces in the same order. The values must not be touched until it has ended.

        Args:
            values: as for `all_reduce`.
            name: as for `all_reduce`; or a callable that returns it, called in the order in which all-reduces are
            started.
            weight: as for `all_reduce`.
            deadline: as for `all_reduce`.
            step_goes_on: another all-reduce of the same step of training follows.
            take: called with the bytes of the result, from which it takes what it needs before it returns; the values
                themselves stay unchanged.
            precision: as for `all_reduce`.

        Raises:
            TypeError: a type that cannot be reduced.
            ValueError: an argument is out of its range.
            TributaryError: it could not be started.
        """
        # Before any lock that another thread may have held when the process was forked.
        self._native.check_process()
        reduction = Reduction()
        reduction.set_running_or_notify_cancel()
        elements = Elements.of(values, takes_result=take is None)
        limit = duration(deadline)
        element_type = _with_precision(elements.type, precision)
        memory, first, is_copied = self._pool.place(elements, always_copy=take is not None, deadline=limit)

        checked_name = ""

        def done(
            outcome: tuple[list[tuple[int, int, int]], tuple[int, int] | None] | None, error: Exception | None
        ) -> None:
            this_thread_hands_out()
            reduced = None
            try:
                if outcome is not None:
                    runs, not_finite = outcome
                    reduced = Reduced(tuple(Run(*run) for run in runs), NotFinite(*not_finite) if not_finite else None)
                    self._report_not_finite(checked_name, reduced)
                if reduced is not None and take is not None:
                    take(memory.view()[: elements.data.nbytes])
                elif reduced is not None:
                    store(elements, memory if is_copied else None)
            except Exception as problem:
                error = problem
            if is_copied:
                self._pool.give_back(memory)
            if error is not None or reduced is None:
                reduction.set_exception(error)
            else:
                reduction.set_result(reduced)

        try:
            with self._order:
                checked_name = _checked(name if isinstance(name, str) else name())
                self._native.start(
                    memory.segment,
                    element_type,
                    first,
                    elements.count,
                    name=checked_name,
                    weight=_checked_weight(weight),
                    deadline=limit,
                    step_goes_on=step_goes_on,
                    done=done,
                )
        except BaseException:
            if is_copied:
                self._pool.give_back(memory)
            raise
        return reduction

    def _report_not_finite(self, name: str, reduced: Reduced) -> None:
        """Reports a contribution that is not finite: the first one, then one at most every 10 seconds.

        Raises:
            SumError: TRIBUTARY_NONFINITE is "error".
        """
        found = reduced.not_finite
        if found is None:
            return
        text = f"{name}: rank {found.rank} contributed NaN or infinity to element {found.element}"
        if os.environ.get("TRIBUTARY_NONFINITE") == "error":
            raise SumError(f"{text}, and TRIBUTARY_NONFINITE=error makes that an error: look on that rank")
        now = monotonic()
        if self.rank in (found.rank, min(self.ranks)) and now >= self._reports_from:
            self._reports_from = now + REPORTS_EVERY
            logger.warning("%s: so is the sum, on all ranks; the training goes on", text)

    def barrier(self, *, deadline: float | timedelta | None = None) -> None:
        """Waits until all members have called this.

        Raises:
            TributaryError: as for `all_reduce`.
        """
        self.all_reduce(np.zeros(1, dtype=np.int32), name="barrier", deadline=deadline)

    def synchronise(
        self, values: Values, *, name: str = "unnamed", deadline: float | timedelta | None = None
    ) -> Regroup | None:
        """Replaces values on all members by the leader's, and waits for the result: the same bits everywhere.

        Every member calls it, with values of the same size and type, when its all-reduce has ended with `RegroupError`
        or it has joined a running job. It is one all-reduce, to which only the leader contributes: floats are rounded
        as in any other, integers are not. Without a `regroup` it does nothing.

        Returns:
            The regrouping that it has synchronised for, the same on all members.

        Raises:
            TributaryError: as for `all_reduce`, except for `RegroupError`.
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
        """Hands in when this process's gradients were ready, and waits until all members have: all get the same answer.

        `tributary.torch.TimePoints` does this by itself.

        Args:
            run: random, below 2^64, and the same on all ranks: it distinguishes these processes' profiles from those of
                processes that have the job before or after them.
            number: the number of the profile within the run, counted from 1.
            profile: the same gradients, of the same sizes, on all ranks.
            deadline: seconds that it may take.

        Raises:
            TributaryError: the ranks' models are not the same, or the job is over.
            DeadlineError: the message names the ranks that have not handed in a profile.
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
        """Ends this process's part; the job goes on without its host, or fails if it is rigid."""
        self._native.leave()

    def finish(self) -> None:
        """Ends this process's part at the end of its training: its host leaves the job.

        When all have left, the job ends, and those that were not in it then get `JobEndedError`.

        Raises:
            TributaryError: as for `close`.
        """
        self._native.finish()

    def count_collectives(self, counts: list[tuple[bool, str, str, int, int]], *, waits: bool) -> None:
        """Reports what this process's collectives have moved since the last call, for the agent's metrics.

        Args:
            counts: for each kind: whether it went over the fabric, its name, the reason if not, how many, how many
            bytes.
            waits: whether to wait until the agent has counted it, for at most a second.

        Raises:
            TributaryError: the agent has not counted it, if this waits for that.
            TimeoutError: it has not answered.
        """
        self._native.count_collectives(counts, waits)

    def close(self) -> None:
        """Ends this process's part. The host stays a member, so that the others can finish.

        Raises:
            TributaryError: all-reduces are in flight, or one was given up that the others may still finish: the host
                has left the job.
        """
        self._native.close()

    def __enter__(self) -> Job:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        # After an error the others should know at once: closing without a message makes the host leave the job.
        if kind is None:
            self.close()


def join(
    job: str | None = None,
    *,
    token: bytes | None = None,
    socket: str | os.PathLike[str] | None = None,
    elastic: bool = False,
    new_run: bool = False,
    deadline: float | timedelta | None = None,
    waits: Callable[[str], object] | None = None,
) -> Job:
    """Joins a job, and waits until all of its members have joined.

    Arguments that are left out come from the environment, where `tributary lab run` and the examples' launchers put
    them.

    Args:
        job: the job's name [default: TRIBUTARY_JOB].
        token: the job's token [default: the contents of the file TRIBUTARY_TOKEN_FILE].
        socket: the socket of this host's agent [default: TRIBUTARY_SOCKET, or /run/tributary/agent.sock].
        elastic: whether others may join while this process is a member, and it may join a running job: it has to handle
            `RegroupError`.
        new_run: whether this process may begin a new run of a job whose last run is over, unless `tributary jobs end`
            has ended the job: a launcher has restarted all processes of a training. While processes of the last run
            are still in the job, joining waits for their end, for up to 20 s.
        deadline: seconds that each all-reduce may take by default.
        waits: called with what is being waited for, in joining and later, once that takes longer than two seconds, and
            every five seconds then. It is called in the thread that hands results out, and must not wait for one. An
            agent that says nothing is logged as a warning, too.

    Raises:
        ValueError: an argument is missing, and so is its variable.
        JobOverError: the job is over.
        TributaryError: the agent or the controller refuses.
    """
    name = job or os.environ.get("TRIBUTARY_JOB")
    if not name:
        raise ValueError("which job? give its name, or set TRIBUTARY_JOB")
    secret = token if token is not None else _token()
    joining = (elastic, new_run)
    return Job(_native.Job.join(socket_of(socket), name, secret, joining, duration(deadline), telling(waits)))


def telling(waits: Callable[[str], object] | None) -> Callable[[str, bool], None]:
    """What tells `waits`, if there is one, what is waited for; the silence of an agent is logged in any case."""

    def tell(what: str, agent_is_silent: bool) -> None:
        this_thread_hands_out()
        if agent_is_silent:
            logger.warning("waiting for %s", what)
        if waits is not None:
            waits(what)

    return tell


def socket_of(agent: str | os.PathLike[str] | None) -> str:
    """The socket of this host's agent: `agent`, or the environment's."""
    return os.fspath(agent or os.environ.get("TRIBUTARY_SOCKET", DEFAULT_SOCKET))


def _token() -> bytes:
    file = os.environ.get("TRIBUTARY_TOKEN_FILE")
    if not file:
        raise ValueError("no token: give the job's token, or set TRIBUTARY_TOKEN_FILE")
    return read_token(file)


def read_token(file: str | os.PathLike[str]) -> bytes:
    """Reads the token from a file that `tributary jobs create` wrote.

    Raises:
        ValueError: there is no token in it.
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
    """Writes a result to its destination."""
    if borrowed is not None:
        np.copyto(elements.data, borrowed.view()[: elements.data.nbytes])
    if elements.store is not None:
        elements.store()


def _with_precision(element_type: str, precision: str | None) -> str:
    """The agent's name for elements of this type, whose sums are to be so precise.

    Raises:
        ValueError: there is no such precision.
    """
    wanted = precision or os.environ.get("TRIBUTARY_PRECISION") or "standard"
    if wanted not in PRECISIONS:
        raise ValueError(f'a precision of "{wanted}": give {" or ".join(PRECISIONS)}')
    return "f32_exact" if wanted == "float32" and element_type == "f32" else element_type


def _checked(name: str) -> str:
    """Checks that a tensor's name is not too long.

    Raises:
        ValueError: it is too long.
    """
    size = len(name.encode())
    if size > LONGEST_NAME:
        raise ValueError(f"a tensor's name of {size} bytes: {LONGEST_NAME} are the most")
    return name


def _checked_weight(weight: int) -> int:
    """Checks that a weight is one that can be summed.

    Raises:
        ValueError: it is negative or too large.
    """
    if not 0 <= weight <= LARGEST_WEIGHT:
        raise ValueError(f"a weight of {weight}: give a whole number from 0 to {LARGEST_WEIGHT}")
    return weight


def duration(seconds: float | timedelta | None) -> timedelta | None:
    """Converts a time that may be given in seconds.

    Raises:
        ValueError: it is not above 0, or too long.
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
