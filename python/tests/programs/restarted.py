"""A training under torchrun, one on each host, in which a rank dies in the first runs. Each rank prints a line a step.

restarted.py RUNS       RUNS runs in all: in each but the last one a rank dies in the middle
"""

from __future__ import annotations

import os
import sys

import torch
import torch.distributed as dist

STEPS = 4

if "TORCHELASTIC_RUN_ID" not in os.environ:
    # torchrun's own rendezvous: its agents meet on the first host, and find each other by their host names.
    ranks = ["--nnodes", os.environ["WORLD_SIZE"], "--nproc-per-node", "1"]
    meet = ["--rdzv-backend", "c10d", "--rdzv-endpoint", "w0:29400"]
    restart = ["--max-restarts", "3", "--monitor-interval", "0.1"]
    os.execv(sys.executable, [sys.executable, "-m", "torch.distributed.run", *ranks, *meet, *restart, *sys.argv])

dist.init_process_group("tributary")
rank, size = dist.get_rank(), dist.get_world_size()
# Each torchrun counts the deaths of its own processes.
deaths = torch.tensor(int(os.environ["TORCHELASTIC_RESTART_COUNT"]))
dist.all_reduce(deaths)
runs, run = int(sys.argv[1]), int(deaths)
for step in range(STEPS):
    if run < runs - 1 and step == STEPS // 2 and rank == (run + 1) % size:
        os._exit(7)
    gradient = torch.full((1000,), float(rank + step))
    dist.all_reduce(gradient)
    print(f"run {run} step {step} sum {gradient[0]:g} {gradient[-1]:g}", flush=True)
dist.destroy_process_group()
