"""Tests of gradients that are sent at time points."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from conftest import Run


def test_time_points_learn_the_same_and_follow_the_backward_pass(run: Run) -> None:
    pytest.importorskip("torch", reason="PyTorch is not installed")
    lines = run("points.py")
    results = [json.loads(line.split(": ", 1)[1]) for line in lines if ': {"points"' in line]
    assert len(results) == 2, lines
    for result in results:
        assert result["points"] == pytest.approx(result["ddp"], rel=1e-4)
        assert result["sets"] >= 3, "the layers' gradients come one after another"
        # Rank 0 adds the gradient twice, and rank 1 once, because its second pass does not use the parameter.
        assert result["seldom"] == pytest.approx(1.5)
        assert len(result["versions"]) > 1, "late sets lead to another schedule"
        assert result["gap"] > 0.15, "the gap is that of the slowest rank"
        assert result["same"], "gradients are averaged after their memory was replaced"
        words = ["others than when", "others than when", "parameter weight is of torch.complex64"]
        for refused, part in zip(result["refused"], [*words, "rank 1: 2 trained parameters, 9 elements"], strict=True):
            assert part in refused
    assert results[0]["versions"] == results[1]["versions"]
    assert any("sets are late: profiling" in line for line in lines)


def test_time_points_on_a_parameter_server_learn_the_same_as_whole_gradients(run: Run, binary: Path) -> None:
    pytest.importorskip("torch", reason="PyTorch is not installed")
    lines = run("served.py", str(binary))
    results = [json.loads(line.split(": ", 1)[1]) for line in lines if ': {"worker"' in line]
    assert len(results) == 2, lines
    for result in results:
        assert result["same"], "the bits are those of whole gradients"
        assert result["learned"]
        assert result["sets"] >= 3, "the layers' gradients come one after another"
        assert result["cleared"]
        assert result["unchanged"], "a gradient that is refused or breaks off changes nothing"
        assert result["next"] == 15
        assert result["copy"]
        words = ["NaN", "break off", "already handed in the gradient", "a copy cannot take part in the training"]
        for refused, part in zip(result["refused"], words, strict=True):
            assert part in refused
    late = next(result for result in results if result["worker"] == 1)
    assert late["version"] > 1, "late sets lead to another schedule"
    assert late["gap"] > 0.15
