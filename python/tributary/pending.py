"""What is under way, and the thread that ends it."""

from __future__ import annotations

from concurrent.futures import Future
from threading import local
from typing import TypeVar

from tributary.errors import TributaryError

T = TypeVar("T")

_thread = local()


def this_thread_hands_out() -> None:
    """To be called by the thread that hands out results."""
    _thread.hands_out = True


def hands_out_results() -> bool:
    """Whether this is the thread that hands out results: one that it waited for would never come."""
    return hasattr(_thread, "hands_out")


class Pending(Future[T]):
    """A future that cannot be cancelled, and is not waited for by the thread that would end it."""

    def cancel(self) -> bool:
        """Never: see the class."""
        return False

    def result(self, timeout: float | None = None) -> T:
        """Its result, once it is there.

        Raises:
            TributaryError: it has none, or a callback of another one waits for it.
        """
        self._check_thread()
        return super().result(timeout)

    def exception(self, timeout: float | None = None) -> BaseException | None:
        """What went wrong, if something has, once it has ended.

        Raises:
            TributaryError: a callback of another one waits for it.
        """
        self._check_thread()
        return super().exception(timeout)

    def _check_thread(self) -> None:
        if not self.done():
            check_may_wait("this")


def check_may_wait(what: str) -> None:
    """Whoever is called with a result cannot wait for another one.

    Raises:
        TributaryError: this is the thread that hands them out.
    """
    if hands_out_results():
        raise TributaryError(
            f"{what} is under way, and a callback that is called with a result cannot wait for another one, since both "
            "come in the same thread: chain callbacks, or wait elsewhere"
        )
