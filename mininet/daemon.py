"""A daemon at a node of the network, with methods to start it, wait for it and end it."""

from __future__ import annotations

import contextlib
import os
import select
import socket
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

from mininet.node import Node

from problem import Problem

# The time that a daemon may take to be ready, or to end, even on a slow machine.
READY_SECONDS = 60.0
END_SECONDS = 5.0
# The number of last lines of a log in an error.
SHOWN_LINES = 5

# If this process is killed, the kernel ends the processes that it has started. A network namespace disappears with its
# last process, so nothing is left then.
WITH_THIS_PROCESS = ["setpriv", "--pdeathsig", "TERM", "--"]


def start_at(node: Node, command: list[str], **popen: object) -> subprocess.Popen:
    """Starts a command in a node's network namespace, in a new process group, which Ctrl-C does not reach."""
    enter = [*WITH_THIS_PROCESS, "mnexec", "-da", str(node.pid)]
    return node.popen(command, mncmd=enter, stdin=subprocess.DEVNULL, **popen)


class Daemon:
    """A daemon that may not be ready yet."""

    def __init__(self, node: Node, name: str, command: list[str], folder: Path) -> None:
        self.name = name
        self.log = folder / f"{name}.log"
        self._node = node
        self._command = command
        self._notify_path = folder / f"{name}.notify"
        # The socket on which the daemon reports that it is ready, as to systemd.
        self._notify = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self._notify.bind(str(self._notify_path))
        # Non-blocking reads let `start_again` discard old messages.
        self._notify.setblocking(False)
        self.process = self._launch()

    def _launch(self) -> subprocess.Popen:
        environment = dict(os.environ, NOTIFY_SOCKET=str(self._notify_path))
        with self.log.open("ab") as log:
            return start_at(self._node, self._command, stdout=log, stderr=subprocess.STDOUT, env=environment)

    def start_again(self) -> None:
        """Starts the daemon again with its first command; it may not be ready when this returns."""
        if not self.has_ended():
            raise Problem(f"{self.name} runs already, as process {self.process.pid}")
        # Unread messages of the previous process would be taken for messages of the new process.
        with contextlib.suppress(BlockingIOError):
            while True:
                self._notify.recv(4096)
        self.process = self._launch()

    def kill(self) -> None:
        """Kills the daemon (SIGKILL)."""
        if self.has_ended():
            raise Problem(f"{self.name} does not run: `start` starts it again")
        self.process.kill()
        self.process.wait()

    def wait_until_ready(self) -> None:
        """Waits until the daemon reports that it is ready."""
        self.wait_for(self._has_said_ready)

    def wait_for(self, is_ready: Callable[[float], bool]) -> None:
        """Waits until `is_ready(seconds)` is true. Each call may take up to `seconds`."""
        deadline = time.monotonic() + READY_SECONDS
        while not is_ready(0.1):
            if self.process.poll() is not None:
                raise Problem(f"{self.name} ended (status {self.process.returncode}): {self.log_tail()}")
            if time.monotonic() > deadline:
                raise Problem(f"{self.name} is not ready after {READY_SECONDS:.0f} s: {self.log_tail()}")

    def _has_said_ready(self, seconds: float) -> bool:
        readable, _, _ = select.select([self._notify], [], [], seconds)
        return bool(readable) and b"READY=1" in self._notify.recv(4096).split(b"\n")

    def has_ended(self) -> bool:
        """Returns True if the daemon has ended, by itself or on request."""
        return self.process.poll() is not None

    def log_tail(self) -> str:
        """Returns the last lines of the daemon's log."""
        lines = self.log.read_text(errors="replace").splitlines()
        return "\n".join(lines[-SHOWN_LINES:]) or "its log is empty"

    def stop(self) -> None:
        """Ends the daemon with SIGTERM, or with SIGKILL if it does not end in time."""
        self.process.terminate()
        try:
            self.process.wait(END_SECONDS)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        self._notify.close()
        # The next daemon with this name binds the path again.
        self._notify_path.unlink(missing_ok=True)
