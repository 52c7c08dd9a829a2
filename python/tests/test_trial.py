"""Tests of the trial that decides if time points stay."""

from __future__ import annotations

import json
import random

import pytest
from conftest import Run

pytest.importorskip("torch", reason="PyTorch is not installed")
from tributary.torch.timepoints.trial import SLOWER, WARM_UP, Steps, Trial

STEPS = 20


class Clock:
    """A clock in nanoseconds that a test advances."""

    now = 0

    def __call__(self) -> int:
        return self.now


def run_trial(points: float, together: float, others: random.Random, noise: float, outliers: int = 0) -> Steps:
    """Runs a trial of steps that take these times plus noise.

    Args:
        points: seconds of a step with time points.
        together: seconds of a step without them.
        others: the source of the noise.
        noise: the largest share by which a step is longer.
        outliers: the number of steps that take ten times as long.
    """
    clock = Clock()
    trial = Trial(STEPS, clock)
    slow = set(others.sample(range(trial.left), outliers))
    passes = 0
    while trial.left:
        seconds = (points if trial.at_points else together) * (1 + others.random() * noise)
        clock.now += int(seconds * 1e9 * (10 if passes in slow or passes < WARM_UP else 1))
        trial.end_pass()
        passes += 1
    assert passes == WARM_UP + 2 * STEPS
    return trial.steps


@pytest.mark.parametrize("seed", range(200))
def test_the_clearly_faster_way_stays_at_any_noise(seed: int) -> None:
    others = random.Random(seed)
    faster, outliers = others.uniform(0.3, 0.9), others.randrange(8)
    assert run_trial(faster, 1.0, others, 0.1, outliers).keeps_points
    assert not run_trial(1.0, faster, others, 0.1, outliers).keeps_points


@pytest.mark.parametrize("seed", range(50))
def test_a_machine_that_becomes_slower_during_the_trial_changes_nothing(seed: int) -> None:
    others = random.Random(seed)
    clock = Clock()
    trial = Trial(STEPS, clock)
    slower_from = others.randrange(trial.left)
    while trial.left:
        load = 1 if trial.left > slower_from else 3
        clock.now += int((0.85 if trial.at_points else 1.0) * load * 1e9)
        trial.end_pass()
    assert trial.steps.keeps_points


def test_time_points_that_are_as_fast_stay() -> None:
    assert Steps(1.0, 1.0).keeps_points
    assert Steps(0.999 * SLOWER, 1.0).keeps_points
    assert not Steps(1.001 * SLOWER, 1.0).keeps_points
    assert Steps(0.0, 0.0).keeps_points


@pytest.mark.parametrize("period", [2, 4, 8])
def test_work_in_every_nth_step_affects_both_ways(period: int) -> None:
    trial = Trial(STEPS, Clock())
    ways = []
    while trial.left:
        ways.append(trial.at_points)
        trial.end_pass()
    counted = ways[WARM_UP:]
    assert sum(counted) == STEPS == len(counted) - STEPS
    for first in range(period):
        assert len(set(counted[first::period])) == 2


def test_all_ranks_take_the_way_with_the_faster_mean(run: Run) -> None:
    lines = run("trials.py")
    results = [json.loads(line.split(": ", 1)[1]) for line in lines if ': {"slower"' in line]
    assert len(results) == 2, lines
    assert results[0] == results[1], "all ranks decide the same from the same numbers"
    (result, _) = results
    for one in (result["slower"], result["noise"], result["faster"], result["then"]):
        assert one["right"], "gradients are right in both ways"
        assert one["ways"][0] == 1 < one["ways"][-1], "both ways were run_trial"
    slower, noise, faster, then = result["slower"], result["noise"], result["faster"], result["then"]
    assert slower["sets"] == then["sets"] == 1
    assert noise["sets"] > 1
    assert faster["sets"] > 1
    assert then["version"] > faster["version"] + 1, "another profile, and the result of its trial"
    assert slower["text"].startswith("a step took 1200.0 ms at time points, 1000.0 ms with all gradients together")
    assert slower["text"].endswith("all gradients are sent together")
    assert faster["text"].endswith("time points stay")
    assert result["again"]
