"""Runs collectives over the fabric and by gloo, and prints the agent's Prometheus metrics of them."""

import urllib.request

import torch
import torch.distributed as dist

from tributary.torch.backend import backend_of

AGENT = "http://127.0.0.1:9100/metrics"

dist.init_process_group("tributary")
group = dist.new_group()
dist.all_reduce(torch.tensor([float("nan")] + 999 * [1.0]))
dist.all_reduce(torch.ones(500), op=dist.ReduceOp.MAX)
dist.all_reduce(torch.ones(250), group=group)
# Report the rest now: the counters report only once a second, and at the end.
backend_of(None).counters.report(waits=True)
with urllib.request.urlopen(AGENT, timeout=10) as answer:
    for line in answer.read().decode().splitlines():
        if line.startswith(("tributary_collectives", "tributary_agent_not_finite")):
            print(line, flush=True)
dist.barrier()
dist.destroy_process_group()
