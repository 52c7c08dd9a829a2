"""A daemon at a node of the network: started, waited for, and ended by its handle."""

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

# A daemon that is not ready by then, or does not end by then, has a defect; the machine may be slow.
READY_SECONDS = 60.0
END_SECONDS = 5.0
# As many lines of a log as an error shows.
SHOWN_LINES = 5

# Should this process be killed, the kernel ends what it has started, and with the last process of a node its network
# namespace goes: nothing is left even then.
WITH_THIS_PROCESS = ["setpriv", "--pdeathsig", "TERM", "--"]


def start_at(node: Node, command: list[str], **popen: object) -> subprocess.Popen:
    """Starts a command in a node's network namespace, out of reach of the terminal: Ctrl-C is not for it."""
    enter = [*WITH_THIS_PROCESS, "mnexec", "-da", str(node.pid)]
    return node.popen(command, mncmd=enter, stdin=subprocess.DEVNULL, **popen)


class Daemon:
    """A daemon, which may not be ready yet."""

    def __init__(self, node: Node, name: str, command: list[str], folder: Path) -> None:
        self.name = name
        self.log = folder / f"{name}.log"
        self._node = node
        self._command = command
        self._notify_path = folder / f"{name}.notify"
        # Where it tells systemd, as it thinks, that it is ready.
        self._notify = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self._notify.bind(str(self._notify_path))
        # Nothing is waited for on it but readiness, and an old word is taken out before.
        self._notify.setblocking(False)
        self.process = self._launch()

    def _launch(self) -> subprocess.Popen:
        environment = dict(os.environ, NOTIFY_SOCKET=str(self._notify_path))
        with self.log.open("ab") as log:
            return start_at(self._node, self._command, stdout=log, stderr=subprocess.STDOUT, env=environment)

    def start_again(self) -> None:
        """Starts it as it was started before; it may not be ready yet."""
        if not self.has_ended():
            raise Problem(f"{self.name} runs already, as process {self.process.pid}")
        # One that nobody waited for may have left its word.
        with contextlib.suppress(BlockingIOError):
            while True:
                self._notify.recv(4096)
        self.process = self._launch()

    def kill(self) -> None:
        """Ends it at once, with SIGKILL."""
        if self.has_ended():
            raise Problem(f"{self.name} does not run: `start` starts it again")
        self.process.kill()
        self.process.wait()

    def wait_until_ready(self) -> None:
        """Waits for the daemon's own word."""
        self.wait_for(self._has_said_ready)

    def wait_for(self, is_ready: Callable[[float], bool]) -> None:
        """Waits until `is_ready(seconds)` holds, which may take so many seconds to find out."""
        deadline = time.monotonic() + READY_SECONDS
        while not is_ready(0.1):
            if self.process.poll() is not None:
                raise Problem(f"{self.name} ended (status {self.process.returncode}): {self.last_words()}")
            if time.monotonic() > deadline:
                raise Problem(f"{self.name} is not ready after {READY_SECONDS:.0f} s: {self.last_words()}")

    def _has_said_ready(self, seconds: float) -> bool:
        readable, _, _ = select.select([self._notify], [], [], seconds)
        return bool(readable) and b"READY=1" in self._notify.recv(4096).split(b"\n")

    def has_ended(self) -> bool:
        """Whether it is gone, asked or not."""
        return self.process.poll() is not None

    def last_words(self) -> str:
        """The end of its log."""
        lines = self.log.read_text(errors="replace").splitlines()
        return "\n".join(lines[-SHOWN_LINES:]) or "it said nothing"

    def stop(self) -> None:
        """Ends it: SIGTERM, and SIGKILL where that does not help."""
        self.process.terminate()
        try:
            self.process.wait(END_SECONDS)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        self._notify.close()
        # The next daemon of that name binds it anew.
        self._notify_path.unlink(missing_ok=True)
