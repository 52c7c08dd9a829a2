"""Runs the self-test. With the argument "wrong", rank 1 gets wrong values.

selftest.py [wrong]
"""

from __future__ import annotations

import os
import sys

import torch
import torch.distributed as dist

from tributary import selftest

broadcast = dist.broadcast


def wrong_broadcast(tensor: torch.Tensor, source: int) -> None:
    broadcast(tensor, source)
    if tensor.is_floating_point():
        tensor += 1


if "wrong" in sys.argv and os.environ["RANK"] == "1":
    dist.broadcast = wrong_broadcast
if "wrong" in sys.argv:
    # A failed test need not take as long as a passed one.
    selftest.LARGE = 5000
sys.argv[1:] = ["--mebibytes", "1"]
sys.exit(selftest.main())
