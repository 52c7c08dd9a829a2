"""Trains with unchanged frameworks over the fabric and over gloo, and compares the losses.

`make test-frameworks` runs these tests.
"""

from __future__ import annotations

import json
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from conftest import Run

HERE = Path(__file__).parent
RANKS = 4


@dataclass(frozen=True)
class Training:
    program: str
    package: str
    """The framework that the program needs."""
    steps: int
    tolerance: float
    """The largest relative difference of a loss."""
    gradients_by: str = "allreduce"


TRAININGS = [
    Training("accelerated.py", "accelerate", steps=50, tolerance=1e-4),
    Training("ignite_engine.py", "ignite", steps=50, tolerance=1e-4),
    Training("lightning_trainer.py", "lightning", steps=50, tolerance=1e-4),
    Training("transformers_trainer.py", "transformers", steps=50, tolerance=1e-3),
    Training("zero3.py", "deepspeed", steps=200, tolerance=1e-3, gradients_by="reduce_scatter"),
]


def train(run: Run, training: Training, backend: str) -> tuple[dict[str, Any], list[str]]:
    # DeepSpeed reads the kind of device from this variable.
    lines = run(str(HERE / training.program), backend, topology="two-leaves-4", environment={"DS_ACCELERATOR": "cpu"})
    results = [json.loads(line.removeprefix("w0: ")) for line in lines if line.startswith('w0: {"losses"')]
    assert len(results) == 1, lines
    assert results[0]["backend"] == backend, "the framework has chosen another backend"
    return results[0], lines


@pytest.mark.parametrize("training", TRAININGS, ids=lambda training: training.package)
def test_a_framework_learns_the_same_as_over_gloo(run: Run, training: Training) -> None:
    pytest.importorskip(training.package, reason=f"{training.package} is not installed")
    if training.package == "deepspeed" and shutil.which("g++") is None:
        pytest.skip("DeepSpeed compiles a part of itself with g++")
    gloo, _ = train(run, training, "gloo")
    ours, lines = train(run, training, "tributary")
    assert len(gloo["losses"]) == training.steps
    assert gloo["losses"][-1] < 0.6 * gloo["losses"][0], "the model does not learn"
    assert ours["losses"] == pytest.approx(gloo["losses"], rel=training.tolerance)
    assert ours.get("logged", {}) == pytest.approx(gloo.get("logged", {}), rel=training.tolerance)
    assert ours["same"], "the ranks' parameters differ"
    for rank in range(RANKS):
        assert any(line.startswith(f"w{rank}:   fabric: {training.gradients_by}, ") for line in lines), lines
    differences = [abs(one - other) / other for one, other in zip(ours["losses"], gloo["losses"], strict=True)]
    print(
        f"{training.package}: the last loss is {ours['losses'][-1]:.6f} over the fabric and {gloo['losses'][-1]:.6f} "
        f"over gloo; the curves are {max(differences):.1e} apart at most"
    )
