"""Operations in flight, the thread that completes them, and the threads that run users' callbacks."""

from __future__ import annotations

import atexit
import os
import sys
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future
from threading import Condition, Event, Thread, current_thread, local
from typing import TypeVar

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


class Pending(Future[T]):
    """A future that cannot be cancelled. The thread that completes it must not wait for it."""

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
