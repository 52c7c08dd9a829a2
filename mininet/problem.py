"""Why this ends early."""

from __future__ import annotations


class Problem(Exception):
    """What was wrong, where, and what to do: shown without a stack trace, exit status 1."""


class Stopped(SystemExit):
    """Someone wants this to end. Not a KeyboardInterrupt: that ends a command in Mininet's prompt, and no more.
    But for these two, Mininet's log swallows what is raised while it writes a line."""
