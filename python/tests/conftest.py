"""Fixtures of all tests: the binary, and labs in which programs run as ranks."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]
PROGRAMS = Path(__file__).parent / "programs"
PATIENCE = 300
"""Seconds that a command in a lab may take, even on a busy machine."""

Run = Callable[..., list[str]]


@pytest.fixture(scope="session")
def binary() -> Path:
    binary = Path(os.environ.get("TRIBUTARY_BINARY", ROOT / "target" / "debug" / "tributary"))
    if not binary.exists():
        pytest.skip(f"there is no {binary}: build it, or set TRIBUTARY_BINARY")
    return binary


@pytest.fixture(scope="session")
def bench(binary: Path) -> Path:
    """The program that measures, beside the binary."""
    bench = binary.with_name("tributary-bench")
    if not bench.exists():
        pytest.skip(f"there is no {bench}: build it")
    return bench


def in_job(
    options: list[str],
    start: Callable[..., subprocess.CompletedProcess[str]],
    lab: list[Any],
    file: Path,
    name: str,
    command: list[Any],
) -> subprocess.CompletedProcess[str]:
    """Creates a job with these options, and runs a command in it."""
    up = start([*lab, "up", file, "--name", name, "--no-rates"])
    try:
        assert up.returncode == 0, up.stderr
        with tempfile.TemporaryDirectory() as folder:
            token = Path(folder) / "token"
            create = ["tributary", "jobs", "create", "asked-for", *options, "--token-out", token]
            created = start([*lab, "exec", "--name", name, "controller", "--", *create])
            assert created.returncode == 0, created.stderr
            variables = ["env", "TRIBUTARY_JOB=asked-for", f"TRIBUTARY_TOKEN_FILE={token}"]
            return start([*lab, "run", "--name", name, "--", *variables, *command])
    finally:
        start([*lab, "down", name])


@pytest.fixture(scope="session")
def run(binary: Path) -> Run:
    """Runs a program on all workers of a lab; returns the printed lines, each with its host's name."""
    if os.geteuid() != 0 or shutil.which("ip") is None or shutil.which("ethtool") is None:
        pytest.skip("a lab needs root, iproute2 and ethtool")

    def run(
        program: str,
        *arguments: str,
        topology: str = "two-workers",
        fails: bool = False,
        environment: dict[str, str] | None = None,
        job: list[str] | None = None,
    ) -> list[str]:
        lab, name = [binary, "lab"], f"py{os.getpid()}"
        file = ROOT / "topologies" / f"{topology}.toml"
        command = [sys.executable, PROGRAMS / program, *arguments]
        variables = os.environ | (environment or {})
        start = partial(subprocess.run, capture_output=True, text=True, timeout=PATIENCE, check=False, env=variables)
        if job is None:
            done = start([*lab, "run", file, "--name", name, "--no-rates", "--", *command])
        else:
            done = in_job(job, start, lab, file, name, command)
        output = done.stdout + done.stderr
        assert (done.returncode != 0) == fails, output
        return output.splitlines()

    return run
