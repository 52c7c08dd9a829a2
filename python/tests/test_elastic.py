"""Tests of trainings whose ranks are killed, and in part come back."""

from __future__ import annotations

import json
from typing import Any

import pytest
from conftest import Run

pytest.importorskip("torch", reason="PyTorch is not installed")

EPOCHS = 6
STEPS = 60


@pytest.mark.parametrize(("samples", "batch_size", "shuffle"), [(240, 24, True), (1000, 128, True), (7, 100, False)])
def test_a_step_has_the_same_samples_for_any_members(samples: int, batch_size: int, shuffle: bool) -> None:
    from tributary.torch.elastic import ElasticSampler, Plan

    plan = Plan(samples, batch_size, shuffle, seed=3)
    sampler = ElasticSampler(plan)
    steps = {}
    for members in (1, 3, 4):
        shares = []
        for place in range(members):
            sampler.set_place(epoch=2, step=0, place=place, members=members)
            shares.append(list(sampler))
        steps[members] = [[sample for share in step for sample in share] for step in zip(*shares, strict=True)]
        for step in zip(*shares, strict=True):
            sizes = [len(share) for share in step]
            assert max(sizes) - min(sizes) <= 1
    assert steps[1] == steps[3] == steps[4]
    assert max(len(step) for step in steps[1]) <= batch_size
    assert sorted(sample for step in steps[1] for sample in step) == list(range(samples))
    assert (plan.order(2) == plan.order(3)) != shuffle
    # After a change, the rest of the epoch contains exactly the samples that were not processed.
    sampler.set_place(epoch=2, step=len(steps[1]) - 1, place=0, members=1)
    assert list(sampler) == steps[1][-1:]


def train(run: Run, *kills: str, topology: str = "two-workers", **settings: float) -> dict[int, dict[str, Any]]:
    """Runs a training; checks that each sample counts once an epoch, and returns the ranks' results."""
    lines = run("elastic.py", json.dumps({"epochs": EPOCHS} | settings), *kills, topology=topology)
    results = [json.loads(line.split(": ", 1)[1]) for line in lines if ': {"rank"' in line]
    assert results, lines
    assert len({result["digest"] for result in results}) == 1, lines
    for result in results:
        assert (result["least"], result["most"]) == pytest.approx((EPOCHS, EPOCHS), abs=1e-4), lines
        assert result["steps"] == STEPS, "the learning-rate scheduler makes each step once"
        assert result["rate"] == pytest.approx(3e-3 * 0.9**EPOCHS)
        assert result["members"] == sorted(one["rank"] for one in results), lines
    assert any(result["last"] < result["first"] / 2 for result in results), lines
    return {result["rank"]: result for result in results}


def test_an_elastic_training_without_failures(run: Run) -> None:
    assert len(train(run, workers=2)) == 2


def test_the_remaining_rank_continues_after_a_kill(run: Run) -> None:
    assert list(train(run, "1:13:backward:no")) == [0]


def test_a_restarted_rank_continues_with_the_others(run: Run) -> None:
    results = train(run, "0:13:after:back", pause=0.1)
    epoch, step = results[0]["came"]
    assert len(results) == 2
    assert 10 * epoch + step >= 13


def test_ranks_are_killed_while_others_join(run: Run) -> None:
    results = train(
        run, "0:8:after:back", "3:13:backward:back", "2:14:backward:no", topology="plain-middle-4", pause=0.1
    )
    assert sorted(results) == [0, 1, 3]


def test_a_training_ends_for_a_detached_rank_too(run: Run) -> None:
    settings = {"epochs": EPOCHS, "pause": 0.05, "slow": 3, "slow_from": 10}
    job = ["--degraded", "auto", "--theta", "0.3"]
    lines = run("elastic.py", json.dumps(settings), topology="plain-middle-4", job=job)
    results = {
        result["rank"]: result
        for line in lines
        if ': {"rank"' in line
        for result in [json.loads(line.split(": ", 1)[1])]
    }
    assert sorted(results) == [0, 1, 2, 3], lines
    left_out = results.pop(3)
    assert not left_out["has_state"], lines
    assert not left_out["is_leader"], lines
    assert any(line.startswith("w3: ") and "the training has ended without this rank" in line for line in lines), lines
    assert len({result["digest"] for result in results.values()}) == 1, lines
    for result in results.values():
        assert result["members"] == [0, 1, 2], lines
        assert result["has_state"], lines
        assert (result["least"], result["most"]) == pytest.approx((EPOCHS, EPOCHS), abs=1e-4), lines
        assert result["steps"] == STEPS
