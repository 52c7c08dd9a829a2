"""Exceptions that end the program."""

from __future__ import annotations


class Problem(Exception):
    """An error whose message has its place and a remedy. The program prints it and exits with status 1."""


class Stopped(SystemExit):
    """A request to end the program.

    It is not a KeyboardInterrupt, which would end only a command in Mininet's prompt. It is a SystemExit, because
    Mininet's log discards other exceptions that are raised while it writes a line.
    """
