"""Tests of the examples, which train in a lab and learn the same over both backends."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest
from conftest import PATIENCE, ROOT


@pytest.mark.usefixtures("run")
def test_an_example_learns_the_same_over_both_backends_and_the_comparison_is_drawn(
    binary: Path, tmp_path: Path
) -> None:
    if missing := [package for package in ("torch", "sklearn", "matplotlib") if find_spec(package) is None]:
        pytest.skip(f"not installed: {', '.join(missing)}")
    command = [sys.executable, ROOT / "examples" / "compare.py", "cnn.py", "--rounds", "1", "--out", tmp_path]
    command += ["--how", "ddp,bf16"]
    command += ["--topology", ROOT / "topologies" / "two-workers.toml", "--rate", "1 Gbit/s"]
    command += ["--picture", "compare.png", "--", "--epochs", "1"]
    variables = os.environ | {"TRIBUTARY_BINARY": str(binary)}
    done = subprocess.run(command, capture_output=True, text=True, timeout=2 * PATIENCE, check=False, env=variables)
    assert done.returncode == 0, done.stdout + done.stderr
    ways = json.loads((tmp_path / "compare.json").read_text())
    assert [found["how"] for found in ways] == ["ddp", "bf16"]
    for found in ways:
        assert found["ranks"] == 2
        # gloo rounds bfloat16 at each addition, the fabric once.
        rounded = found["how"] == "bf16"
        assert found["apart"] < (1e-2 if rounded else 1e-5), found
        assert found["accuracies"]["tributary"] == pytest.approx(found["accuracies"]["gloo"], abs=0.1 * rounded)
        assert found["accuracies"]["tributary"] > 0.3, found
    assert (tmp_path / "compare.png").stat().st_size > 0
    assert "of gloo's time" in done.stdout


@pytest.mark.usefixtures("run")
def test_time_points_are_measured_on_an_example_and_drawn(bench: Path, tmp_path: Path) -> None:
    if missing := [package for package in ("torch", "sklearn") if find_spec(package) is None]:
        pytest.skip(f"not installed: {', '.join(missing)}")
    picture = tmp_path / "points.svg"
    command = [bench, "schedule", "--example", ROOT / "examples" / "cnn.py", "--json", "--plot", picture]
    command += ["--topology", ROOT / "topologies" / "two-workers.toml", "--rate", "1gbit", "--python", sys.executable]
    command += ["--rounds", "1", "--steps", "2", "--buckets", "1"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    found = json.loads(done.stdout)
    assert [way["name"] for way in found["ways"]] == ["1 MiB", "one", "points", "tensor"]
    assert found["other_messages"] == 0
    assert found["sets"] >= 1
    assert f"10 gradients leave in {found['sets']} sets" in picture.read_text()
