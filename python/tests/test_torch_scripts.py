"""Tests of unchanged PyTorch scripts, which learn the same over the fabric and over gloo."""

from __future__ import annotations

import json
import shutil
from dataclasses import dataclass

import pytest
from conftest import Run

ROUNDED = ["bf16", "bf16_hook"]
"""Trainings whose gradients are rounded: once by the fabric, and at each addition by gloo."""
TRAININGS = [
    "plain", "unused", *ROUNDED, "own_hook", "zero", "uneven", "accumulate", "sharded", "replicated", "low_rank",
    "overflows", "pipelined", "groups",
]  # fmt: skip
HAS_COMPILER = shutil.which("g++") is not None


@dataclass(frozen=True)
class Trained:
    losses: dict[str, list[float]]
    same: set[str]
    """Trainings after which the parameters of all ranks have the same bits."""
    lines: list[str]


def train(run: Run, backend: str, trainings: list[str], **options: object) -> Trained:
    pytest.importorskip("torch", reason="PyTorch is not installed")
    lines = run("trainings.py", backend, *trainings, **options)
    rank_0 = "w0/0: " if options.get("ranks_per_host", 1) != 1 else "w0: "
    results = [json.loads(line.removeprefix(rank_0)) for line in lines if line.startswith(rank_0 + "{")]
    losses = {result["name"]: result["losses"] for result in results}
    assert sorted(losses) == sorted(trainings), lines
    return Trained(losses, {result["name"] for result in results if result["same"]}, lines)


def train_all(run: Run, backend: str) -> Trained:
    return train(run, backend, TRAININGS + ["compiled"] * HAS_COMPILER, topology="two-leaves-4")


@pytest.fixture(scope="module")
def gloo(run: Run) -> Trained:
    return train_all(run, "gloo")


@pytest.fixture(scope="module")
def ours(run: Run) -> Trained:
    return train_all(run, "tributary")


def test_all_ways_to_train_learn_the_same_as_over_gloo(ours: Trained, gloo: Trained) -> None:
    for name in TRAININGS:
        assert ours.losses[name] == pytest.approx(gloo.losses[name], rel=5e-3 if name in ROUNDED else 1e-5), name
    assert ours.same >= set(TRAININGS)


def test_trainings_learn_the_same_with_several_ranks_a_host(run: Run) -> None:
    names = ["plain", "bf16", "zero", "sharded", "hybrid"]
    ours, gloo = (train(run, backend, names, ranks_per_host=2) for backend in ("tributary", "gloo"))
    for name in names:
        assert ours.losses[name] == pytest.approx(gloo.losses[name], rel=5e-3 if name in ROUNDED else 1e-5), name
    assert ours.same == set(names)
    for what, ranks in (("gradients", 4), ("gradients of a group by lab.g1", 2)):
        begins = f"{what} go over the fabric: {ranks} ranks, 1 switch"
        assert any(begins in line for line in ours.lines), ours.lines


@pytest.mark.skipif(not HAS_COMPILER, reason="torch.compile needs g++")
def test_a_model_that_is_compiled_learns_the_same_as_over_gloo(ours: Trained, gloo: Trained) -> None:
    assert ours.losses["compiled"] == pytest.approx(gloo.losses["compiled"], rel=1e-5)
    assert "compiled" in ours.same


def test_the_summary_counts_traffic_by_transport(ours: Trained) -> None:
    for rank in range(4):
        summary = "\n".join(line for line in ours.lines if line.startswith(f"w{rank}: "))
        assert all(
            words in summary for words in ("collectives over the fabric", "fabric: allreduce, ", "gloo: broadcast, ")
        ), summary


def test_metrics_count_collectives_by_transport_and_reason(run: Run) -> None:
    pytest.importorskip("torch", reason="PyTorch is not installed")
    lines = run("metrics.py")
    for rank in range(2):
        for way, reason, size in [
            ("fabric", "", 4000),
            ("gloo", "the operator MAX", 2000),
            ("gloo", "the group has had no sum of 64 KiB", 1000),
        ]:
            labels = rf'job="lab",rank="{rank}",way="{way}",collective="allreduce",reason="{reason}"'
            assert f"w{rank}: tributary_collectives_bytes_total{{{labels}}} {size}" in lines, (labels, lines)
            assert f"w{rank}: tributary_collectives_total{{{labels}}} 1" in lines, (labels, lines)
        assert f'w{rank}: tributary_agent_not_finite_total{{job="lab",rank="{rank}"}} 1' in lines, lines


def test_sharded_gradients_go_over_the_fabric_bit_for_bit_as_an_all_reduce_sums_them(run: Run) -> None:
    sharded = train(run, "tributary", ["sharded", "parts_of_sums"])
    assert any("fabric: reduce_scatter, " in line for line in sharded.lines), sharded.lines
    assert not any("gloo: reduce_scatter" in line for line in sharded.lines), sharded.lines


def test_pytorchs_own_checks_of_collectives_find_nothing(run: Run) -> None:
    trainings = ["plain", "own_hook", "sharded", "groups", "parts_of_sums"]
    checked = train(run, "tributary", trainings, environment={"TORCH_DISTRIBUTED_DEBUG": "DETAIL"})
    assert checked.same == set(trainings)
    assert any("fabric: allreduce" in line for line in checked.lines), checked.lines
