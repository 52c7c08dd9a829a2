"""Cuts the last rank's only link; the others print their errors."""

import os
import subprocess

import torch
import torch.distributed as dist

dist.init_process_group("tributary")
dist.all_reduce(torch.ones(1000))
if dist.get_rank() == dist.get_world_size() - 1:
    subprocess.run(["ip", "link", "set", "w3-eth1", "down"], check=True)
try:
    dist.all_reduce(torch.ones(1000))
except Exception as error:
    print("raised:", type(error).__name__, error, flush=True)
os._exit(0)
