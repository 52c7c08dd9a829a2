"""Operations in flight, and the thread that completes them."""

from __future__ import annotations

from concurrent.futures import Future
from threading import local
from typing import TypeVar

from tributary.errors import TributaryError

T = TypeVar("T")

_thread = local()


def this_thread_hands_out() -> None:
    """Marks the calling thread as the one that hands out results."""
    _thread.hands_out = True


def hands_out_results() -> bool:
    """Whether this is the thread that hands out results: a result that it waited for would never come."""
    return hasattr(_thread, "hands_out")


class Pending(Future[T]):
    """A future that cannot be cancelled, and that the thread which would complete it must not wait for."""

    def cancel(self) -> bool:
        """Never cancels; see the class."""
        return False

    def result(self, timeout: float | None = None) -> T:
        """Waits for the result.

        Raises:
            TributaryError: there is none, or this is a callback of another result.
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
            check_may_wait("this")


def check_may_wait(what: str) -> None:
    """Checks that this thread may wait: a callback with a result cannot wait for another one.

    Raises:
        TributaryError: this is the thread that hands results out.
    """
    if hands_out_results():
        raise TributaryError(
            f"{what} is under way, and a callback that is called with a result cannot wait for another one, since both "
            "come in the same thread: chain callbacks, or wait elsewhere"
        )
