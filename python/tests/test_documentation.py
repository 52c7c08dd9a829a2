"""The examples in the docs of the package."""

from __future__ import annotations

import doctest

from conftest import Run

from tributary import codecs, schedule


def test_the_examples_of_codecs_and_schedules_are_right() -> None:
    for module in (codecs, schedule):
        result = doctest.testmod(module)
        assert result.failed == 0, module.__name__
        assert result.attempted > 0, module.__name__


def test_the_examples_of_jobs_are_right_on_all_workers(run: Run) -> None:
    counts = [int(line.rpartition(" ")[2]) for line in run("documentation.py") if "examples: " in line]
    assert len(counts) == 2
    assert min(counts) > 10
