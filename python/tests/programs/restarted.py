"""A training that torchrun restarts, with one process on each host. Each rank prints a line a step.

restarted.py FOLDER DEATH:RANK...    one death for each run except the last, noted in FOLDER

exit         the rank exits during the training
exception    the rank destroys its group, and raises an exception
killed       the rank is killed, and a child that it has forked stays alive
"""

from __future__ import annotations

import os
import signal
import sys
import time
from pathlib import Path

import torch
import torch.distributed as dist

STEPS = 4
FOLDER, DEATHS = Path(sys.argv[1]), sys.argv[2:]

if "TORCHELASTIC_RUN_ID" not in os.environ:
    from torch.distributed.run import main

    # This uses torchrun's own rendezvous on the first host, whose agents connect by their host names.
    ranks = ["--nnodes", os.environ["WORLD_SIZE"], "--nproc-per-node", "1"]
    meet = ["--rdzv-backend", "c10d", "--rdzv-endpoint", "w0:29400"]
    restart = ["--max-restarts", str(len(DEATHS)), "--monitor-interval", "0.1"]
    main([*ranks, *meet, *restart, *sys.argv])
    sys.exit()


def die(run: int, death: str) -> None:
    (FOLDER / f"run {run}").touch()
    match death:
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
    rank, run = dist.get_rank(), len(list(FOLDER.iterdir()))
    for step in range(STEPS):
        if run < len(DEATHS) and step == STEPS // 2:
            death, of = DEATHS[run].split(":")
            if rank == int(of):
                die(run, death)
        gradient = torch.full((1000,), float(rank + step))
        dist.all_reduce(gradient)
        print(f"run {run} step {step} sum {gradient[0]:g} {gradient[-1]:g}", flush=True)
finally:
    dist.destroy_process_group()
