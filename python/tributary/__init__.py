"""In-network gradient aggregation for PyTorch and NumPy.

A process takes part in a job through the agent of its host, and sums arrays or tensors over all members::

    import numpy as np
    import tributary

    with tributary.join() as job:
        gradient = np.ones(1 << 20, dtype=np.float32)
        job.all_reduce(gradient)
"""

from tributary._native import __version__
from tributary.errors import (
    AgentUnreachableError,
    DeadlineError,
    DetachedError,
    JobOverError,
    PermissionDeniedError,
    RegroupError,
    SumError,
    TributaryError,
)
from tributary.job import Job, Reduced, Reduction, Run, join

__all__ = [
    "AgentUnreachableError",
    "DeadlineError",
    "DetachedError",
    "Job",
    "JobOverError",
    "PermissionDeniedError",
    "Reduced",
    "Reduction",
    "RegroupError",
    "Run",
    "SumError",
    "TributaryError",
    "__version__",
    "join",
]
