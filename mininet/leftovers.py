"""Ends all processes in network namespaces, such as processes that a user left in the background."""

from __future__ import annotations

import contextlib
import os
import select
import signal
import time

# The time that processes may take to end, after each signal.
GRACE_SECONDS = 2.0


def end_processes(namespaces: set[int]) -> None:
    """Ends all processes in these namespaces with SIGTERM, and the remaining ones with SIGKILL."""
    for end in (signal.SIGTERM, signal.SIGKILL):
        handles = _handles(namespaces)
        try:
            for handle in handles:
                _send(handle, end)
            _wait(handles)
        finally:
            for handle in handles:
                os.close(handle)


def _send(handle: int, end: signal.Signals) -> None:
    # The process may have ended by itself.
    with contextlib.suppress(ProcessLookupError):
        signal.pidfd_send_signal(handle, end)


def _handles(namespaces: set[int]) -> list[int]:
    """Returns handles of all processes in these namespaces. A handle stays valid if its pid is reused."""
    handles = []
    for pid in (int(name) for name in os.listdir("/proc") if name.isdigit()):
        if not _is_inside(pid, namespaces):
            continue
        try:
            handle = os.pidfd_open(pid)
        except ProcessLookupError:
            continue
        # Check again with the open handle, because the pid may have been reused before.
        if _is_inside(pid, namespaces):
            handles.append(handle)
        else:
            os.close(handle)
    return handles


def _is_inside(pid: int, namespaces: set[int]) -> bool:
    try:
        return os.stat(f"/proc/{pid}/ns/net").st_ino in namespaces
    except OSError:
        return False  # The process has ended.


def _wait(handles: list[int]) -> None:
    """Waits until all processes have ended, or the grace period is over."""
    deadline = time.monotonic() + GRACE_SECONDS
    waiting = set(handles)
    while waiting and (left := deadline - time.monotonic()) > 0:
        ended, _, _ = select.select(waiting, [], [], left)
        waiting.difference_update(ended)
