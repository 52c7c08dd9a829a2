"""Runs the self-test. With the argument "wrong", rank 1 gets wrong values.

selftest.py [wrong]
"""

from __future__ import annotations

import os
import sys

import torch.distributed as dist

from tributary.selftest import main

if "wrong" in sys.argv and os.environ["RANK"] == "1":
    dist.broadcast = lambda *_, **__: None
sys.argv[1:] = ["--mebibytes", "1"]
sys.exit(main())
