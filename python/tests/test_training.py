"""Tests of training with a parameter server."""

from __future__ import annotations

from pathlib import Path

from conftest import Run


def test_arrays_and_tensors_are_trained_through_the_agents(run: Run, binary: Path) -> None:
    assert sorted(run("trains.py", str(binary))) == ["w0: right", "w1: right"]
