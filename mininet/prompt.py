"""Mininet's prompt, with commands for the fabric."""

from __future__ import annotations

import shlex
from collections.abc import Callable

from mininet.cli import CLI
from mininet.log import error, output

from fabric import Fabric
from problem import Problem
from report import allreduce_lines


class Prompt(CLI):
    """Mininet's own commands, and `allreduce`, `counters`, `jobs`, and commands that cause failures."""

    prompt = "mininet> "

    def __init__(self, fabric: Fabric) -> None:
        self._fabric = fabric
        # This returns when the user has left the prompt.
        super().__init__(fabric.network.mininet)

    def do_allreduce(self, line: str) -> None:
        """Runs an all-reduce on all workers: allreduce [--size 1MiB] [--iterations N] [--check] [--dtype f16]"""
        try:
            reports = self._fabric.allreduce(shlex.split(line))
        except Problem as problem:
            error(f"*** Error: {problem}\n")
            return
        output("\n".join(allreduce_lines(reports)) + "\n")

    def do_counters(self, line: str) -> None:
        """Shows the switches' counters: counters [--switch NAME] [--job NAME]"""
        self._show("counters", line)

    def do_jobs(self, line: str) -> None:
        """Shows the controller's jobs: jobs [list]"""
        self._show("jobs", line or "list")

    def do_kill(self, line: str) -> None:
        """Kills the daemon at a node (SIGKILL): kill leaf0"""
        self._for_each_name(line, "a node", self._fabric.kill, "{} is killed")

    def do_start(self, line: str) -> None:
        """Starts the daemon at a node again and waits until it is ready: start leaf0"""
        self._for_each_name(line, "a node", self._fabric.start_again, "{} is ready")

    def do_cut(self, line: str) -> None:
        """Cuts a link: frames over it are lost, and neither end gets an error: cut leaf0-w1"""
        self._for_each_name(line, "a link", self._fabric.links.cut, "link {} is cut")

    def do_repair(self, line: str) -> None:
        """Repairs a link that was cut: repair leaf0-w1"""
        self._for_each_name(line, "a link", self._fabric.links.repair, "link {} is repaired")

    def do_mend(self, line: str) -> None:
        """The former name of repair"""
        self.do_repair(line)

    def _for_each_name(self, line: str, what: str, do: Callable[[str], object], done: str) -> None:
        """Calls `do` for each name in the line."""
        names = line.split()
        if not names:
            error(f"*** Error: give {what}\n")
        try:
            for name in names:
                do(name)
                output(done.format(name) + "\n")
        except Problem as problem:
            error(f"*** Error: {problem}\n")

    def _show(self, command: str, line: str) -> None:
        try:
            output(self._fabric.run_tributary(command, *shlex.split(line)))
        except Problem as problem:
            error(f"*** Error: {problem}\n")
