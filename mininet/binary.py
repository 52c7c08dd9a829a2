"""Finds the tributary binary."""

from __future__ import annotations

import shutil
from pathlib import Path

from problem import Problem

REPOSITORY = Path(__file__).resolve().parent.parent
BUILT = "target/release/tributary"


def find_binary(given: Path | None = None) -> Path:
    """Returns the path of the tributary binary: as given, from this repository, or from the PATH."""
    if given is not None:
        binary = shutil.which(given.resolve())
    else:
        binary = shutil.which(REPOSITORY / BUILT) or shutil.which("tributary")
    if binary is None:
        raise Problem(f"there is no tributary at {given or BUILT}: `cargo build --release -p tributary` builds it")
    return Path(binary).resolve()
