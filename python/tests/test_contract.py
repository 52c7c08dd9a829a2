"""Tests of the contract of `torch.distributed`: layouts, averages, futures, hooks, the profiler."""

from __future__ import annotations

import os

import pytest
from conftest import Run

pytest.importorskip("torch", reason="PyTorch is not installed")

CHECKS = {
    "works",
    "sources",
    "batches",
    "attributes",
    "split",
    "layouts",
    "negative",
    "offsets",
    "averages",
    "integers",
    "doubles",
    "uneven",
    "order",
    "callbacks",
    "hooks",
    "profiler",
    "pipeline",
}
PROGRAMS = int(os.environ.get("TRIBUTARY_FUTURES", "30"))
"""The number of random programs; 1000 is the full run."""
ELEMENTS = int(os.environ.get("TRIBUTARY_ELEMENTS", "1000000"))
"""The number of elements whose sums are checked; 10^8 is the full run."""


@pytest.mark.parametrize(("topology", "debug"), [("two-leaves-4", "OFF"), ("two-workers", "DETAIL")])
def test_the_backend_keeps_the_contract(run: Run, topology: str, debug: str) -> None:
    lines = run("contract.py", topology=topology, environment={"TORCH_DISTRIBUTED_DEBUG": debug})
    for host in range(4 if topology == "two-leaves-4" else 2):
        passed = {check for check in CHECKS if f"w{host}: {check}: ok" in lines}
        assert passed == CHECKS, "\n".join(lines)


def test_a_run_prints_its_start_and_summary_unless_it_is_quiet(run: Run) -> None:
    lines = run("contract.py", "works")
    announced = "tributary: gradients go over the fabric: 2 ranks, 1 switch, slices of 256 values"
    assert any(announced in line for line in lines), lines
    assert any("collectives over the fabric (" in line for line in lines), lines
    quiet = run("contract.py", "works", environment={"TRIBUTARY_QUIET": "1"}, own_interpreter=False)
    assert not any("over the fabric" in line for line in quiet), quiet


def test_sums_of_adversarial_inputs_keep_the_promise_on_numbers(run: Run) -> None:
    lines = run("promise.py", "1", str(ELEMENTS))
    for host in ("w0", "w1"):
        assert f"{host}: kept: {ELEMENTS} elements" in lines, lines


def test_random_programs_of_futures_and_callbacks_end_with_the_right_sums(run: Run) -> None:
    lines = run("futures.py", "1", str(PROGRAMS))
    assert all(
        any(line.startswith(f"{host}: right: {PROGRAMS} programs") for line in lines) for host in ("w0", "w1")
    ), lines
