"""The last rank closes its job while the others continue; they print their errors."""

import numpy as np

import tributary

try:
    with tributary.join(deadline=60) as job:
        job.all_reduce(np.ones(1000, dtype=np.float32), name="first")
        if job.rank == job.ranks[-1]:
            job.close()
        else:
            job.all_reduce(np.ones(1000, dtype=np.float32), name="second", deadline=3)
except tributary.TributaryError as error:
    print("raised:", type(error).__name__, error)
