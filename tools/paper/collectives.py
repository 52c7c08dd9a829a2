"""Reduce-scatter, all-gather and broadcast over the fabric and over gloo, in turns, for `tributary-paper`.

    tributary lab run topologies/two-leaves-4.toml -- python tools/paper/collectives.py FILE

Rank 0 writes a list to FILE: what the slowest rank took for each collective and size, in seconds, medians of the turns.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median

import torch
import torch.distributed as dist

MIB = 1 << 20
SIZES = (4 * MIB, 16 * MIB)
TURNS = 5


def main() -> None:
    """Measures on all ranks; the first rank writes the results."""
    dist.init_process_group("tributary")
    gloo = dist.new_group(backend="gloo")
    ranks, rank = dist.get_world_size(), dist.get_rank()
    rows = []
    for size in SIZES:
        whole = torch.ones(size // 4)
        part = torch.empty(whole.numel() // ranks)
        parts = whole.view(ranks, -1)

        def gather_by_broadcasts(parts: torch.Tensor = parts, part: torch.Tensor = part) -> None:
            """Does the work of an all-gather: each rank broadcasts its part."""
            parts[rank].copy_(part)
            for work in [dist.broadcast(parts[root], root, async_op=True) for root in range(ranks)]:
                work.wait()

        ways: dict[str, tuple[Callable[[], object], Callable[[], object]]] = {
            "reduce-scatter": (
                lambda part=part, whole=whole: dist.reduce_scatter_tensor(part, whole, group=gloo),
                lambda part=part, whole=whole: dist.reduce_scatter_tensor(part, whole),
            ),
            "all-gather": (
                lambda part=part, whole=whole: dist.all_gather_into_tensor(whole, part, group=gloo),
                gather_by_broadcasts,
            ),
            "broadcast": (
                lambda whole=whole: dist.broadcast(whole, 0, group=gloo),
                lambda whole=whole: dist.broadcast(whole, 0),
            ),
        }
        for name, (by_gloo, in_fabric) in ways.items():
            turns = [(slowest(by_gloo), slowest(in_fabric)) for _ in range(TURNS + 1)][1:]
            theirs, ours = (median(times) for times in zip(*turns, strict=True))
            times = {"gloo": theirs, "fabric": ours, "ratio": ours / theirs}
            rows.append({"collective": name, "ranks": ranks, "bytes": size, **times})
    if rank == 0:
        Path(sys.argv[1]).write_text(json.dumps(rows), encoding="utf-8")
    dist.destroy_process_group()


def slowest(collective: Callable[[], object]) -> float:
    """Returns the time of the slowest rank after a barrier, in seconds."""
    dist.barrier()
    began = time.perf_counter()
    collective()
    took = torch.tensor([time.perf_counter() - began])
    dist.all_reduce(took, op=dist.ReduceOp.MAX)
    return float(took)


if __name__ == "__main__":
    main()
