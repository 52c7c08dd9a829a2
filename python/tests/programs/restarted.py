"""A training under torchrun, one on each host, which has to restart once. Each rank prints a line a step.

restarted.py exit         in the first run a rank exits in the middle
restarted.py exception    it raises an exception, and destroys its group first
restarted.py killed       it is killed, and a child that it has forked lives on
"""

from __future__ import annotations

import os
import signal
import sys
import time

import torch
import torch.distributed as dist

STEPS = 4

if "TORCHELASTIC_RUN_ID" not in os.environ:
    # torchrun's own rendezvous: its agents meet on the first host, and find each other by their host names.
    ranks = ["--nnodes", os.environ["WORLD_SIZE"], "--nproc-per-node", "1"]
    meet = ["--rdzv-backend", "c10d", "--rdzv-endpoint", "w0:29400"]
    restart = ["--max-restarts", "1", "--monitor-interval", "0.1"]
    os.execv(sys.executable, [sys.executable, "-m", "torch.distributed.run", *ranks, *meet, *restart, *sys.argv])


def die() -> None:
    match sys.argv[1]:
        case "exit":
            os._exit(7)
        case "exception":
            raise ValueError("a sample cannot be read")
        case "killed":
            if os.fork() == 0:
                os.closerange(0, 3)
                time.sleep(60)
                os._exit(0)
            os.kill(os.getpid(), signal.SIGKILL)


dist.init_process_group("tributary")
try:
    rank = dist.get_rank()
    # Each torchrun counts the deaths of its own processes.
    deaths = torch.tensor(int(os.environ["TORCHELASTIC_RESTART_COUNT"]))
    dist.all_reduce(deaths)
    run = min(int(deaths), 1)
    for step in range(STEPS):
        if run == 0 and step == STEPS // 2 and rank == 1:
            die()
        gradient = torch.full((1000,), float(rank + step))
        dist.all_reduce(gradient)
        print(f"run {run} step {step} sum {gradient[0]:g} {gradient[-1]:g}", flush=True)
finally:
    dist.destroy_process_group()
