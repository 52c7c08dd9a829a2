"""Tests of programs as ranks of a lab: over network interfaces, switches, agents and a controller."""

from __future__ import annotations

import pytest
from conftest import Run


def test_all_types_are_summed_alone_and_many_at_once(run: Run) -> None:
    lines = sorted(run("sums.py"))
    assert [line for line in lines if line.endswith("right")] == ["w0: right", "w1: right"], lines
    assert any("gradient: rank 1 contributed NaN or infinity to element 1" in line for line in lines), lines


def test_joining_a_job_that_is_over_is_refused(run: Run) -> None:
    lines = run("rejoins.py")
    for host in ("w0", "w1"):
        assert any(line.startswith(f"{host}: raised: JobOverError the controller refuses") for line in lines), lines


def test_all_reduces_of_threads_and_very_many_at_once(run: Run) -> None:
    pytest.importorskip("torch", reason="PyTorch is not installed")
    assert [line for line in sorted(run("many.py")) if line.endswith("right")] == ["w0: right", "w1: right"]


# The small size fits into a segment that exists; for the large one the agent must open a new segment.
@pytest.mark.parametrize("size", ["1000", "100000"])
def test_a_stopped_agent_does_not_block_its_rank_beyond_a_deadline(run: Run, size: str) -> None:
    lines = run("agent_stops.py", size)
    first, second = (line.removeprefix("w1: raised: ") for line in lines if line.startswith("w1: raised: "))
    assert first.startswith("DeadlineError "), lines
    assert all(words in first for words in ("its deadline of 3 s has passed", "w1.sock has said nothing for")), lines
    assert second.startswith("AgentUnreachableError this process has left the job"), lines
    (waited,) = (line for line in lines if line.startswith("w1: waited: "))
    assert "w1.sock, which has said nothing for 2 s" in waited, lines
    assert any("waiting for the agent at" in line for line in lines), lines
    assert any(line.startswith("w0: raised: DeadlineError") for line in lines), lines


def test_nan_as_error_is_raised_on_every_rank_and_the_training_can_continue(run: Run) -> None:
    pytest.importorskip("torch", reason="PyTorch is not installed")
    lines = run("fails.py")
    for host in ("w0", "w1"):
        errors = [line for line in lines if line.startswith(f"{host}: raised: ")]
        assert len(errors) == 1, lines
        assert all(words in errors[0] for words in ("SumError", "rank 1", "element 17")), errors
        assert any(line.startswith(f"{host}: raised too: ") for line in lines), lines
    timeout = next(line for line in lines if "raised timeout: " in line)
    assert all(words in timeout for words in ("w0: ", "DeadlineError", "of (5,)", "0.05 s")), timeout


def test_the_error_names_a_dead_rank_and_no_partial_sum_is_accepted(run: Run) -> None:
    pytest.importorskip("torch", reason="PyTorch is not installed")
    lines = run("leaves.py")
    errors = [line for line in lines if line.startswith("w0: raised: ")]
    assert len(errors) == 2, lines
    assert all(words in line for line in errors for words in ("SumError", "1 of 2 ranks", "rank 1 has left")), lines
