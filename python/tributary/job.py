"""All-reduces over the members of a job."""

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
from typing import Any

import numpy as np
import numpy.typing as npt

from tributary import _native
from tributary.errors import SumError
from tributary.memory import Part, SharedMemory, SharesMemory
from tributary.pending import Call, Pending, check_may_wait, mark_completion_thread
from tributary.schedule import Profile, Schedule, ThrownOut
from tributary.values import Elements, Values, words_of

logger = logging.getLogger("tributary")

DEFAULT_SOCKET = "/run/tributary/agent.sock"
LONGEST_NAME = 1024
"""The longest name of a tensor, in bytes."""
PRECISIONS = ("standard", "float32")
"""The precisions of sums of float32, float16 and bfloat16."""
REPORT_INTERVAL = 10.0
"""Seconds between two log entries about contributions that are not finite."""
LARGEST_WEIGHT = 2**32 - 1
"""The largest weight of a contribution."""


@dataclass(frozen=True, slots=True)
class Run:
    """Neighbouring elements that were summed over the same members."""

    elements: int
    weight: int
    """The sum of the weights of the contributors."""
    contributors: int
    """The number of members whose values are summed with full precision; if members left during the operation,
    `weight` can contain more members."""


@dataclass(frozen=True, slots=True)
class NotFinite:
    """A contribution that is NaN or infinite."""

    element: int
    """The index of the first element with a contribution that is not finite, in the tensor's memory order."""
    rank: int
    """The first rank of a host that contributed NaN or infinity near this element: of the last host, if several did."""
    processes: int = 1
    """The number of ranks on that host. One of them contributed the value."""


@dataclass(frozen=True, slots=True)
class Reduced:
    """The result of an all-reduce."""

    runs: tuple[Run, ...]
    """The contributors to each range of elements, in order and without gaps."""
    not_finite: NotFinite | None = None
    """The first contribution of NaN or infinity, if any. The sum of such an element follows IEEE 754."""

    @property
    def contributors(self) -> int:
        """The smallest number of contributors to any element."""
        return min((run.contributors for run in self.runs), default=0)


@dataclass(frozen=True, slots=True)
class Regroup:
    """A change of members or shards, after which all members synchronise before they reduce again."""

    generation: int
    """The generation in which the change happened."""
    ranks: tuple[int, ...]
    """Ranks of all members in that generation, ascending; some may have left since."""
    joined: tuple[int, ...]
    """Ranks of the new members."""
    leader: int
    """The rank with whose values all members continue. It is the lowest rank that was a member before."""
    shards: tuple[int, ...]
    """Ranks whose data the members process from now on, ascending."""


class Reduction(Pending[Reduced]):
    """An all-reduce in flight. It cannot be cancelled, because the other members need its contribution."""


class Job(SharesMemory):
    """This process as a member of a job. `join` makes it, and threads may share it."""

    def __init__(self, native: _native.Job) -> None:
        self._native = native
        self._shared = SharedMemory(native.segment)
        self._next_report = 0.0
        """The time before which no other contribution that is not finite is logged."""
        self._order = Lock()
        """Held while an all-reduce gets its position in the order of all-reduces."""

    @property
    def rank(self) -> int:
        """This process's rank."""
        return self._native.rank

    @property
    def ranks(self) -> list[int]:
        """Ranks of all members at the end of the last all-reduce, ascending."""
        return self._native.ranks

    @property
    def lost(self) -> dict[int, str]:
        """Ranks that left between this process's start and its last all-reduce, each with the reason."""
        return self._native.lost

    @property
    def host(self) -> str:
        """This host's name in the topology."""
        return self._native.host

    @property
    def values_per_slice(self) -> int:
        """The number of values in a slice, which is the content of one packet."""
        return self._native.values_per_slice

    @property
    def switches(self) -> int:
        """The number of switches that added the job's gradients when this host joined."""
        return self._native.switches

    @property
    def shards(self) -> list[int]:
        """Ranks whose data the members process since the start or the last `Regroup`, ascending."""
        return self._native.shards

    @property
    def regroup(self) -> Regroup | None:
        """The `Regroup` for which the members must synchronise before they reduce again, if any.

        It is set for a process that has joined a running job, and for a process that got `RegroupError`.
        """
        native = self._native.regroup
        return _regroup(*native) if native is not None else None

    @property
    def generation(self) -> int:
        """The generation of the job. It changes when a member leaves or joins, or when the tree changes."""
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

        >>> loss = np.array([0.5, 4.0])
        >>> reduced = job.all_reduce(loss, name="loss and samples")
        >>> loss, reduced.contributors
        (array([1., 8.]), 2)

        Args:
            values: float32, float16, bfloat16 (tensors only), float64, int32 or int64; the same size and type on all
                members.
            name: the tensor's name, which must be the same on all members.
            weight: the factor of this member's values, at most 2^30 divided by the number of members; 0 if the member
                contributes nothing.
            deadline: seconds that the all-reduce may take after the end of the previous ones. If an earlier
                all-reduce has passed its deadline, and no result has arrived since, the seconds of both count from
                the same moment.
            precision: "float32" rounds each exact sum of float32, float16 and bfloat16 to the nearest float32. With
                "standard" the error of float32 is at most 2^-12 of the sum of the contributions' magnitudes. The mean
                square error of 16-bit floats is about that of additions in 16 bits, or smaller, for half the bytes
                (docs/numbers.md). It must be the same on all members [default: TRIBUTARY_PRECISION, or "standard"].

        Returns:
            The contributors to each element.

        Raises:
            ValueError: an argument is out of its range.
            TributaryError: there is no result; the exception's class and message say why.
            DeadlineError: the all-reduce took too long. If the agent sent nothing in this time, the message says so,
                and the process has left the job. Later calls then raise `AgentUnreachableError`, because the agent may
                still write to these values when it continues.
        """
        check_may_wait(name)
        return self.begin(values, name=name, weight=weight, deadline=deadline, precision=precision).result()

    def start(
        self,
        values: Values,
        *,
        name: str | Callable[[], str] = "unnamed",
        weight: int = 1,
        deadline: float | timedelta | None = None,
        step_goes_on: bool = False,
        precision: str | None = None,
        root: int | None = None,
        parts: list[tuple[int, int]] | None = None,
    ) -> Reduction:
        """Starts to sum values over all members, in place, behind all all-reduces that were started before.

        All members start the same all-reduces in the same order. Do not touch the values until the all-reduce has
        ended.

        >>> bias, weights = job.empty(4), job.empty((8, 4))
        >>> bias[:] = weights[:] = 0.25
        >>> pending = [job.start(bias, name="bias"), job.start(weights, name="weights")]
        >>> [reduction.result().contributors for reduction in pending]
        [2, 2]
        >>> bias
        array([0.5, 0.5, 0.5, 0.5], dtype=float32)

        Args:
            values: as for `all_reduce`.
            name: as for `all_reduce`, or a callable that returns the name. The callables are called in the order in
                which the all-reduces start.
            weight: as for `all_reduce`.
            deadline: as for `all_reduce`.
            step_goes_on: true if another all-reduce of the same training step follows.
            precision: as for `all_reduce`.
            root: the rank whose values all members receive, in place of a sum. The values are int32, with any bits, and
                the weight does not count.
            parts: for each part of the values, in order, its number of elements and the rank that receives their sums.
                A rank's other elements are undefined afterwards. Without parts, all members receive all sums.

        Raises:
            TypeError: the type of the values cannot be reduced.
            ValueError: an argument is out of its range.
            TributaryError: the all-reduce could not be started.
        """
        call = self.begin(
            values,
            name=name,
            weight=weight,
            deadline=deadline,
            step_goes_on=step_goes_on,
            precision=precision,
            root=root,
            parts=parts,
        )
        return Reduction.of(call)

    def begin(
        self,
        values: Values,
        *,
        name: str | Callable[[], str] = "unnamed",
        weight: int = 1,
        deadline: float | timedelta | None = None,
        step_goes_on: bool = False,
        precision: str | None = None,
        root: int | None = None,
        parts: list[tuple[int, int]] | None = None,
        part: Part | None = None,
        check: Callable[[Reduced], object] | None = None,
        finish: Callable[[], object] | None = None,
        at_end: Callable[[], object] | None = None,
    ) -> Call[Reduced]:
        """Starts an all-reduce like `start`, without a future: its end needs no thread of Python.

        Args:
            values: as for `start`.
            name: as for `start`.
            weight: as for `start`.
            deadline: as for `start`.
            step_goes_on: as for `start`.
            precision: as for `start`.
            root: as for `start`.
            parts: as for `start`.
            part: the part of the result to keep, and the memory for it. The values themselves stay unchanged.
            check: called with the result; its error becomes the error of the call.
            finish: called when the result has been stored, as for `Call`.
            at_end: called at the end, as for `Call`.
        """
        # Check this before taking a lock, which another thread may have held when the process was forked.
        self._native.check_process()
        if any(number < 0 for number in (root or 0, *(each for owned in parts or () for each in owned))):
            raise ValueError(f"the root and the parts are not negative: {root}, {parts}")
        elements = Elements.of(values, takes_result=part is None)
        limit = duration(deadline)
        element_type = _with_precision(elements.type, precision)
        place = self._shared.place_of(elements, part=part)
        with self._order:
            checked_name = _checked_name(name if isinstance(name, str) else name())
            native = self._native.start(
                place,
                element_type,
                elements.count,
                name=checked_name,
                weight=_checked_weight(weight),
                deadline=limit,
                step_goes_on=step_goes_on,
                root=root,
                parts=parts or [],
            )

        def result_of(outcome: tuple[list[tuple[int, int, int]], tuple[int, int, int] | None]) -> Reduced:
            runs, not_finite = outcome
            reduced = Reduced(tuple(Run(*run) for run in runs), NotFinite(*not_finite) if not_finite else None)
            self._report_not_finite(checked_name, reduced)
            if check is not None:
                check(reduced)
            return reduced

        return Call(native, checked_name, result_of, finish=_both(elements.store, finish), at_end=at_end)

    def _report_not_finite(self, name: str, reduced: Reduced) -> None:
        """Logs a contribution that is not finite: the first one, then at most one every 10 seconds.

        Raises:
            SumError: TRIBUTARY_NONFINITE is "error".
        """
        found = reduced.not_finite
        if found is None:
            return
        ranks = range(found.rank, found.rank + found.processes)
        which = f"rank {found.rank}" if len(ranks) == 1 else f"one of ranks {ranks[0]} to {ranks[-1]}"
        text = f"{name}: {which} contributed NaN or infinity to element {found.element}"
        if os.environ.get("TRIBUTARY_NONFINITE") == "error":
            raise SumError(f"{text}, and TRIBUTARY_NONFINITE=error makes that an error: check that rank's values")
        now = monotonic()
        if (self.rank in ranks or self.rank == min(self.ranks)) and now >= self._next_report:
            self._next_report = now + REPORT_INTERVAL
            logger.warning("%s, so the sum is NaN or infinite on all ranks; the training continues", text)

    def broadcast(
        self, values: npt.NDArray[Any], root: int, *, name: str = "broadcast", deadline: float | timedelta | None = None
    ) -> None:
        """Replaces the values on all members with those of the rank `root`, bit by bit, and waits for the result.

        Only the root sends them, and each link carries them once.

        >>> table = np.array([3.5, 7.25])
        >>> job.broadcast(table, root=0)
        >>> table
        array([3.5 , 7.25])

        Args:
            values: a contiguous array of any type without objects; the same size on all members.
            root: the rank that sends its values.
            name: the array's name, which must be the same on all members.
            deadline: as for `all_reduce`.

        Raises:
            ValueError: the array is not contiguous, or the root is negative.
            TributaryError: as for `all_reduce`; also if the job has no such rank, or if the root has left.
        """
        check_may_wait(name)
        words, own = words_of(values)
        self.begin(words, name=name, deadline=deadline, root=root, part=Part.of_bytes(own)).result()

    def barrier(self, *, deadline: float | timedelta | None = None) -> None:
        """Waits until all members have called this: an all-reduce without elements, in one round trip.

        >>> job.barrier(deadline=60)

        Raises:
            TributaryError: as for `all_reduce`.
        """
        self.all_reduce(np.zeros(0, dtype=np.int32), name="barrier", deadline=deadline)

    def synchronise(
        self, values: Values, *, name: str = "unnamed", deadline: float | timedelta | None = None
    ) -> Regroup | None:
        """Replaces the values on all members with the leader's values, and waits for the result.

        Every member calls it, with values of the same size and type, after a `RegroupError` or after it has joined a
        running job. All members then have the same bits. The call is one all-reduce to which only the leader
        contributes: floats are rounded as in any all-reduce, integers are not. Without a `regroup` it does nothing.

        Returns:
            The `Regroup` for which the members have synchronised, the same on all members; `None` if there was none.

        Raises:
            TributaryError: as for `all_reduce`, except for `RegroupError`.
        """
        elements = Elements.of(values)
        regroup = self._native.synchronise(elements.type, elements.data, _checked_name(name), duration(deadline))
        if regroup is None:
            return None
        if elements.store is not None:
            elements.store()
        return _regroup(*regroup)

    def hand_in_profile(
        self, run: int, number: int, profile: Profile, *, deadline: float | timedelta | None = None
    ) -> Schedule | ThrownOut:
        """Hands in the profile of this process, and waits for the profiles of all members.

        `TimePoints` calls this.

        Args:
            run: a random number below 2^64, the same on all ranks. It distinguishes the profiles of these processes
                from the profiles of earlier and later processes of the job.
            number: the number of the profile within the run, counted from 1.
            profile: the profile of the same gradients, with the same sizes, on all ranks.
            deadline: seconds that the call may take.

        Returns:
            The schedule, or the reason why the profiles were rejected; the same on all ranks.

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

    def open_group(self, group: str, ranks: list[int]) -> str:
        """Returns the name of the job of a group of this job's ranks. The group's first call creates it.

        The ranks then join that job, with this job's token. It ends when all of them have called `finish`, and with
        this job at the latest.

        >>> with tributary.join(job.open_group("replicas", [0, 1])) as replicas:
        ...     replicas.ranks
        [0, 1]

        Args:
            group: an id that all ranks of the group give, and no other group of this job: 1 to 64 bytes.
            ranks: the ranks of the group, which must be on two or more hosts.

        Raises:
            TributaryError: the controller refuses, for instance because switches have no slots for another job.
        """
        return self._native.open_group(group, ranks)

    def leave(self) -> None:
        """Leaves the job, which continues without this host, or fails if it is rigid."""
        self._native.leave()

    def finish(self) -> None:
        """Leaves the job at the end of the training.

        When all members have left, the job ends. Processes that were not members then get `JobEndedError`.

        Raises:
            TributaryError: as for `close`.
        """
        self._native.finish()

    def count_collectives(self, counts: list[tuple[bool, str, str, int, int]], *, waits: bool) -> None:
        """Reports the collectives of this process since the last call, for the agent's metrics.

        Args:
            counts: for each kind of collective: true if it went over the fabric, its name, the reason if it did not,
                the number of collectives, and their bytes.
            waits: true to wait up to a second until the agent has counted them.

        Raises:
            TributaryError: the agent has not counted them; only with `waits`.
            TimeoutError: the agent has not answered.
        """
        self._native.count_collectives(counts, waits)

    def close(self) -> None:
        """Ends this process's participation. The host stays a member, so that the others can finish.

        Raises:
            TributaryError: the host has left the job, because all-reduces are in flight, or because the others may
                still finish an all-reduce that has passed its deadline here.
        """
        self._native.close()

    def __enter__(self) -> Job:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        # After an error the other members must notice at once. The connection ends without a message here, so the
        # host leaves the job.
        if kind is None:
            self.close()


def join(
    job: str | None = None,
    *,
    token: bytes | None = None,
    socket: str | os.PathLike[str] | None = None,
    elastic: bool = False,
    new_run: bool = False,
    process: int | None = None,
    processes: int | None = None,
    deadline: float | timedelta | None = None,
    waits: Callable[[str], object] | None = None,
) -> Job:
    """Joins a job, and waits until all of its members have joined.

    The defaults come from the environment, which `tributary lab run` and other launchers set.

    Args:
        job: the job's name [default: TRIBUTARY_JOB].
        token: the job's token [default: the contents of the file TRIBUTARY_TOKEN_FILE].
        socket: the socket of this host's agent [default: TRIBUTARY_SOCKET, or /run/tributary/agent.sock].
        elastic: true if this process may join a running job, and others may join while it is a member. The process
            must handle `RegroupError`.
        new_run: true if this process may begin a new run of a job whose last run is over, as after a launcher has
            restarted all processes. A job that `tributary jobs end` has ended does not begin another run. While
            processes of the last run are still in the job, joining waits up to 20 s for their end.
        process: the number of this process among the processes of this host that take part, from 0. Each of them has
            a rank of its own. They must start the same operations in the same order, and the host sends their sum
            [default: TRIBUTARY_PROCESS, or 0].
        processes: the number of processes of this host that take part, which must be equal in all of them [default:
            TRIBUTARY_PROCESSES, or 1].
        deadline: seconds that each all-reduce may take by default.
        waits: called with a description of what the process waits for, when a wait in joining or later exceeds two
            seconds, and then every five seconds. It runs in the thread that completes results, and must not wait for a
            result. If the agent sends nothing, a warning is logged as well.

    Raises:
        ValueError: an argument and its environment variable are both missing, or `process` is not one of `processes`.
        JobOverError: the job is over.
        TributaryError: the agent or the controller refuses.
    """
    name = job or os.environ.get("TRIBUTARY_JOB")
    if not name:
        raise ValueError("no job: give the job's name, or set TRIBUTARY_JOB")
    secret = token if token is not None else _token()
    process = int(os.environ.get("TRIBUTARY_PROCESS", "0")) if process is None else process
    processes = int(os.environ.get("TRIBUTARY_PROCESSES", "1")) if processes is None else processes
    most = _native.MAX_PROCESSES
    if not 0 <= process < processes <= most:
        raise ValueError(
            f"process {process} of {processes}: a host has 1 to {most} processes in a job, with numbers from 0"
        )
    terms, report = (elastic, new_run, process, processes), wait_reporter(waits)
    return Job(_native.Job.join(socket_of(socket), name, secret, terms, duration(deadline), report))


def wait_reporter(waits: Callable[[str], object] | None) -> Callable[[str, bool], None]:
    """Makes a callback that passes each wait to `waits`, if given, and logs the waits for a silent agent."""

    def report(what: str, agent_is_silent: bool) -> None:
        mark_completion_thread()
        if agent_is_silent:
            logger.warning("waiting for %s", what)
        if waits is not None:
            waits(what)

    return report


def socket_of(agent: str | os.PathLike[str] | None) -> str:
    """Returns the path of the agent's socket: `agent`, or the path from the environment."""
    return os.fspath(agent or os.environ.get("TRIBUTARY_SOCKET", DEFAULT_SOCKET))


def _token() -> bytes:
    file = os.environ.get("TRIBUTARY_TOKEN_FILE")
    if not file:
        raise ValueError("no token: give the job's token, or set TRIBUTARY_TOKEN_FILE")
    return read_token(file)


def read_token(file: str | os.PathLike[str]) -> bytes:
    """Reads the token from a file that `tributary jobs create` wrote.

    Raises:
        ValueError: the file does not contain a token.
        OSError: the file cannot be read.
    """
    text = Path(file).read_text(encoding="ascii").strip()
    try:
        return bytes.fromhex(text)
    except ValueError as error:
        raise ValueError(f"{file}: not a token: a token consists of hexadecimal digits") from error


def _regroup(generation: int, ranks: list[int], joined: list[int], leader: int, shards: list[int]) -> Regroup:
    return Regroup(generation, tuple(ranks), tuple(joined), leader, tuple(shards))


def _both(first: Callable[[], object] | None, second: Callable[[], object] | None) -> Callable[[], object] | None:
    """Returns a function that calls those of these functions that exist."""
    if first is None or second is None:
        return first or second

    def both() -> None:
        first()
        second()

    return both


def _with_precision(element_type: str, precision: str | None) -> str:
    """Returns the agent's name for elements of this type with this precision.

    Raises:
        ValueError: the precision is unknown.
    """
    wanted = precision or os.environ.get("TRIBUTARY_PRECISION") or "standard"
    if wanted not in PRECISIONS:
        source = "precision" if precision else "TRIBUTARY_PRECISION"
        raise ValueError(f'{source} "{wanted}" is unknown: give {" or ".join(PRECISIONS)}')
    return f"{element_type}_exact" if wanted == "float32" and element_type in ("f32", "f16", "bf16") else element_type


def _checked_name(name: str) -> str:
    """Returns the name of a tensor.

    Raises:
        ValueError: the name is too long.
    """
    size = len(name.encode())
    if size > LONGEST_NAME:
        raise ValueError(f"a tensor's name of {size} bytes: give at most {LONGEST_NAME} bytes")
    return name


def _checked_weight(weight: int) -> int:
    """Returns a weight.

    Raises:
        ValueError: the weight is negative or too large.
    """
    if not 0 <= weight <= LARGEST_WEIGHT:
        raise ValueError(f"a weight of {weight}: give a whole number from 0 to {LARGEST_WEIGHT}")
    return weight


def duration(seconds: float | timedelta | None) -> timedelta | None:
    """Converts seconds to a `timedelta`.

    Raises:
        ValueError: the time is not above 0, or too long.
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
