"""PyTorch gloo's side of `tributary-bench allreduce`: times all-reduces, in place, and checks every sum.

    gloo.py RANK RANKS STORE ELEMENTS TYPE

The ranks meet through the file STORE, so that no control traffic is on the links. Each prints "ready" when all
have met. Then every line "N" on standard input starts N all-reduces, and is answered by one JSON object with
this rank's start (Unix time) and duration of each, in seconds. The process ends with its input. A wrong sum ends
it with status 1.
"""

import json
import sys
import time

import torch
import torch.distributed as dist


TYPES = {"f32": torch.float32, "f16": torch.float16, "bf16": torch.bfloat16}


def contribution(elements: torch.Tensor, rank: int, iteration: int) -> torch.Tensor:
    """Small integers, so that sums are exact in f32 in any order of addition. The sequence differs on every rank and
    in every iteration, so that no stale or doubled contribution goes unnoticed."""
    return ((elements * 31 + rank * (elements % 127 + 17) + iteration * 7) % 256 - 128).float()


def measure(elements: torch.Tensor, rank: int, ranks: int, iteration: int) -> tuple[float, float]:
    """Runs one all-reduce: returns its start (Unix time) and its duration, in seconds."""
    kind = TYPES[sys.argv[5]]
    values = contribution(elements, rank, iteration).to(kind)
    dist.barrier()
    began = time.time()
    started = time.perf_counter()
    dist.all_reduce(values)
    took = time.perf_counter() - started
    # The check takes processor time, so no rank checks while another one still reduces.
    dist.barrier()
    expected = sum(contribution(elements, other, iteration) for other in range(ranks))
    # Each addition in 16 bits is rounded.
    tolerance = 0.0 if kind == torch.float32 else 128 * ranks * ranks * torch.finfo(kind).eps
    wrong = ((values.float() - expected).abs() > tolerance).nonzero()
    if len(wrong) > 0:
        sys.exit(f"rank {rank}, iteration {iteration}: the sum of element {int(wrong[0])} is wrong")
    return began, took


def main() -> None:
    """Connects to the other ranks, and runs the all-reduces that standard input requests."""
    rank, ranks, elements = int(sys.argv[1]), int(sys.argv[2]), int(sys.argv[4])
    torch.set_num_threads(1)
    store = dist.FileStore(sys.argv[3], ranks)
    dist.init_process_group("gloo", store=store, rank=rank, world_size=ranks)
    places = torch.arange(elements)
    dist.barrier()
    print("ready", flush=True)
    iteration = 0
    for order in sys.stdin:
        # The warm-up: congestion windows close while other contenders have their turn.
        dist.all_reduce(torch.zeros(elements, dtype=TYPES[sys.argv[5]]))
        done = []
        for _ in range(int(order)):
            done.append(measure(places, rank, ranks, iteration))
            iteration += 1
        print(json.dumps({"checked": True, "timeline": done}), flush=True)
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
