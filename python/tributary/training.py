"""A parameter server, as one of its job's workers."""

from __future__ import annotations

import os
from collections.abc import Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from datetime import timedelta
from threading import Lock
from types import TracebackType

from tributary import _native
from tributary.errors import TributaryError
from tributary.job import duration, socket_of, store
from tributary.memory import Memory, MemoryPool, SharesMemory
from tributary.values import Elements, Values


@dataclass(frozen=True, slots=True)
class Step:
    """What to compute the next gradient from, besides the parameters."""

    iteration: int
    """Which one comes next: how many of this worker's gradients the parameters contain. It is lower than expected after
    a server has gone back to its checkpoint: what is lost has to be done again."""
    updates: int
    """Updates that all workers have made to the parameters."""
    released_by: int
    """The worker whose gradient, or leaving, made the server let this one go on."""
    in_group: bool
    """Whether this worker is in a synchronous group."""


class PendingStep(Future[Step]):
    """A step that is under way. It cannot be cancelled: the server has the gradient."""

    def cancel(self) -> bool:
        """Never: see the class."""
        return False


class Training(SharesMemory):
    """A process's part in a parameter server's job, from `begin` on; it is made by `train`."""

    def __init__(self, native: _native.Training) -> None:
        self._native = native
        self._pool = MemoryPool(native)
        self._parameters: Values | None = None
        self._turn = Lock()

    @property
    def host(self) -> str:
        """This host, as the topology names it."""
        return self._native.host

    def begin(self, parameters: Values) -> Step:
        """Joins the job, and waits until its training has started.

        Args:
            parameters: float32; what the model starts from if the servers have none yet. Those of the first step take
                their place, and those of each further step, too.

        Raises:
            TypeError: parameters of another type.
            TributaryError: the agent or a server refuses; the message says why.
        """
        return self.start_begin(parameters).result()

    def push(self, gradient: Values) -> Step:
        """Hands in the gradient of the last step's iteration, and waits for the next step.

        Its parameters are where those that were given to `begin` were.

        Args:
            gradient: float32; one value for each parameter.

        Raises:
            TypeError: a gradient of another type.
            ValueError: a gradient of another size.
            TributaryError: it cannot be encoded (NaN), or a server is away for too long; the message says what to do.
        """
        return self.start_push(gradient).result()

    def start_begin(self, parameters: Values) -> PendingStep:
        """As `begin`, without waiting. The parameters are not to be touched until it has ended."""
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
        """As `push`, without waiting. Gradient and parameters are not to be touched until it has ended."""
        if self._parameters is None:
            raise TributaryError("nothing can be pushed yet: begin the training with its parameters first")
        given, target = _floats(gradient, "a gradient"), _floats(self._parameters, "parameters")
        if given.count != target.count:
            raise ValueError(f"a gradient of {given.count} values for {target.count} parameters: it has one for each")
        self._take_turn()
        try:
            return self._start(given, target)
        except BaseException:
            self._turn.release()
            raise

    def _take_turn(self) -> None:
        if not self._turn.acquire(blocking=False):
            raise TributaryError(
                "a step is under way: the next gradient is that of its parameters, so wait for it first"
            )

    def _start(self, gradient: Elements | None, parameters: Elements) -> PendingStep:
        """Starts a step; the turn is given back with its end."""
        step = PendingStep()
        step.set_running_or_notify_cancel()
        memory, offset, is_copied = self._pool.place(parameters.data)
        borrowed = [memory] if is_copied else []

        def done(outcome: tuple[int, int, int, bool] | None, error: Exception | None) -> None:
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
            place = (memory.segment, offset // 4, parameters.count)
            if gradient is None:
                self._native.begin(place, done)
            else:
                self._native.push(self._place_gradient(gradient, memory, borrowed), place, done)
        except BaseException:
            self._give_back(borrowed)
            raise
        return step

    def _place_gradient(
        self, gradient: Elements, taken: Memory, borrowed: list[Memory]
    ) -> tuple[_native.Segment, int, int]:
        """Where the agent finds the gradient, which is not to be where the parameters are."""
        found = self._pool.find(gradient.data)
        if found is not None and found[0] is not taken:
            memory, offset = found
        else:
            memory, offset = self._pool.borrow(gradient.data.nbytes), 0
            memory.view()[: gradient.data.nbytes] = gradient.data
            borrowed.append(memory)
        return memory.segment, offset // 4, gradient.count

    def _give_back(self, borrowed: list[Memory]) -> None:
        for memory in borrowed:
            self._pool.give_back(memory)

    def close(self) -> None:
        """Leaves the job; the others go on. A step that is under way ends with an error."""
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
    socket: str | os.PathLike[str] | None = None,
    patience: float | timedelta | None = None,
) -> Training:
    """Takes part in a parameter server's job through the agent of this host, from `Training.begin` on.

    Args:
        job: its name.
        worker: this worker's rank, from 0.
        servers: `HOST:PORT` of the servers; several hold a range of the parameters each, in this order on all workers.
        token: the job's token, if it has one: see `read_token`.
        codec: what gradients are encoded with: see `Codec`.
        socket: of this host's agent; else TRIBUTARY_SOCKET, or /run/tributary/agent.sock.
        patience: seconds that a server may be away; else five minutes.

    Raises:
        TributaryError: there is no agent, or it refuses; the message says why.
    """
    agent = socket_of(socket)
    return Training(_native.Training.open(agent, job, token, worker, list(servers), codec, duration(patience)))


def _floats(values: Values, what: str) -> Elements:
    elements = Elements.of(values, takes_result=what == "parameters")
    if elements.type != "f32":
        raise TypeError(f"{what} of {elements.type}: a parameter server takes float32, so convert them first")
    return elements
