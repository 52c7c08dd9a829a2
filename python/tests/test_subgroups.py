"""Tests of groups of some of the ranks, which get jobs of their own."""

from __future__ import annotations

import pytest
from conftest import Run

pytest.importorskip("torch", reason="PyTorch is not installed")


def printed(lines: list[str], label: str) -> list[str]:
    return [line.split(f": {label}: ", 1)[1] for line in lines if f": {label}: " in line]


def test_the_dimension_of_a_mesh_across_hosts_goes_over_the_fabric(run: Run) -> None:
    lines = run("subgroups.py", "mesh", ranks_per_host=2)
    assert sorted(printed(lines, "inside")) == ["3.0 1", "3.0 1", "7.0 1", "7.0 1"], lines
    assert printed(lines, "outside") == 4 * ["[2.0] 2"], lines


def test_groups_with_common_ranks_may_start_their_sums_in_any_order(run: Run) -> None:
    lines = run("subgroups.py", "interleaved", "100", ranks_per_host=2)
    assert printed(lines, "sums") == 4 * ["True"], lines


def test_a_group_without_a_job_sums_by_gloo_and_says_why(run: Run) -> None:
    lines = run("subgroups.py", "refused", job=["--window", "1024"])
    assert printed(lines, "by gloo") == 2 * ["0"], lines
    assert any("no switch has slots for job" in line for line in lines), lines


def test_the_job_of_a_group_ends_with_the_group(run: Run) -> None:
    lines = run("subgroups.py", "ends")
    names = printed(lines, "job")
    assert sorted(names) == ["lab.g1", "lab.g1", "lab.g2", "lab.g2"], lines
    assert printed(lines, "after") == 2 * ["2.0"], lines
