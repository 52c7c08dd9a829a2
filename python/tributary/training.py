"""Training with a parameter server, as a worker."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import timedelta
from threading import Lock
from types import TracebackType

from tributary import _native
from tributary.errors import TributaryError
from tributary.job import duration, socket_of, wait_reporter
from tributary.memory import SharedMemory, SharesMemory
from tributary.pending import Call, Pending, check_may_wait
from tributary.values import Elements, Values


@dataclass(frozen=True, slots=True)
class Step:
    """The server's answer to a gradient, besides the parameters for the next gradient."""

    iteration: int
    """The number of the next iteration, and of this worker's gradients in the parameters.

    It is lower than expected after a server has returned to its checkpoint: repeat the lost iterations.
    """
    updates: int
    """The number of updates that all workers together have made to the parameters."""
    released_by: int
    """The worker whose gradient or departure made the server release this worker."""
    in_group: bool
    """True if this worker is in a synchronous group."""


class PendingStep(Pending[Step]):
    """A step in flight. It cannot be cancelled, because the server has the gradient."""


class PendingPart(Pending[None]):
    """A part of a gradient on its way to the agent. It cannot be cancelled."""


class Training(SharesMemory):
    """This process as a worker of a parameter server's job. `train` makes it, and `begin` joins the job."""

    def __init__(self, native: _native.Training) -> None:
        self._native = native
        self._shared = SharedMemory(native.segment)
        self._parameters: Values | None = None
        self._turn = Lock()

    @property
    def host(self) -> str:
        """This host's name in the topology."""
        return self._native.host

    def begin(self, parameters: Values) -> Step:
        """Joins the job, and waits until its training has started.

        Args:
            parameters: float32; the initial parameters if the servers have none yet. The parameters of this and every
                later step are written to them.

        Raises:
            TypeError: the parameters have another type.
            TributaryError: the agent or a server refuses; the message says why.
        """
        check_may_wait("a step")
        return self.start_begin(parameters).result()

    def push(self, gradient: Values) -> Step:
        """Hands in the gradient of the current iteration, and waits for the next step.

        The step's parameters replace the values of the array or tensor that was given to `begin`.

        Args:
            gradient: float32; one value for each parameter.

        Raises:
            TypeError: the gradient has another type.
            ValueError: the gradient has another size.
            TributaryError: the gradient cannot be encoded (NaN), or a server is unreachable for too long; the message
                says what to do.
        """
        check_may_wait("a step")
        return self.start_push(gradient).result()

    def start_begin(self, parameters: Values) -> PendingStep:
        """Starts `begin` without waiting. Do not touch the parameters until the step has ended."""
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
        """Starts `push` without waiting. Do not touch gradient and parameters until the step has ended."""
        given, target = _floats(gradient, "a gradient"), self._target()
        if given.count != target.count:
            raise ValueError(f"a gradient of {given.count} values for {target.count} parameters: give one for each")
        return self._start_push(given, 0, target)

    def push_part(self, part: Values, first: int) -> None:
        """Hands in a part of the next gradient early, and waits until the agent has read it.

        The agent sends it to the servers at once, unless the whole gradient goes over the fabric. Parts may come in any
        order. They take effect when `push_rest` hands in the last part.

        Args:
            part: float32.
            first: the index of the parameter to which the first value belongs.

        Raises:
            TypeError: the part has another type.
            TributaryError: the part is not inside the gradient, overlaps an earlier part, or cannot be encoded (NaN).
                The earlier parts remain.
        """
        check_may_wait("the part's delivery")
        self.start_push_part(part, first).result()

    def start_push_part(self, part: Values, first: int) -> PendingPart:
        """Starts `push_part` without waiting. Do not touch the part until this has ended."""
        given = _floats(part, "a part")
        target = self._target()
        if self._turn.locked():
            raise _under_way()
        taken = self._shared.find(target)
        place = self._shared.place_of(given, takes_result=False, but=taken and taken[0])
        native = self._native.push_part((place, given.count), first)
        return PendingPart.of(Call(native, "the part's delivery", lambda _: None))

    def push_rest(self, part: Values, first: int) -> Step:
        """Hands in the last part of a gradient, and waits for the next step.

        Args:
            part: float32; the values that the earlier parts lack.
            first: the index of the parameter to which the first value belongs.

        Raises:
            TypeError: the part has another type.
            TributaryError: as for `push`, or the parts are not a whole gradient. The earlier parts remain in this
                case.
        """
        check_may_wait("a step")
        return self.start_push_rest(part, first).result()

    def start_push_rest(self, part: Values, first: int) -> PendingStep:
        """Starts `push_rest` without waiting. Do not touch parts and parameters until the step has ended."""
        return self._start_push(_floats(part, "a part"), first, self._target())

    def drop_parts(self) -> None:
        """Drops the parts that were handed in for the next gradient.

        Raises:
            TributaryError: the agent is unreachable.
        """
        self._native.drop_parts()

    def _target(self) -> Elements:
        """Returns the memory for the parameters of the next step."""
        if self._parameters is None:
            raise TributaryError("the training has not begun: call `begin` with the parameters first")
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
        """Starts a step. The caller has acquired the turn, and the end of the step releases it."""
        taken = self._shared.find(parameters)
        target = self._shared.place_of(parameters), parameters.count
        if gradient is None:
            native = self._native.begin(target)
        else:
            # The gradient needs a segment of its own, separate from the parameters' segment.
            given, first = gradient
            place = self._shared.place_of(given, takes_result=False, but=taken and taken[0])
            native = self._native.push((place, given.count), first, target)
        call = Call(native, "a step", lambda step: Step(*step), finish=parameters.store, at_end=self._turn.release)
        return PendingStep.of(call)

    def close(self) -> None:
        """Leaves the job, which the other workers continue. A step in flight ends with an error."""
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
    """Opens a session with a parameter server's job, through this host's agent; `Training.begin` joins it.

    Args:
        job: the job's name.
        worker: this worker's rank, from 0.
        servers: `HOST:PORT` of the servers; if there are several, each holds a range of the parameters, in this order.
        token: the job's token, if it has one: see `read_token`.
        codec: the codec for gradients: see `Codec`.
        parameters_codec: the codec for parameters; it always includes error feedback.
        socket: the socket of this host's agent [default: TRIBUTARY_SOCKET, or /run/tributary/agent.sock].
        patience: seconds that a server may be unreachable, or the agent silent [default: five minutes for servers, no
            limit for the agent].
        workers: the number of workers that share the data, if known. The server refuses this worker if its job has
            another number.
        settings: text of at most 255 bytes that must be the same on all workers, such as "seed 1". The server refuses
            a worker with another text.
        waits: called with a description of what the process waits for, as for `join`.

    Raises:
        TributaryError: the agent is unreachable, or it refuses; the message says why.
    """
    agent, away = socket_of(socket), duration(patience)
    opened = _native.Training.open(
        agent, job, token, worker, list(servers), codec, parameters_codec, away, workers, settings, wait_reporter(waits)
    )
    return Training(opened)


def _floats(values: Values, what: str) -> Elements:
    elements = Elements.of(values, takes_result=what == "parameters")
    if elements.type != "f32":
        raise TypeError(f"{what} of {elements.type}: convert to float32, the only type of a parameter server")
    return elements


def _under_way() -> TributaryError:
    return TributaryError("a step is in flight: wait for it, and compute the next gradient with its parameters")
