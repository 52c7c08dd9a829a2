"""Stops the last rank's agent before an all-reduce; each rank prints its errors.

agent_stops.py VALUES    the number of values in the all-reduce
"""

import os
import signal
import sys

import numpy as np
from own_agent import own_agent

import tributary

DEADLINE = 3

waits: list[str] = []
job = tributary.join(waits=waits.append)
values = np.ones(1000, dtype=np.float32)
job.all_reduce(values)
is_last = job.rank == job.ranks[-1]
if is_last:
    os.kill(own_agent(), signal.SIGSTOP)
try:
    for size in (int(sys.argv[1]), 1000):
        try:
            job.all_reduce(np.ones(size, dtype=np.float32), name="gradient", deadline=DEADLINE)
        except tributary.TributaryError as error:
            print("raised:", type(error).__name__, error, flush=True)
finally:
    if is_last:
        os.kill(own_agent(), signal.SIGCONT)
if is_last:
    print("waited:", waits, flush=True)
