"""Tests of the predictions of `python -m tributary.profile`."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("torch", reason="PyTorch is not installed")
SCRIPT = """
import sys, time
import torch, torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

size, seconds = int(sys.argv[1]), float(sys.argv[2])
dist.init_process_group("tributary")
model = DistributedDataParallel(torch.nn.Linear(size, size))
optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
while True:
    optimizer.zero_grad()
    model(torch.ones(1, size)).sum().backward()
    time.sleep(seconds)
    optimizer.step()
"""


def profile(binary: Path, *arguments: str | Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "tributary.profile", "--tributary", str(binary), "--steps", "3"]
    return subprocess.run([*command, *arguments], capture_output=True, text=True, timeout=300, check=False)


@pytest.fixture
def script(tmp_path: Path) -> Path:
    path = tmp_path / "train.py"
    path.write_text(SCRIPT)
    return path


def test_a_script_that_waits_for_the_network_pays_off(binary: Path, script: Path) -> None:
    done = profile(binary, "--json", script, "1024", "0")
    assert done.returncode == 0, done.stderr
    prediction = json.loads(done.stdout)
    size = 4 * (1024 * 1024 + 1024)
    assert sum(prediction["watched"]["sizes"]) == size
    assert prediction["network"]["workers"] == 8
    seconds = prediction["seconds"]
    # 4 MiB over links of 50 Mbit/s take much longer than computing, even on a busy machine.
    assert seconds["gloo"] == pytest.approx(prediction["network"]["ring"] * size, rel=0.3)
    assert seconds["gain"] > 1.4
    assert seconds["pays"]


def test_a_script_that_mostly_computes_does_not_pay_off(binary: Path, script: Path) -> None:
    done = profile(binary, script, "8", "0.05")
    assert "Do not bother" in done.stdout, done.stderr
    step = re.search(r"a step takes ([0-9.]+) ms, and has 2 gradients", done.stdout)
    assert step is not None, done.stdout
    assert float(step[1]) > 40


def test_a_script_without_steps_is_an_error(binary: Path, tmp_path: Path) -> None:
    idle = tmp_path / "idle.py"
    idle.write_text("print('nothing to do')")
    done = profile(binary, idle)
    assert done.returncode == 1
    assert "the script has ended after 0 steps" in done.stderr
