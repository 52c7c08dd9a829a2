"""A worker's part in a parameter server's job."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import timedelta
from threading import Lock
from types import TracebackType

from tributary import _native
from tributary.errors import TributaryError
from tributary.job import duration, socket_of, store, telling
from tributary.memory import Memory, MemoryPool, SharesMemory
from tributary.pending import Pending, check_may_wait, this_thread_hands_out
from tributary.values import Elements, Values


@dataclass(frozen=True, slots=True)
class Step:
    """The data for computing the next gradient, besides the parameters."""

    iteration: int
    """The number of the next iteration: how many of this worker's gradients the parameters contain. It is lower than
    expected after a server has gone back to its checkpoint: the lost iterations have to be repeated."""
    updates: int
    """Number of updates that all workers have made to the parameters."""
    released_by: int
    """The worker whose gradient or departure made the server let this one go on."""
    in_group: bool
    """Whether this worker is in a synchronous group."""


class PendingStep(Pending[Step]):
    """A step in flight. It cannot be cancelled: the server has the gradient."""


class PendingPart(Pending[None]):
    """A part of a gradient on its way to the agent. It cannot be cancelled."""


class Training(SharesMemory):
    """A process's part in a parameter server's job, from `begin` on; it is made by `train`."""

    def __init__(self, native: _native.Training) -> None:
        self._native = native
        # A step has no deadline.
        self._pool = MemoryPool(lambda size, _: native.segment(size))
        self._parameters: Values | None = None
        self._turn = Lock()

    @property
    def host(self) -> str:
        """This host's name in the topology."""
        return self._native.host

    def begin(self, parameters: Values) -> Step:
        """Joins the job, and waits until its training has started.

        Args:
            parameters: float32; the model's start if the servers have none yet. The parameters of this and every
                further step are written to the same place.

        Raises:
            TypeError: parameters of another type.
            TributaryError: the agent or a server refuses; the message says why.
        """
        check_may_wait("a step")
        return self.start_begin(parameters).result()

    def push(self, gradient: Values) -> Step:
        """Hands in the gradient of the last step's iteration, and waits for the next step.

        The step's parameters are written to those that were given to `begin`.

        Args:
            gradient: float32; one value for each parameter.

        Raises:
            TypeError: a gradient of another type.
            ValueError: a gradient of another size.
            TributaryError: it cannot be encoded (NaN), or a server is away for too long; the message says what to do.
        """
        check_may_wait("a step")
        return self.start_push(gradient).result()

    def start_begin(self, parameters: Values) -> PendingStep:
        """As `begin`, without waiting. The parameters must not be touched until it has ended."""
        target = _floats(parameters, "parameters")
        self._take_turn()
        try:
            step = self._start(None, target)
        except BaseException:
            self._turn.release()
            raise
        self._parameters = parameters
        return step

    def start_push(self, gradient: Values) -> PendingStep:
        """As `push`, without waiting. Gradient and parameters must not be touched until it has ended."""
        given, target = _floats(gradient, "a gradient"), self._target()
        if given.count != target.count:
            raise ValueError(f"a gradient of {given.count} values for {target.count} parameters: it has one for each")
        return self._start_push(given, 0, target)

    def push_part(self, part: Values, first: int) -> None:
        """Hands in a part of the next gradient before the rest is there, and waits until the agent has read it.

        It is sent to the servers at once, unless the whole gradient goes over the fabric. Parts can be handed in in any
        order, and count once `push_rest` hands in the last one.

        Args:
            part: float32.
            first: the index of the parameter to which its first value belongs.

        Raises:
            TypeError: a part of another type.
            TributaryError: it is not inside the gradient, overlaps an earlier part, or cannot be encoded (NaN); the
                earlier ones remain.
        """
        check_may_wait("the part's delivery")
        self.start_push_part(part, first).result()

    def start_push_part(self, part: Values, first: int) -> PendingPart:
        """As `push_part`, without waiting. The part must not be touched until it has ended."""
        given = _floats(part, "a part")
        target = self._target()
        if self._turn.locked():
            raise _under_way()
        pending = PendingPart()
        pending.set_running_or_notify_cancel()
        borrowed: list[Memory] = []

        def done(_: None, error: Exception | None) -> None:
            this_thread_hands_out()
            self._give_back(borrowed)
            if error is not None:
                pending.set_exception(error)
            else:
                pending.set_result(None)

        try:
            taken = self._pool.find(target)
            self._native.push_part(self._place_gradient(given, taken and taken[0], borrowed), first, done)
        except BaseException:
            self._give_back(borrowed)
            raise
        return pending

    def push_rest(self, part: Values, first: int) -> Step:
        """As `push`, for the last part of a gradient whose other parts were handed in before.

        Args:
            part: float32; the values that the other parts lack.
            first: the index of the parameter to which its first value belongs.

        Raises:
            TypeError: a part of another type.
            TributaryError: as for `push`; or the parts are not a whole gradient, and remain.
        """
        check_may_wait("a step")
        return self.start_push_rest(part, first).result()

    def start_push_rest(self, part: Values, first: int) -> PendingStep:
        """As `push_rest`, without waiting. Parts and parameters must not be touched until it has ended."""
        return self._start_push(_floats(part, "a part"), first, self._target())

    def drop_parts(self) -> None:
        """Drops the parts that were handed in: no gradient will follow from them.

        Raises:
            TributaryError: the agent is gone.
        """
        self._native.drop_parts()

    def _target(self) -> Elements:
        """The memory to which parameters are written."""
        if self._parameters is None:
            raise TributaryError("nothing can be pushed yet: begin the training with its parameters first")
        return _floats(self._parameters, "parameters")

    def _start_push(self, given: Elements, first: int, target: Elements) -> PendingStep:
        self._take_turn()
        try:
            return self._start((given, first), target)
        except BaseException:
            self._turn.release()
            raise

    def _take_turn(self) -> None:
        if not self._turn.acquire(blocking=False):
            raise _under_way()

    def _start(self, gradient: tuple[Elements, int] | None, parameters: Elements) -> PendingStep:
        """Starts a step; the turn is released when it ends."""
        step = PendingStep()
        step.set_running_or_notify_cancel()
        memory, start, is_copied = self._pool.place(parameters)
        borrowed = [memory] if is_copied else []

        def done(outcome: tuple[int, int, int, bool] | None, error: Exception | None) -> None:
            this_thread_hands_out()
            try:
                if outcome is not None:
                    store(parameters, memory if is_copied else None)
            except Exception as problem:
                error = problem
            self._give_back(borrowed)
            self._turn.release()
            if error is not None or outcome is None:
                step.set_exception(error)
            else:
                step.set_result(Step(*outcome))

        try:
            place = (memory.segment, start, parameters.count)
            if gradient is None:
                self._native.begin(place, done)
            else:
                given, first = gradient
                self._native.push(self._place_gradient(given, memory, borrowed), first, place, done)
        except BaseException:
            self._give_back(borrowed)
            raise
        return step

    def _place_gradient(
        self, gradient: Elements, taken: Memory | None, borrowed: list[Memory]
    ) -> tuple[_native.Segment, int, int]:
        """Puts the gradient where the agent finds it, which must not be where the parameters are."""
        found = self._pool.find(gradient)
        if found is not None and found[0] is not taken:
            memory, first = found
        else:
            memory, first = self._pool.borrow(gradient.data.nbytes), 0
            memory.view()[: gradient.data.nbytes] = gradient.data
            borrowed.append(memory)
        return memory.segment, first, gradient.count

    def _give_back(self, borrowed: list[Memory]) -> None:
        for memory in borrowed:
            self._pool.give_back(memory)

    def close(self) -> None:
        """Leaves the job; the others go on. A step in flight ends with an error."""
        self._native.close()

    def __enter__(self) -> Training:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def train(
    job: str,
    *,
    worker: int,
    servers: Sequence[str],
    token: bytes = b"",
    codec: str = "none",
    parameters_codec: str = "none",
    socket: str | os.PathLike[str] | None = None,
    patience: float | timedelta | None = None,
    workers: int | None = None,
    settings: str = "",
    waits: Callable[[str], object] | None = None,
) -> Training:
    """Takes part in a parameter server's job through the agent of this host; `Training.begin` joins it.

    Args:
        job: the job's name.
        worker: this worker's rank, from 0.
        servers: `HOST:PORT` of the servers; if there are several, each holds a range of the parameters, in this order.
        token: the job's token, if it has one: see `read_token`.
        codec: the codec for gradients: see `Codec`.
        parameters_codec: the codec for parameters on their way back; it always includes error feedback.
        socket: the socket of this host's agent [default: TRIBUTARY_SOCKET, or /run/tributary/agent.sock].
        patience: seconds that a server may be away, or the agent silent [default: five minutes for servers, and no
            limit for the agent].
        workers: how many workers share the data, if this one knows: the server refuses it if its job has another
            number.
        settings: what all workers have to have in common besides, such as "seed 1": the server refuses a worker that
            says something else than those that are there. At most 255 bytes.
        waits: called with what is being waited for, once that takes longer than two seconds, and every five seconds
            then; as for `join`.

    Raises:
        TributaryError: there is no agent, or it refuses; the message says why.
    """
    agent, away = socket_of(socket), duration(patience)
    opened = _native.Training.open(
        agent, job, token, worker, list(servers), codec, parameters_codec, away, workers, settings, telling(waits)
    )
    return Training(opened)


def _floats(values: Values, what: str) -> Elements:
    elements = Elements.of(values, takes_result=what == "parameters")
    if elements.type != "f32":
        raise TypeError(f"{what} of {elements.type}: a parameter server takes float32, so convert them first")
    return elements


def _under_way() -> TributaryError:
    return TributaryError("a step is under way: the next gradient is that of its parameters, so wait for it first")
