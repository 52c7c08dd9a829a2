"""What the tests have in common: the binary, and labs in which programs run as ranks."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PROGRAMS = Path(__file__).parent / "programs"
PATIENCE = 300
"""Seconds that a lab may take, on a machine that does other things, too."""

Run = Callable[..., list[str]]


@pytest.fixture(scope="session")
def binary() -> Path:
    binary = Path(os.environ.get("TRIBUTARY_BINARY", ROOT / "target" / "debug" / "tributary"))
    if not binary.exists():
        pytest.skip(f"there is no {binary}: build it, or set TRIBUTARY_BINARY")
    return binary


@pytest.fixture(scope="session")
def run(binary: Path) -> Run:
    """Runs one of the programs on all workers of a lab: the lines that they have said, with their hosts' names."""
    if os.geteuid() != 0 or shutil.which("ip") is None or shutil.which("ethtool") is None:
        pytest.skip("a lab needs root, iproute2 and ethtool")

    def run(
        program: str,
        *arguments: str,
        topology: str = "two-workers",
        fails: bool = False,
        environment: dict[str, str] | None = None,
    ) -> list[str]:
        lab = [binary, "lab", "run", ROOT / "topologies" / f"{topology}.toml", "--name", f"py{os.getpid()}"]
        command = [*lab, "--no-rates", "--", sys.executable, PROGRAMS / program, *arguments]
        variables = os.environ | (environment or {})
        done = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE, check=False, env=variables)
        said = done.stdout + done.stderr
        assert (done.returncode != 0) == fails, said
        return said.splitlines()

    return run
