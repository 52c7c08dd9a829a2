"""Operations in flight, the thread that completes them, and the threads that run users' callbacks."""

from __future__ import annotations

import atexit
import os
import sys
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future
from functools import partial
from threading import Condition, Event, Lock, Thread, current_thread, local
from typing import Any, Generic, Self, TypeVar, cast

from tributary import _native
from tributary.errors import TributaryError

T = TypeVar("T")

_thread = local()

BLOCKED_AFTER = 0.01
"""Seconds after which a callback counts as blocked, so that another thread runs the next one."""
EXIT_TIMEOUT = 5.0
"""Seconds that the end of the interpreter waits for running callbacks."""


class Callbacks:
    """Runs users' callbacks in order, in threads on which no result depends.

    A callback may wait for any event, also for the callback of another result, because another thread runs the next
    callback after `BLOCKED_AFTER` seconds. Two threads are enough for callbacks that do not block.
    """

    def __init__(self) -> None:
        self._reset()
        os.register_at_fork(after_in_child=self._reset)

    def _reset(self) -> None:
        self._queue: deque[Callable[[], object]] = deque()
        self._changed = Condition()
        self._ended = Event()
        self._taken = 0
        self._running = 0
        self._runner: Thread | None = None

    def start(self) -> None:
        """Starts the threads, unless they run.

        The operating system gives each thread the name of the thread that starts it.
        """
        with self._changed:
            if self._runner is None:
                Thread(target=self._watch, name="tributary-callback-watch", daemon=True).start()
                self._start_runner()

    def submit(self, callback: Callable[[], object]) -> None:
        """Queues a callback. Its exceptions are reported, and otherwise ignored."""
        self.start()
        with self._changed:
            if self._ended.is_set():
                return
            self._queue.append(callback)
            self._changed.notify_all()

    @property
    def have_ended(self) -> bool:
        """True if no callback will run any more."""
        return self._ended.is_set()

    def _start_runner(self) -> None:
        self._runner = Thread(target=self._run, name="tributary-callbacks", daemon=True)
        self._runner.start()

    def _run(self) -> None:
        while True:
            with self._changed:
                # If this thread's callback has blocked, another thread has replaced this thread.
                self._changed.wait_for(self._has_work_or_ended)
                if self._runner is not current_thread() or self._ended.is_set():
                    return
                callback = self._queue.popleft()
                self._taken += 1
                self._running += 1
            try:
                callback()
            except BaseException:
                sys.excepthook(*sys.exc_info())
            del callback
            with self._changed:
                self._running -= 1
                self._changed.notify_all()

    def _has_work_or_ended(self) -> bool:
        return bool(self._queue) or self._ended.is_set() or self._runner is not current_thread()

    def _watch(self) -> None:
        """Replaces the running thread whenever its callback blocks the next one."""
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._queue or self._ended.is_set())
                taken = self._taken
            if self._ended.wait(BLOCKED_AFTER):
                return
            with self._changed:
                if self._queue and self._taken == taken:
                    self._start_runner()

    def end(self) -> None:
        """Stops running callbacks, and waits up to `EXIT_TIMEOUT` seconds for the running ones.

        The interpreter must not end while a thread is in PyTorch's code and waits for the interpreter's lock.
        """
        with self._changed:
            self._ended.set()
            self._queue.clear()
            self._changed.notify_all()
            self._changed.wait_for(lambda: self._running == 0, EXIT_TIMEOUT)


callbacks = Callbacks()
"""The callbacks of this process."""
atexit.register(callbacks.end)


def mark_completion_thread() -> None:
    """Marks the calling thread as the thread that completes results."""
    _thread.completes_results = True


def is_completion_thread() -> bool:
    """Returns true in the thread that completes results. This thread must not wait for a result."""
    return hasattr(_thread, "completes_results")


class Call(Generic[T]):
    """A call to the agent that is under way.

    It ends with the native call, whose result needs no thread of Python. If there is something to do at the end, it
    ends when the thread that completes results has done it.
    """

    def __init__(
        self,
        native: _native.Call,
        what: str,
        result_of: Callable[[Any], T],
        *,
        finish: Callable[[], object] | None = None,
        at_end: Callable[[], object] | None = None,
    ) -> None:
        """Follows a native call.

        Args:
            native: the native call.
            what: the description of the call.
            result_of: returns the result of the call, from the native result, or raises an error.
            finish: called at the end of a successful call. If it raises an error, the call has failed.
            at_end: called at the end, after `finish`, successful or not.
        """
        self.what = what
        self._native = native
        self._result_of = result_of
        self._finish = finish
        self._at_end = at_end
        self._lock = Lock()
        self._outcome: tuple[T | None, Exception | None] | None = None
        self._finished: Event | None = None
        self._then: list[Callable[[], object]] = []
        if finish is not None or at_end is not None:
            self._finished = Event()
            native.on_end(self._run_finish)

    def has_ended(self) -> bool:
        """Returns true if the call has ended, successfully or not."""
        return self._finished.is_set() if self._finished is not None else self._native.has_ended()

    def wait(self, seconds: float | None = None) -> bool:
        """Waits for the end, for `seconds` at most; returns true if the call has ended.

        Raises:
            TributaryError: this is the thread that completes results.
        """
        if self.has_ended():
            return True
        check_may_wait(self.what)
        return self._finished.wait(seconds) if self._finished is not None else self._native.wait(seconds)

    def result(self) -> T:
        """Waits for the end; returns the result, or raises the call's error."""
        self.wait()
        result, error = self._settled()
        if error is not None:
            raise error
        return cast("T", result)

    def exception(self) -> Exception | None:
        """Waits for the end; returns the error, or `None`."""
        if self._outcome is None:
            self.wait()
        return self._settled()[1]

    def on_end(self, call: Callable[[], object]) -> None:
        """Calls `call` when the call has ended, in the thread that completes results or in this one."""
        if self._finished is None:
            self._native.on_end(partial(_in_completion_thread, call))
            return
        with self._lock:
            if not self._finished.is_set():
                self._then.append(call)
                return
        call()

    def _settled(self) -> tuple[T | None, Exception | None]:
        """Returns the outcome of the ended call. The first call determines it."""
        if self._outcome is not None:
            return self._outcome
        with self._lock:
            if self._outcome is None:
                try:
                    result = self._result_of(self._native.result())
                    if self._finish is not None:
                        self._finish()
                    self._outcome = result, None
                except Exception as error:
                    self._outcome = None, error
                # It may hold large tensors.
                self._finish = None
            return self._outcome

    def _run_finish(self) -> None:
        mark_completion_thread()
        self._settled()
        if self._at_end is not None:
            self._at_end()
        assert self._finished is not None
        with self._lock:
            self._finished.set()
            then, self._then = self._then, []
        for call in then:
            call()


def _in_completion_thread(call: Callable[[], object]) -> None:
    mark_completion_thread()
    call()


class Pending(Future[T]):
    """A future that cannot be cancelled. The thread that completes it must not wait for it."""

    @classmethod
    def of(cls, call: Call[T]) -> Self:
        """Returns a future of the call's result."""
        pending = cls()
        pending.set_running_or_notify_cancel()

        def end() -> None:
            error = call.exception()
            if error is not None:
                pending.set_exception(error)
            else:
                pending.set_result(call.result())

        call.on_end(end)
        return pending

    def cancel(self) -> bool:
        """Returns false, because the operation cannot be cancelled."""
        return False

    def result(self, timeout: float | None = None) -> T:
        """Waits for the result.

        Raises:
            TributaryError: the operation has failed, or this is a callback of another result.
        """
        self._check_thread()
        return super().result(timeout)

    def exception(self, timeout: float | None = None) -> BaseException | None:
        """Waits for the end; returns the error, or `None`.

        Raises:
            TributaryError: this is a callback of another result.
        """
        self._check_thread()
        return super().exception(timeout)

    def _check_thread(self) -> None:
        if not self.done():
            check_may_wait("another result")


def check_may_wait(what: str) -> None:
    """Checks that this thread may wait for a result.

    Raises:
        TributaryError: this is the thread that completes results.
    """
    if is_completion_thread():
        raise TributaryError(
            f"a callback of a result cannot wait for {what}, because the same thread completes both: "
            "chain callbacks, or wait in another thread"
        )
