"""Reasons to end early."""

from __future__ import annotations


class Problem(Exception):
    """An error with its place and a remedy. It is shown without a stack trace; the exit status is 1."""


class Stopped(SystemExit):
    """A request to end. It is not a KeyboardInterrupt, which would end only a command in Mininet's prompt.

    Exceptions of any other kind are swallowed by Mininet's log if they are raised while it writes a line.
    """
