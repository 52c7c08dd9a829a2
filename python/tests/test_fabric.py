"""Tests of programs as ranks of a lab: over network interfaces, switches, agents and a controller."""

from __future__ import annotations

import pytest
from conftest import Run


def test_all_types_are_summed_alone_and_many_at_once(run: Run) -> None:
    said = sorted(run("sums.py"))
    assert [line for line in said if line.endswith("right")] == ["w0: right", "w1: right"], said
    assert any("gradient: rank 1 contributed NaN or infinity to element 1" in line for line in said), said


def test_who_joins_a_job_that_is_over_is_told_so(run: Run) -> None:
    said = run("rejoins.py")
    for host in ("w0", "w1"):
        assert any(line.startswith(f"{host}: told: JobOverError the controller refuses") for line in said), said


def test_threads_and_very_many_at_once_are_summed(run: Run) -> None:
    pytest.importorskip("torch", reason="PyTorch is not installed")
    assert [line for line in sorted(run("many.py")) if line.endswith("right")] == ["w0: right", "w1: right"]


# The small size fits into a segment that exists; for the large one the agent must open a new segment.
@pytest.mark.parametrize("size", ["1000", "100000"])
def test_an_agent_that_is_stopped_does_not_keep_its_rank_beyond_a_deadline(run: Run, size: str) -> None:
    said = run("agent_stops.py", size)
    first, second = (line.removeprefix("w1: told: ") for line in said if line.startswith("w1: told: "))
    assert first.startswith("DeadlineError "), said
    assert all(words in first for words in ("its deadline of 3 s has passed", "w1.sock has said nothing for")), said
    assert second.startswith("AgentUnreachableError this process has left the job"), said
    (waited,) = (line for line in said if line.startswith("w1: waited: "))
    assert "w1.sock, which has said nothing for 2 s" in waited, said
    assert any("waiting for the agent at" in line for line in said), said
    assert any(line.startswith("w0: told: DeadlineError") for line in said), said


def test_what_has_no_sum_is_an_exception_on_every_rank_and_the_training_can_go_on(run: Run) -> None:
    pytest.importorskip("torch", reason="PyTorch is not installed")
    said = run("fails.py")
    for host in ("w0", "w1"):
        told = [line for line in said if line.startswith(f"{host}: told: ")]
        assert len(told) == 1, said
        assert all(words in told[0] for words in ("SumError", "rank 1", "element 17")), told
        assert any(line.startswith(f"{host}: told too: ") for line in said), said
    told = next(line for line in said if "told of time: " in line)
    assert all(words in told for words in ("w0: ", "DeadlineError", "of (5,)", "0.05 s")), told


def test_a_rank_that_dies_is_named_to_the_others_and_no_sum_without_it_is_taken_for_whole(run: Run) -> None:
    pytest.importorskip("torch", reason="PyTorch is not installed")
    said = run("leaves.py")
    told = [line for line in said if line.startswith("w0: told: ")]
    assert len(told) == 2, said
    assert all(words in line for line in told for words in ("SumError", "1 of 2 ranks", "rank 1 has left")), said
