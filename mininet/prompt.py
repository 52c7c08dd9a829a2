"""Mininet's prompt, with commands for the fabric."""

from __future__ import annotations

import shlex

from mininet.cli import CLI
from mininet.log import error, output

from fabric import Fabric
from problem import Problem
from report import allreduce_lines


class Prompt(CLI):
    """What Mininet's prompt can, and `allreduce`, `counters` and `jobs`."""

    prompt = "mininet> "

    def __init__(self, fabric: Fabric) -> None:
        self._fabric = fabric
        # It returns when the user has left the prompt.
        super().__init__(fabric.network.mininet)

    def do_allreduce(self, line: str) -> None:
        """All workers reduce at once: allreduce [--size 1MiB] [--iterations N] [--check] [--dtype f16]"""
        try:
            reports = self._fabric.allreduce(shlex.split(line))
        except Problem as problem:
            error(f"*** Error: {problem}\n")
            return
        output("\n".join(allreduce_lines(reports)) + "\n")

    def do_counters(self, line: str) -> None:
        """The switches' counters: counters [--switch NAME] [--job NAME]"""
        self._ask("counters", line)

    def do_jobs(self, line: str) -> None:
        """The controller's jobs: jobs [list]"""
        self._ask("jobs", line or "list")

    def _ask(self, command: str, line: str) -> None:
        try:
            output(self._fabric.ask(command, *shlex.split(line)))
        except Problem as problem:
            error(f"*** Error: {problem}\n")
