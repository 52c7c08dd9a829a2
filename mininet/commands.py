"""Runs one command on each of several nodes, all at the same time."""

from __future__ import annotations

import subprocess
import time

from mininet.node import Node

from daemon import start_at
from problem import Problem

# The time that commands may take to end after another command has failed.
GRACE_SECONDS = 5.0
# The wait for one command before the next one is polled.
POLL_SECONDS = 0.05


def run_together(commands: dict[Node, list[str]]) -> list[str]:
    """Runs the commands and waits for all; returns their (short) standard output, in the given order."""
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    running: dict[Node, subprocess.Popen] = {}
    try:
        for node, command in commands.items():
            running[node] = start_at(node, command, **pipes)
        failed = _first_failure(running)
    finally:
        for process in running.values():
            # This has no effect on a process that has already ended.
            process.terminate()
    outputs = {node: process.communicate() for node, process in running.items()}
    if failed is not None:
        raise Problem(f"the command failed on {failed.name}: {outputs[failed][1].strip().removeprefix('error: ')}")
    return [output for output, _ in outputs.values()]


def _first_failure(running: dict[Node, subprocess.Popen]) -> Node | None:
    """Waits for all commands; if one fails, the others get some seconds to end by themselves."""
    failed: Node | None = None
    deadline: float | None = None
    waiting = dict(running)
    while waiting and (deadline is None or time.monotonic() < deadline):
        for node, process in list(waiting.items()):
            try:
                status = process.wait(POLL_SECONDS)
            except subprocess.TimeoutExpired:
                continue
            del waiting[node]
            if status != 0 and failed is None:
                failed = node
                deadline = time.monotonic() + GRACE_SECONDS
    return failed
