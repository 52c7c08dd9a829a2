"""MPI_Allreduce of an unmodified program in the fabric and by Open MPI, in turns, for `tributary-paper`.

    python tools/paper/mpi.py TOPOLOGY FILE [--mbit 1000] [--rounds 3] [--most BYTES]

It makes a lab, runs `examples/mpi_latency.c` in it with and without `libtributary-mpi.so` (`make mpi`), and writes the
times to FILE. The time of a round is the median of its all-reduces, in microseconds. Without a rate, links are as fast
as this machine. It needs root and Open MPI.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import subprocess
import tempfile
from pathlib import Path
from statistics import median

ROOT = Path(__file__).resolve().parents[2]
SCRIPT = ROOT / "examples/mpirun-in-lab.sh"
LIBRARY = ROOT / "target/release/c/lib/libtributary-mpi.so"
# The algorithm that Open MPI chooses is not always its fastest.
RING = ["--mca", "coll_tuned_use_dynamic_rules", "1", "--mca", "coll_tuned_allreduce_algorithm", "4"]
IN_FABRIC = ["-x", f"LD_PRELOAD={LIBRARY}", "-x", "TRIBUTARY_MPI_THRESHOLD=0", "-x"]
WAYS = {
    "fabric": [*IN_FABRIC, "TRIBUTARY_PRECISION=standard"],
    "exact": [*IN_FABRIC, "TRIBUTARY_PRECISION=float32"],
    "open_mpi": [],
    "ring": RING,
}


def main() -> None:
    """Measures, and writes the results."""
    parser = argparse.ArgumentParser()
    parser.add_argument("topology", type=Path)
    parser.add_argument("file", type=Path)
    parser.add_argument("--mbit", type=int, help="the rate of each link in Mbit/s [default: no limit]")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--least", type=int, default=4)
    parser.add_argument("--most", type=int, default=64 << 20)
    parser.add_argument("--type", default="float", choices=["float", "double", "int", "long"])
    options = parser.parse_args()
    tributary = os.environ.get("TRIBUTARY_BINARY", str(ROOT / "target/release/tributary"))
    lab = f"mpi-{os.getpid()}"
    with tempfile.TemporaryDirectory() as folder:
        program, topology = Path(folder) / "mpi_latency", Path(folder) / "topology.toml"
        subprocess.run(["mpicc", "-O2", ROOT / "examples/mpi_latency.c", "-o", program], check=True)
        text = options.topology.read_text(encoding="utf-8")
        if options.mbit:
            text = re.sub(r'^rate = ".*"', f'rate = "{options.mbit} Mbit/s"', text, flags=re.M)
        topology.write_text(text, encoding="utf-8")
        limits = [] if options.mbit else ["--no-rates"]
        subprocess.run(
            [tributary, "lab", "up", topology, "--name", lab, *limits], check=True, stdout=subprocess.DEVNULL
        )
        try:
            run = [tributary, "lab", "run", "--name", lab, "--no-prefix", "--", str(SCRIPT), "1"]
            measured = [str(program), options.type, str(options.least), str(options.most)]
            turns = [
                {way: times(run + with_options + measured) for way, with_options in WAYS.items()}
                for _ in range(options.rounds)
            ]
        finally:
            subprocess.run([tributary, "lab", "down", lab], check=True, stdout=subprocess.DEVNULL)
    sizes = [row(size, turns) for size in turns[0]["fabric"]]
    report = {"type": options.type, "mbit": options.mbit, "sizes": sizes}
    options.file.write_text(json.dumps(report, indent=1), encoding="utf-8")


def times(command: list[str]) -> dict[int, float]:
    """Runs the program; returns the median time of each size, in microseconds."""
    output = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout
    lines = [line.split() for line in output.splitlines() if line[:1].isdigit()]
    return {int(size): float(typical) for size, typical, *_ in lines}


def row(size: int, turns: list[dict[str, dict[int, float]]]) -> dict[str, object]:
    """Returns the times of a size over the rounds, and the ratios of the fabric's to Open MPI's faster algorithm."""
    rounds = {way: [turn[way][size] for turn in turns] for way in WAYS}
    spreads = {way: {"median": median(them), "min": min(them), "max": max(them)} for way, them in rounds.items()}
    best = min(spreads["open_mpi"]["median"], spreads["ring"]["median"])
    ratios = {f"{way}_ratio": spreads[way]["median"] / best for way in ("fabric", "exact")}
    return {"bytes": size, **spreads, **ratios}


if __name__ == "__main__":
    main()
